"""Selects the images, their views and their objects: the same code for the embedded scenes
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
from workloads.common.inputs.device_copies import map_batch_tensors
from workloads.ssd.augment import sample_augmented_view
from workloads.ssd.colours import ColourChanges, pack_colour_changes
from workloads.ssd.scenes import SSD_SCENES

# Legend: N images of a batch, O objects, S blends of an image, 4 left, top, right, bottom.
SSD_CALIBRATION_LIST: Final = "embedded"
"""Name of the list of calibration images."""
SSD_CALIBRATION_PICTURES: Final = 64
SSD_TRAIN_FOLDER: Final = "train2017"


SSDNotes: TypeAlias = tuple[PictureObjects, ColourChanges, float]
"""The objects that an image shows, the changes of its colours, and its weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SSDTargetBatch:
    """The objects of a batch of images, which the training step matches with default boxes, and the
    changes of colour that it applies.
    """

    box_NO4: torch.Tensor
    """Fractions of the image."""
    label_NO: torch.Tensor
    """0 for what fills up an image's objects."""
    weight_N: torch.Tensor
    blend_number_NS: torch.Tensor
    """As `change_colours` takes them."""
    blend_factor_NS: torch.Tensor
    hue_shift_N: torch.Tensor

    def pin_memory(self) -> "SSDTargetBatch":
        """Pin the memory, so that the copy to the device overlaps with computation."""
        return map_batch_tensors(self, torch.Tensor.pin_memory)


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
    """Training's album: augmented images, with their objects."""

    def __init__(self, split: CocoSplit, size: int, seed: int, tries: int) -> None:
        self.split, self.size, self.seed, self.tries = split, size, seed, tries

    def path(self, key: SampleKey) -> Path:
        """Return the path of an image."""
        return self.split.path(key.index)

    def view(self, key: SampleKey, extent: Extent) -> tuple[View, SSDNotes]:
        """Return the augmented view of an image, with the objects in it, the changes of its colours
        and its weight.
        """
        view, objects, changes = sample_augmented_view(
            extent,
            select_learnable_objects(self.split, key.index),
            self.size,
            self.tries,
            key.create_generator(self.seed),
        )
        return view, (objects, changes, key.weight)

    def together(self, notes: Sequence[SSDNotes]) -> SSDTargetBatch:
        """Batch objects, changes and weights; every image gets as many objects as the fullest, and
        one at least.
        """
        pictures, changes, weights = zip(*notes, strict=True)
        most = max(1, *map(len, pictures))
        box_NO4 = torch.zeros(len(notes), most, 4)
        label_NO = torch.zeros(len(notes), most, dtype=torch.int64)
        for number, objects in enumerate(pictures):
            box_NO4[number, : len(objects)] = torch.from_numpy(objects.box_O4)
            label_NO[number, : len(objects)] = torch.from_numpy(objects.label_O)
        number_NS, factor_NS, shift_N = pack_colour_changes(changes)
        return SSDTargetBatch(
            box_NO4=box_NO4,
            label_NO=label_NO,
            weight_N=torch.tensor(weights),
            blend_number_NS=number_NS,
            blend_factor_NS=factor_NS,
            hue_shift_N=shift_N,
        )
