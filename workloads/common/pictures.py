"""Picture files: decoded, normalised, and looked over before any clock runs."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from suite.errors import RequestError
from suite.workload import Run
from workloads.common import parallel

# Legend: N pictures of a batch, H height, W width, C 3 colour channels, R a row: W times C, long enough to be worked on in vectors.
MEAN_C: Final = (0.485, 0.456, 0.406)  # ImageNet's channel means and deviations, as torchvision and MLPerf's PyTorch code have them
STD_C: Final = (0.229, 0.224, 0.225)

NAMED: Final = 5  # broken files that a message names; the rest are counted
SCAN_THREADS: Final = 16  # reading many small files waits for the disk more than it computes
JPEG_END: Final = b"\xff\xd9"  # ITU-T T.81, table B.1: end of image
TAIL_BYTES: Final = 4096  # some of ImageNet's files carry a few bytes behind the end marker
DEEP_LIMIT: Final = 20_000  # up to so many pictures are decoded fully; ImageNet would take most of an hour


class PictureSet(Protocol):
    """Pictures by number; records of a split have more beside."""

    @property
    def folder(self) -> Path:
        """Say where they lie."""

    def __len__(self) -> int:
        """Count the pictures."""

    def path(self, index: int) -> Path:
        """Say where a picture lies."""

    def keep(self, wanted: npt.NDArray[np.bool_]) -> Self:
        """Leave out the pictures that are not wanted."""


P = TypeVar("P", bound=PictureSet)


def decode(path: Path) -> Image.Image:
    """Read a picture as RGB; ImageNet and COCO have a few in grey, ImageNet some in CMYK."""
    with Image.open(path) as picture:
        picture.load()
    return picture if picture.mode == "RGB" else picture.convert("RGB")  # converting copies, whatever is there


def normalise(picture_NHWC: torch.Tensor) -> torch.Tensor:
    """Bytes to floats around 0, on the device they are on; N C H W in channels-last memory."""
    width = picture_NHWC.shape[2]
    mean_C = torch.tensor(MEAN_C, device=picture_NHWC.device) * 255
    scale_C = 1 / (torch.tensor(STD_C, device=picture_NHWC.device) * 255)
    row_NHR = picture_NHWC.flatten(2).to(torch.float32)  # a copy, since they are bytes
    return row_NHR.sub_(mean_C.repeat(width)).mul_(scale_C.repeat(width)).view(picture_NHWC.shape).permute(0, 3, 1, 2)


def looked_over(pictures: P, run: Run, *, skip: bool) -> P:
    """Let each rank look at its share, and all of them come to the same end."""
    bad = broken(pictures, range(run.rank, len(pictures), run.world_size))
    return settle(pictures, parallel.gathered(bad, run.world_size), skip=skip)


def broken(pictures: PictureSet, indices: Sequence[int]) -> list[int]:
    """Find the pictures among `indices` that cannot be read."""
    deep = len(pictures) <= DEEP_LIMIT
    with ThreadPoolExecutor(SCAN_THREADS) as pool:
        verdicts = pool.map(lambda index: readable(pictures.path(index), deep=deep), indices)
        return [index for index, good in zip(indices, verdicts, strict=True) if not good]


def readable(path: Path, *, deep: bool) -> bool:
    """Look at the header and the end marker; where `deep`, decode the picture."""
    try:
        with Image.open(path) as picture:
            if deep:
                picture.load()
            return picture.format != "JPEG" or _ends(path)  # one of ImageNet's .JPEG files is a PNG
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # what Pillow raises for damaged files
        return False


def _ends(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        return JPEG_END in file.read()


def settle(pictures: P, bad: Sequence[int], *, skip: bool) -> P:
    """Leave the broken pictures out where that is asked for; refuse the run where it is not."""
    if not bad:
        return pictures
    if not skip:
        named = listed(str(pictures.path(index)) for index in sorted(bad))
        raise RequestError(f"{len(bad)} of {len(pictures)} pictures cannot be read: {named}; --set data.skip_broken=true leaves them out")
    wanted = np.ones(len(pictures), dtype=np.bool_)
    wanted[list(bad)] = False
    if not wanted.any():
        raise RequestError(f"{pictures.folder}: none of {len(pictures)} pictures can be read")
    return pictures.keep(wanted)


def listed(names: Iterable[str]) -> str:
    """Name the first few, and count the rest."""
    shown = list(names)
    more = f" and {len(shown) - NAMED} more" if len(shown) > NAMED else ""
    return ", ".join(shown[:NAMED]) + more
