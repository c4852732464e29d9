"""Pictures in, batches out: the same code for the embedded data and for ImageNet.

Order and augmentation are functions of (seed, epoch, sample index), never of a worker process or of how many there are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset

from workloads.common import batches
from workloads.common.batches import Key
from workloads.common.cache import generated
from workloads.common.pictures import decode
from workloads.resnet50 import embedded
from workloads.resnet50.pictures import Pictures

# Legend: N pictures of a batch, H height, W width, C 3 colour channels.
CROP_ASPECT: Final = (3 / 4, 4 / 3)  # Szegedy et al. 2015, section 6, as torchvision's RandomResizedCrop
CROP_TRIES: Final = 10  # torchvision, RandomResizedCrop.get_params
CROP_SHARE: Final = 87.5  # percent; mlcommons/inference, dataset.py, pre_process_vgg: 224 of 256

Box: TypeAlias = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Pictures as bytes: a quarter of what floats would take on their way from the workers and to the device."""

    picture_NHWC: torch.Tensor
    label_N: torch.Tensor
    weight_N: torch.Tensor

    def pin_memory(self) -> "Batch":
        """Let the copy to the device overlap with its work; DataLoader calls this."""
        return Batch(picture_NHWC=self.picture_NHWC.pin_memory(), label_N=self.label_N.pin_memory(), weight_N=self.weight_N.pin_memory())


def embedded_folder(cache: Path) -> Path:
    """Give the embedded data's folder, generated at first use; several processes may ask at once."""
    return generated(cache, f"resnet50-shapes-{embedded.VERSION}", embedded.write)


def eval_short_side(size: int) -> int:
    """Give the length that the shorter side is resized to before the centre crop: 256 for 224."""
    return int(100.0 * size / CROP_SHARE)


def for_eval(picture: Image.Image, size: int) -> Image.Image:
    """Resize the shorter side, then crop the centre."""
    scale = eval_short_side(size) / min(picture.size)
    width, height = (max(size, round(side * scale)) for side in picture.size)
    left, top = (width - size) // 2, (height - size) // 2
    return picture.resize((width, height), Image.Resampling.BILINEAR).crop((left, top, left + size, top + size))


def for_training(picture: Image.Image, size: int, smallest_area: float, rng: np.random.Generator) -> Image.Image:
    """Crop at random, resize, flip every other picture."""
    box = random_box(picture.size, smallest_area, rng)
    cropped = picture.resize((size, size), Image.Resampling.BILINEAR, box=box)
    return cropped.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else cropped


def random_box(extent: tuple[int, int], smallest_area: float, rng: np.random.Generator) -> Box:
    """Draw (left, top, right, bottom): area and aspect at random, the largest centred box when ten draws do not fit."""
    width, height = extent
    for _ in range(CROP_TRIES):
        area = width * height * rng.uniform(smallest_area, 1.0)
        aspect = math.exp(rng.uniform(math.log(CROP_ASPECT[0]), math.log(CROP_ASPECT[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1))
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


class Samples(Dataset[tuple[npt.NDArray[np.uint8], int, float]]):
    """Pictures by key; `seed` None means evaluation's preprocessing."""

    def __init__(self, pictures: Pictures, size: int, seed: int | None = None, smallest_area: float = 1.0) -> None:
        self.pictures, self.size, self.seed, self.smallest_area = pictures, size, seed, smallest_area

    def __getitem__(self, key: Key) -> tuple[npt.NDArray[np.uint8], int, float]:
        picture = decode(self.pictures.path(key.index))
        shaped = for_eval(picture, self.size) if self.seed is None else self._augmented(picture, key.generator(self.seed))
        return np.asarray(shaped), int(self.pictures.labels[key.index]), key.weight

    def _augmented(self, picture: Image.Image, rng: np.random.Generator) -> Image.Image:
        return for_training(picture, self.size, self.smallest_area, rng)


def collate(samples: Sequence[tuple[npt.NDArray[np.uint8], int, float]]) -> Batch:
    """Put samples side by side."""
    pictures, labels, weights = zip(*samples, strict=True)
    return Batch(picture_NHWC=torch.from_numpy(np.stack(pictures)), label_N=torch.tensor(labels), weight_N=torch.tensor(weights))


Loader: TypeAlias = batches.Loader[tuple[npt.NDArray[np.uint8], int, float], Batch]


def loader(samples: Samples, workers: int, *, pinned: bool) -> Loader:
    """Make the loader of one split."""
    return batches.Loader(samples, collate, workers, pinned=pinned)
