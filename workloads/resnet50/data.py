"""Pictures in, batches out: the same code for the embedded data and for ImageNet.

Order and augmentation are functions of (seed, epoch, sample index), never of a worker process or of how many there are.
"""

import fcntl
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from workloads.resnet50 import embedded
from workloads.resnet50.pictures import Pictures

# Legend: N pictures of a batch, H height, W width, C 3 colour channels.
MEAN_C: Final = (0.485, 0.456, 0.406)  # ImageNet's channel means and deviations, as torchvision and MLPerf's PyTorch code have them
STD_C: Final = (0.229, 0.224, 0.225)
CROP_ASPECT: Final = (3 / 4, 4 / 3)  # Szegedy et al. 2015, section 6, as torchvision's RandomResizedCrop
CROP_TRIES: Final = 10  # torchvision, RandomResizedCrop.get_params
CROP_SHARE: Final = 87.5  # percent; mlcommons/inference, dataset.py, pre_process_vgg: 224 of 256

ORDER, AUGMENT = 1, 2  # what a generator draws; keeps its streams apart
Box: TypeAlias = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One sample of one epoch: all that decides what its picture looks like."""

    index: int
    epoch: int = 0
    weight: float = 1.0
    """0 for a picture that only fills up a batch."""


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
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"resnet50-shapes-{embedded.VERSION}"
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # goes with its process, however that ends
        if not folder.is_dir():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            embedded.write(partial)
            partial.rename(folder)
    return folder


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


def decode(path: Path) -> Image.Image:
    """Read a picture as RGB; ImageNet has a few in grey and in CMYK."""
    with Image.open(path) as picture:
        return picture.convert("RGB")


class Samples(Dataset[tuple[npt.NDArray[np.uint8], int, float]]):
    """Pictures by key; `seed` None means evaluation's preprocessing."""

    def __init__(self, pictures: Pictures, size: int, seed: int | None = None, smallest_area: float = 1.0) -> None:
        self.pictures, self.size, self.seed, self.smallest_area = pictures, size, seed, smallest_area

    def __getitem__(self, key: Key) -> tuple[npt.NDArray[np.uint8], int, float]:
        picture = decode(self.pictures.path(key.index))
        if self.seed is None:
            shaped = for_eval(picture, self.size)
        else:
            rng = np.random.default_rng([self.seed, key.epoch, key.index, AUGMENT])
            shaped = for_training(picture, self.size, self.smallest_area, rng)
        return np.asarray(shaped), int(self.pictures.labels[key.index]), key.weight


def collate(samples: Sequence[tuple[npt.NDArray[np.uint8], int, float]]) -> Batch:
    """Put samples side by side."""
    pictures, labels, weights = zip(*samples, strict=True)
    return Batch(picture_NHWC=torch.from_numpy(np.stack(pictures)), label_N=torch.tensor(labels), weight_N=torch.tensor(weights))


class Plan:
    """The batches of the next pass, as a list of keys each; what a DataLoader calls a batch sampler."""

    def __init__(self) -> None:
        self.batches: Sequence[list[Key]] = ()

    def __iter__(self) -> Iterator[list[Key]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class Loader:
    """One DataLoader whose workers live as long as it does, whatever it is asked for next."""

    def __init__(self, samples: Samples, workers: int, *, pinned: bool) -> None:
        self.plan = Plan()
        self.loader = DataLoader(
            samples,
            batch_sampler=self.plan,
            num_workers=workers,
            collate_fn=collate,
            persistent_workers=workers > 0,
            pin_memory=pinned,
            generator=torch.Generator(),  # making an iterator would draw from the global generator, and a resumed run would differ
        )

    def read(self, batches: Sequence[list[Key]]) -> Iterator[Batch]:
        """Yield the batches; those before them were never decoded."""
        self.plan.batches = batches
        return iter(self.loader)


def order(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Give the order of an epoch, the same on every rank."""
    return np.random.default_rng([seed, epoch, ORDER]).permutation(count)


def split(batch: npt.NDArray[np.int64], span: int, rank: int, world_size: int) -> list[npt.NDArray[np.int64]]:
    """Cut a global batch into micro-batches of at most `span`, equally many on each rank, and give this rank's."""
    rounds = math.ceil(len(batch) / (span * world_size))
    return np.array_split(batch, rounds * world_size)[rank::world_size]


def keys(part: npt.NDArray[np.int64], batch: npt.NDArray[np.int64], epoch: int) -> list[Key]:
    """Name the samples of a micro-batch. Batch-norm needs two pictures: what is missing comes from the batch again, with weight 0."""
    filling = np.resize(batch, max(0, 2 - len(part)))
    real = [Key(index=int(index), epoch=epoch) for index in part]
    return real + [Key(index=int(index), epoch=epoch, weight=0.0) for index in filling]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer step: the samples of its global batch and this rank's micro-batches."""

    samples: int
    micro_batches: tuple[list[Key], ...]


def steps(count: int, batch_size: int, span: int, seed: int, epoch: int, rank: int, world_size: int) -> list[Step]:
    """Plan an epoch; the last batch has what is left."""
    permutation = order(count, seed, epoch)
    batches = [permutation[start : start + batch_size] for start in range(0, count, batch_size)]
    return [
        Step(samples=len(batch), micro_batches=tuple(keys(part, batch, epoch) for part in split(batch, span, rank, world_size)))
        for batch in batches
    ]


def normalise(picture_NHWC: torch.Tensor) -> torch.Tensor:
    """Bytes to floats around 0, on the device they are on; N C H W in channels-last memory."""
    mean_C = torch.tensor(MEAN_C, device=picture_NHWC.device) * 255
    scale_C = 1 / (torch.tensor(STD_C, device=picture_NHWC.device) * 255)
    picture_NCHW: torch.Tensor = ((picture_NHWC.to(torch.float32) - mean_C) * scale_C).permute(0, 3, 1, 2)
    return picture_NCHW
