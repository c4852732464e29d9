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
from workloads.ssd.augment import sample_augmented_view
from workloads.ssd.detector.default_boxes import (
    SSDConfiguration,
    build_default_boxes,
    match_default_boxes,
)
from workloads.ssd.scenes import SSD_SCENES

# Legend: N images of a batch, B default boxes, O objects.
SSD_CALIBRATION_LIST: Final = "embedded"
"""Name of the list of calibration images."""
SSD_CALIBRATION_PICTURES: Final = 64
SSD_TRAIN_FOLDER: Final = "train2017"


EncodedTargets: TypeAlias = tuple[torch.Tensor, torch.Tensor, float]
"""Encoded targets (offset_B4, label_B) and weight of an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SSDTargetBatch:
    """The targets of a batch of images."""

    offset_NB4: torch.Tensor
    label_NB: torch.Tensor
    weight_N: torch.Tensor

    def pin_memory(self) -> "SSDTargetBatch":
        """Pin the memory, so that the copy to the device overlaps with computation."""
        return SSDTargetBatch(**{name: getattr(self, name).pin_memory() for name in self.__slots__})

    def copy_to_device(self, device: torch.device) -> "SSDTargetBatch":
        """Copy to a device."""
        return SSDTargetBatch(
            **{name: getattr(self, name).to(device, non_blocking=True) for name in self.__slots__}
        )


def resolve_ssd_folder(run: Run) -> Path:
    """Return the folder of a run's scenes: the user's, or the embedded one, generated at first
    use.
    """
    return run.data or synthetic_scenes.prepare_scene_folder(run.cache, SSD_SCENES)


def iterate_ssd_calibration_names() -> Iterator[str]:
    """Yield the calibration list: the first images of the training split."""
    yield from (
        f"{SSD_TRAIN_FOLDER}/{synthetic_scenes.format_scene_file_name(number)}"
        for number in range(SSD_CALIBRATION_PICTURES)
    )


def build_square_view(extent: Extent, size: int) -> View:
    """Resize to a square, whatever the image's shape, as in the reference."""
    return View(box=(0, 0, *extent), extent=(size, size))


def select_learnable_objects(split: CocoSplit, index: int) -> PictureObjects:
    """Return an image's objects without crowds, as fractions of the image."""
    objects = split.build_trainable_objects(index)
    height, width = split.get_picture_size(index)
    extent_4 = np.array([width, height, width, height], dtype=np.float32)
    return objects.replace_boxes(
        np.divide(objects.box_O4, extent_4, dtype=np.float32)
    ).select_objects(~objects.crowd_O)


class SSDTrainingAlbum:
    """Training's album: augmented images, with objects matched to default boxes."""

    def __init__(
        self, split: CocoSplit, configuration: SSDConfiguration, seed: int, tries: int
    ) -> None:
        self.split, self.size, self.seed, self.tries = split, configuration.picture_px, seed, tries
        self.default_B4 = build_default_boxes(configuration)

    def path(self, key: SampleKey) -> Path:
        """Return the path of an image."""
        return self.split.path(key.index)

    def view(self, key: SampleKey, extent: Extent) -> tuple[View, EncodedTargets]:
        """Return the augmented view of an image, with its encoded targets and weight."""
        view, objects = sample_augmented_view(
            extent,
            select_learnable_objects(self.split, key.index),
            self.size,
            self.tries,
            key.create_generator(self.seed),
        )
        offset_B4, label_B = match_default_boxes(
            torch.from_numpy(objects.box_O4), torch.from_numpy(objects.label_O), self.default_B4
        )
        return view, (offset_B4, label_B, key.weight)

    def together(self, notes: Sequence[EncodedTargets]) -> SSDTargetBatch:
        """Batch targets and weights."""
        offsets_B4, labels_B, weights = zip(*notes, strict=True)
        return SSDTargetBatch(
            offset_NB4=torch.stack(offsets_B4),
            label_NB=torch.stack(labels_B),
            weight_N=torch.tensor(weights),
        )
