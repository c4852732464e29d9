"""Decodes and normalises image files."""

from pathlib import Path
from typing import Final, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from suite.input import Extent
from workloads.common.device_constants import keep_constant_on_device

# Legend: N images of a batch, H height, W width, C 3 colour channels, R a row: W times C, long
# enough to vectorise.
# ImageNet's channel means and deviations, as in torchvision and MLPerf's PyTorch code
IMAGENET_MEAN_C: Final = (
    0.485,
    0.456,
    0.406,
)
IMAGENET_STD_C: Final = (0.229, 0.224, 0.225)

BYTE_MEAN_C: Final = tuple((np.array(IMAGENET_MEAN_C, np.float32) * 255).tolist())
BYTE_SCALE_C: Final = tuple((1 / (np.array(IMAGENET_STD_C, np.float32) * 255)).tolist())
"""The same for bytes, computed in fp32 as on any device: float64 would change a last bit."""


class PictureSet(Protocol):
    """Images by number; a split's records have further fields."""

    @property
    def folder(self) -> Path:
        """Return the folder that holds them."""

    def __len__(self) -> int:
        """Count the images."""

    def path(self, index: int) -> Path:
        """Return the path of an image."""

    def get_stated_extent(self, index: int) -> Extent | None:
        """Return the width and height that the data set states for an image; None if it states
        none.
        """

    def select_images(self, wanted: npt.NDArray[np.bool_]) -> Self:
        """Return only the selected images."""


def read_rgb_picture(path: Path) -> Image.Image:
    """Read an image as RGB; ImageNet and COCO have a few in grey, and ImageNet some in CMYK."""
    with Image.open(path) as picture:
        picture.load()
    return picture if picture.mode == "RGB" else picture.convert("RGB")  # convert always copies


def normalise_pictures(picture_NHWC: torch.Tensor) -> torch.Tensor:
    """Convert bytes to normalised floats on their device; N C H W in channels-last memory."""
    return normalise_rows(
        picture_NHWC, *build_row_constants(picture_NHWC.device, picture_NHWC.shape[2])
    )


def normalise_rows(
    picture_NHWC: torch.Tensor, mean_R: torch.Tensor, scale_R: torch.Tensor
) -> torch.Tensor:
    """Do so with the constants of a row, which compiled code cannot look up."""
    row_NHR = picture_NHWC.flatten(2).to(torch.float32)  # copies, since the input is bytes
    return row_NHR.sub_(mean_R).mul_(scale_R).view(picture_NHWC.shape).permute(0, 3, 1, 2)


def build_row_constants(device: torch.device, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean and the scale of each byte of a row, which stay on their device.

    They are complete when this returns, whatever stream asks for them next: the host waits for a
    copy from memory that is not pinned.
    """
    return (
        keep_constant_on_device(BYTE_MEAN_C, device, width),
        keep_constant_on_device(BYTE_SCALE_C, device, width),
    )
