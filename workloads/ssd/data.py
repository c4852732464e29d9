"""Pictures and their objects in, batches with encoded targets out: the same code for the embedded scenes and for COCO."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from suite.workload import Run
from workloads.common import batches, coco, scenes
from workloads.common.batches import Key
from workloads.common.coco import Objects, Split
from workloads.common.pictures import decode
from workloads.ssd.augment import augmented
from workloads.ssd.boxes import Configuration, default_boxes, match

# Legend: N pictures of a batch, B default boxes, O objects, H height, W width, C 3 colour channels.
SCENERY: Final = scenes.Scenery(
    pictures={"train": 960, "val": 160},
    classes=("circle", "cross", "triangle"),
    extents=((128, 128), (128, 96), (96, 128)),
    mean_objects=5.0,
    most_objects=14,
    radius=(0.1, 0.28),
    crowd_share=0.08,
    empty_share=0.02,
    hue_spread=0.2,
)
CALIBRATION: Final = "embedded"
"""Name of the list of pictures that quantisation may look at."""
CALIBRATED: Final = 64
TRAIN_FOLDER: Final = "train2017"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Pictures as bytes, a quarter of what floats would take on their way; where nothing is learnt, no targets."""

    picture_NHWC: torch.Tensor
    offset_NB4: torch.Tensor
    label_NB: torch.Tensor
    weight_N: torch.Tensor

    def pin_memory(self) -> "Batch":
        """Let the copy to the device overlap with its work; DataLoader calls this."""
        pinned = {name: getattr(self, name).pin_memory() for name in self.__slots__}
        return Batch(**pinned)

    def to(self, device: torch.device) -> "Batch":
        """Copy to a device."""
        return Batch(**{name: getattr(self, name).to(device, non_blocking=True) for name in self.__slots__})


def find(run: Run, split: str) -> Split:
    """Read a split of the user's data, or of the embedded scenes."""
    return coco.read(run.data or scenes.folder(run.cache, SCENERY), split)


def calibration_names() -> Iterator[str]:
    """Yield the pictures of the calibration list: the first of the training part."""
    yield from (f"{TRAIN_FOLDER}/{scenes.file_name(number)}" for number in range(CALIBRATED))


def for_eval(picture: Image.Image, size: int) -> Image.Image:
    """Resize to a square, whatever the picture's shape, as the reference does."""
    return picture.resize((size, size), Image.Resampling.BILINEAR)


def learnable(split: Split, index: int) -> Objects:
    """Give a picture's objects without crowds, as shares of the picture."""
    objects = split.objects(index)
    height, width = split.size(index)
    extent_4 = np.array([width, height, width, height], dtype=np.float32)
    return objects.moved(np.divide(objects.box_O4, extent_4, dtype=np.float32)).keep(~objects.crowd_O)


class Shown(Dataset[Batch]):
    """Training's samples: augmented, their objects matched to default boxes; batches of one."""

    def __init__(self, split: Split, configuration: Configuration, seed: int, tries: int) -> None:
        self.split, self.size, self.seed, self.tries = split, configuration.picture_px, seed, tries
        self.default_B4 = default_boxes(configuration)

    def __getitem__(self, key: Key) -> Batch:
        whole = decode(self.split.path(key.index))
        picture, objects = augmented(whole, learnable(self.split, key.index), self.size, self.tries, key.generator(self.seed))
        offset_B4, label_B = match(torch.from_numpy(objects.box_O4), torch.from_numpy(objects.label_O), self.default_B4)
        return sample(picture, key.weight, offset_B4, label_B)


class Asked(Dataset[Batch]):
    """Evaluation's samples: pictures alone."""

    def __init__(self, split: Split, size: int) -> None:
        self.split, self.size = split, size

    def __getitem__(self, key: Key) -> Batch:
        picture = for_eval(decode(self.split.path(key.index)), self.size)
        return sample(picture, key.weight, torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))


def sample(picture: Image.Image, weight: float, offset_B4: torch.Tensor, label_B: torch.Tensor) -> Batch:
    """Make a batch of one."""
    picture_1HWC = torch.from_numpy(np.array(picture)).unsqueeze(0)
    return Batch(picture_NHWC=picture_1HWC, offset_NB4=offset_B4.unsqueeze(0), label_NB=label_B.unsqueeze(0), weight_N=torch.tensor([weight]))


def collate(samples: Sequence[Batch]) -> Batch:
    """Put samples side by side."""
    return Batch(**{name: torch.cat([getattr(each, name) for each in samples]) for name in Batch.__slots__})


Loader: TypeAlias = batches.Loader[Batch, Batch]


def loader(samples: Dataset[Batch], workers: int, *, pinned: bool) -> Loader:
    """Make the loader of one split."""
    return batches.Loader(samples, collate, workers, pinned=pinned)
