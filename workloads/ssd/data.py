"""Selects the images, their views and their encoded targets: the same code for the embedded scenes
and for COCO.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import torch

from suite.input import Extent, View
from suite.workload import Run
from workloads.common.detection import synthetic_scenes
from workloads.common.detection.coco import CocoSplit, PictureObjects
from workloads.common.inputs.batches import SampleKey
from workloads.ssd.augment import augmented
from workloads.ssd.detector.default_boxes import Configuration, default_boxes, match
from workloads.ssd.scenes import SCENERY

# Legend: N pictures of a batch, B default boxes, O objects.
CALIBRATION: Final = "embedded"
"""Name of the list of calibration pictures."""
CALIBRATED: Final = 64
TRAIN_FOLDER: Final = "train2017"


Note: TypeAlias = tuple[torch.Tensor, torch.Tensor, float]
"""Encoded targets (offset_B4, label_B) and weight of a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The targets of a batch of pictures."""

    offset_NB4: torch.Tensor
    label_NB: torch.Tensor
    weight_N: torch.Tensor

    def pin_memory(self) -> "Targets":
        """Pin the memory, so that the copy to the device overlaps with computation."""
        return Targets(**{name: getattr(self, name).pin_memory() for name in self.__slots__})

    def to(self, device: torch.device) -> "Targets":
        """Copy to a device."""
        return Targets(
            **{name: getattr(self, name).to(device, non_blocking=True) for name in self.__slots__}
        )


def root(run: Run) -> Path:
    """Return the folder of a run's scenes: the user's, or the embedded one, generated at first
    use.
    """
    return run.data or synthetic_scenes.prepare_scene_folder(run.cache, SCENERY)


def calibration_names() -> Iterator[str]:
    """Yield the calibration list: the first pictures of the training split."""
    yield from (
        f"{TRAIN_FOLDER}/{synthetic_scenes.format_scene_file_name(number)}"
        for number in range(CALIBRATED)
    )


def for_eval(extent: Extent, size: int) -> View:
    """Resize to a square, whatever the picture's shape, as in the reference."""
    return View(box=(0, 0, *extent), extent=(size, size))


def learnable(split: CocoSplit, index: int) -> PictureObjects:
    """Return a picture's objects without crowds, as fractions of the picture."""
    objects = split.build_trainable_objects(index)
    height, width = split.get_picture_size(index)
    extent_4 = np.array([width, height, width, height], dtype=np.float32)
    return objects.replace_boxes(
        np.divide(objects.box_O4, extent_4, dtype=np.float32)
    ).select_objects(~objects.crowd_O)


class Shown:
    """Training's album: augmented pictures, with objects matched to default boxes."""

    def __init__(
        self, split: CocoSplit, configuration: Configuration, seed: int, tries: int
    ) -> None:
        self.split, self.size, self.seed, self.tries = split, configuration.picture_px, seed, tries
        self.default_B4 = default_boxes(configuration)

    def path(self, key: SampleKey) -> Path:
        """Return the path of a picture."""
        return self.split.path(key.index)

    def view(self, key: SampleKey, extent: Extent) -> tuple[View, Note]:
        """Return the augmented view of a picture, with its encoded targets and weight."""
        view, objects = augmented(
            extent,
            learnable(self.split, key.index),
            self.size,
            self.tries,
            key.create_generator(self.seed),
        )
        offset_B4, label_B = match(
            torch.from_numpy(objects.box_O4), torch.from_numpy(objects.label_O), self.default_B4
        )
        return view, (offset_B4, label_B, key.weight)

    def together(self, notes: Sequence[Note]) -> Targets:
        """Batch targets and weights."""
        offsets_B4, labels_B, weights = zip(*notes, strict=True)
        return Targets(
            offset_NB4=torch.stack(offsets_B4),
            label_NB=torch.stack(labels_B),
            weight_N=torch.tensor(weights),
        )


class Asked:
    """Evaluation's album: pictures without targets."""

    def __init__(self, split: CocoSplit, size: int) -> None:
        self.split, self.size = split, size

    def path(self, key: SampleKey) -> Path:
        """Return the path of a picture."""
        return self.split.path(key.index)

    def view(self, key: SampleKey, extent: Extent) -> tuple[View, None]:
        """Return the view of the whole picture."""
        return for_eval(extent, self.size), None

    def together(self, notes: Sequence[None]) -> None:
        """Return None: these pictures have no targets."""
