"""Selects the images and their views: the same code for the embedded data and for ImageNet.

Order and augmentation are functions of (seed, epoch, sample index), never of a worker process or
the number of workers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import torch

from suite.input import Box, Extent, View
from workloads.common.embedded_cache import create_cached_folder
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.device_copies import map_batch_tensors
from workloads.resnet50.images import embedded
from workloads.resnet50.images.imagenet import ImageNetSplit

# Legend: N images of a batch. T: mlcommons/training.
# T, image_classification, imagenet_preprocessing.py: aspect_ratio_range, width by height
REFERENCE_CROP_ASPECTS: Final = (
    0.75,
    1.33,
)
MAX_REFERENCE_CROP_TRIES: Final = 100  # as above: max_attempts
MIN_COVERED_SHARE: Final = (
    0.1  # as above: min_object_covered; without an object box, the whole image is the object
)
# Szegedy et al. 2015, section 6, as torchvision's RandomResizedCrop
UNIFORM_CROP_ASPECTS: Final = (
    3 / 4,
    4 / 3,
)
MAX_UNIFORM_CROP_TRIES: Final = 10  # torchvision, RandomResizedCrop.get_params
CROP_EXTENT_EPSILON: Final = 1e-7  # tensorflow, sample_distorted_bounding_box_op.cc: kEps
CENTRE_CROP_PERCENT: Final = (
    87.5  # percent; mlcommons/inference, dataset.py, pre_process_vgg: 224 of 256
)

LabelAndWeight: TypeAlias = tuple[int, float]
"""Label and weight of an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelBatch:
    """The targets of a batch of images."""

    label_N: torch.Tensor
    weight_N: torch.Tensor

    def pin_memory(self) -> "LabelBatch":
        """Pin the memory, so that the copy to the device overlaps with computation."""
        return map_batch_tensors(self, torch.Tensor.pin_memory)


def prepare_embedded_image_folder(cache: Path) -> Path:
    """Return the embedded data's folder, generated at first use; safe for concurrent processes."""
    return create_cached_folder(
        cache, f"resnet50-shapes-{embedded.EMBEDDED_IMAGES_VERSION}", embedded.write_embedded_images
    )


def compute_eval_short_side(size: int) -> int:
    """Return the length that the shorter side is resized to before the centre crop: 256 for 224."""
    return int(100.0 * size / CENTRE_CROP_PERCENT)


def build_centre_crop_view(extent: Extent, size: int) -> View:
    """Resize the shorter side, then crop the centre; the longer side is truncated to whole pixels,
    as in the reference.
    """
    short = compute_eval_short_side(size)
    width, height = (max(size, short * side // min(extent)) for side in extent)
    left, top = (width - size) // 2, (height - size) // 2
    return View(
        box=(0, 0, *extent), extent=(width, height), window=(left, top, left + size, top + size)
    )


def sample_resnet50_view(
    extent: Extent, size: int, smallest_area: float, crops: str, rng: np.random.Generator
) -> View:
    """Crop at random, resize, and mirror every other image."""
    box = CROP_SAMPLERS[crops](extent, smallest_area, rng)
    return View(box=box, extent=(size, size), mirrored=bool(rng.random() < 0.5))


def sample_reference_crop(extent: Extent, smallest_area: float, rng: np.random.Generator) -> Box:
    """Draw (left, top, right, bottom) as TensorFlow's sample_distorted_bounding_box does; the whole
    image if no draw fits.

    Aspect and height are uniform, not the area, and at least a tenth of the image is shown,
    whatever `smallest_area` is.
    """
    width, height = extent
    for _ in range(MAX_REFERENCE_CROP_TRIES):
        w, h = sample_crop_extent(extent, smallest_area, rng.uniform(*REFERENCE_CROP_ASPECTS), rng)
        if (
            0 < w <= width
            and 0 < h <= height
            and w * h >= max(smallest_area, MIN_COVERED_SHARE) * width * height
        ):
            left, top = (
                int(rng.integers(0, max(1, most - side)))
                for most, side in ((width, w), (height, h))
            )
            return left, top, left + w, top + h
    return 0, 0, width, height


def sample_crop_extent(
    extent: Extent, smallest_area: float, aspect: float, rng: np.random.Generator
) -> Extent:
    """Draw a height between that of the smallest area and the largest that fits; return the
    matching width, and the height.
    """
    width, height = extent
    whole = width * height / aspect
    most = min(round(math.sqrt(whole)), int((width + 0.5 - CROP_EXTENT_EPSILON) / aspect), height)
    least = min(round(math.sqrt(smallest_area * whole)), most)
    h = int(rng.integers(least, most + 1))
    return round(h * aspect), h


def sample_uniform_area_crop(extent: Extent, smallest_area: float, rng: np.random.Generator) -> Box:
    """Draw (left, top, right, bottom) with random area and aspect; the largest centred square if
    ten draws do not fit.
    """
    width, height = extent
    for _ in range(MAX_UNIFORM_CROP_TRIES):
        area = width * height * rng.uniform(smallest_area, 1.0)
        aspect = math.exp(
            rng.uniform(math.log(UNIFORM_CROP_ASPECTS[0]), math.log(UNIFORM_CROP_ASPECTS[1]))
        )
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


REFERENCE_CROPS: Final = "reference"
CROP_SAMPLERS: Final[Mapping[str, Callable[[Extent, float, np.random.Generator], Box]]] = {
    REFERENCE_CROPS: sample_reference_crop,
    "uniform-area": sample_uniform_area_crop,
}
"""Implementations of the choices of data.crops."""


class LabelledAlbum:
    """The images of one split; `seed` None selects evaluation preprocessing."""

    def __init__(
        self,
        pictures: ImageNetSplit,
        size: int,
        seed: int | None = None,
        smallest_area: float = 1.0,
        crops: str = REFERENCE_CROPS,
    ) -> None:
        self.pictures, self.size, self.seed, self.smallest_area, self.crops = (
            pictures,
            size,
            seed,
            smallest_area,
            crops,
        )

    def path(self, key: SampleKey) -> Path:
        """Return the path of an image."""
        return self.pictures.path(key.index)

    def view(self, key: SampleKey, extent: Extent) -> tuple[View, LabelAndWeight]:
        """Return the view of an image, with its label and weight."""
        note = int(self.pictures.labels[key.index]), key.weight
        if self.seed is None:
            return build_centre_crop_view(extent, self.size), note
        return (
            sample_resnet50_view(
                extent, self.size, self.smallest_area, self.crops, key.create_generator(self.seed)
            ),
            note,
        )

    def together(self, notes: Sequence[LabelAndWeight]) -> LabelBatch:
        """Batch labels and weights."""
        labels, weights = zip(*notes, strict=True)
        return LabelBatch(label_N=torch.tensor(labels), weight_N=torch.tensor(weights))
