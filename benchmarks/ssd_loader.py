"""Measures SSD's loader at 300 px on one core, against one that changes colours and matches default
boxes itself.

Scenes of 640 x 480, generated, in COCO's layout. Ours are SSD's own album behind the default
pipeline, with the training step changing colours and matching on its device; the other side is the
same album, with the same crops, in which each sample goes through Pillow's colour changes and is
matched with 8,732 default boxes, as in the reference. Both sides read in this process, so a figure
is that of one loader process; rates are per second of CPU time, which other programs lengthen
least. `step` is what a training step on this processor spends on the same images' colours and
matching instead: a GPU does it beside its work.

Usage: python benchmarks/ssd_loader.py [--pairs N] [--format text|json]
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from common.figures import arguments, compare, show
from common.tiny import choose_size
from PIL import Image
from torch.utils.data import default_collate

from suite.input import Means, Place
from workloads.common import malloc
from workloads.common.detection import coco, synthetic_scenes
from workloads.common.detection.torchvision_import import torchvision
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.default import DefaultInput, ViewedPictures
from workloads.ssd import colours, data
from workloads.ssd.detector.default_boxes import (
    TRAINED_300,
    build_default_boxes,
    match_default_boxes,
)

PICTURES: Final = choose_size(64, 4)
BATCH: Final = choose_size(32, 2)
EXTENT: Final = (640, 480)
TRIES: Final = 50
ADJUSTMENTS: Final = {
    change: getattr(torchvision.transforms.functional, f"adjust_{change}")
    for change in colours.ColourChange
}


def generate_scenes(folder: Path) -> coco.CocoSplit:
    """Generate scenes with as many objects as COCO's images have."""
    scenery = replace(
        data.SSD_SCENES,
        pictures={"train": PICTURES, "val": 1},
        extents=(EXTENT,),
        mean_objects=7.3,
        most_objects=20,
        radius=(0.05, 0.3),
    )
    split = coco.read_coco_split(synthetic_scenes.prepare_scene_folder(folder, scenery), "train")
    return split.drop_empty_pictures()


class OlderSamples:
    """Samples whose colours and targets the loader makes."""

    def __init__(self, album: data.SSDTrainingAlbum) -> None:
        self.samples: ViewedPictures[SampleKey, Any] = ViewedPictures(album, 1)
        self.default_B4 = build_default_boxes(TRAINED_300)

    def read_batch(self, keys: Sequence[SampleKey]) -> list[torch.Tensor]:
        """Read images, offsets and labels."""
        found: list[torch.Tensor] = default_collate([self.read_sample(key) for key in keys])
        return found

    def read_sample(self, key: SampleKey) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Read one image, change its colours, and match its objects."""
        picture_HWC, (objects, changes, _) = self.samples[key]
        picture = Image.fromarray(picture_HWC.contiguous().numpy())
        for change, factor in changes:
            picture = ADJUSTMENTS[change](picture, factor)
        box_O4, label_O = torch.from_numpy(objects.box_O4), torch.from_numpy(objects.label_O)
        (offset_B4,), (label_B,) = match_default_boxes(box_O4[None], label_O[None], self.default_B4)
        return torch.from_numpy(np.array(picture)), offset_B4, label_B


def plan_batches(split: coco.CocoSplit, epoch: int) -> Iterator[list[SampleKey]]:
    """Plan a pass over all images."""
    keys = [SampleKey(index=index, epoch=epoch) for index in range(len(split))]
    yield from (keys[start : start + BATCH] for start in range(0, len(keys), BATCH))


def measure_rate(pictures: int, call: Callable[[], object]) -> float:
    """Measure images per second of CPU time."""
    began = time.process_time()
    call()
    return pictures / (time.process_time() - began)


def prepare_on_device(picture_NHWC: torch.Tensor, targets: data.SSDTargetBatch) -> list[Any]:
    """Do what the training step does with a batch before the network."""
    changed = colours.change_colours(
        picture_NHWC, targets.blend_number_NS, targets.blend_factor_NS, targets.hue_shift_N
    )
    default_B4 = build_default_boxes(TRAINED_300)
    return [changed, *match_default_boxes(targets.box_NO4, targets.label_NO, default_B4)]


def check_sides(ours: Any, older: OlderSamples, keys: list[SampleKey]) -> None:
    """End unless both sides give the same images and targets."""
    (batch,) = ours.read([keys])
    for mine, other in zip(prepare_on_device(*batch), older.read_batch(keys), strict=True):
        if not torch.equal(mine, other):
            raise SystemExit("the two sides differ")


def main() -> None:
    given = arguments(__doc__ or "", pairs=7)
    malloc.keep_freed_memory()
    torch.set_num_threads(1)
    rates, steps = [], []
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        split = generate_scenes(Path(folder))
        album = data.SSDTrainingAlbum(split, TRAINED_300.picture_px, 1, TRIES)
        older = OlderSamples(album)
        ours: Any = DefaultInput().open(album, Means(device="cpu", place=Place.CPU, workers=0))
        check_sides(ours, older, next(plan_batches(split, 1)))
        for _, epoch in zip(range(given.pairs), count(2)):
            planned = list(plan_batches(split, epoch))
            batches: list[Any] = []
            mine = measure_rate(len(split), lambda: batches.extend(ours.read(planned)))  # noqa: B023
            other = measure_rate(len(split), lambda: [older.read_batch(keys) for keys in planned])  # noqa: B023
            rates.append((mine, other))
            steps.append(
                measure_rate(len(split), lambda: [prepare_on_device(*each) for each in batches])  # noqa: B023
            )
    show(
        f"SSD's loader, {EXTENT[0]}x{EXTENT[1]} to 300 px, one core; at least 2.5 is the aim",
        compare([pair[0] for pair in rates], [pair[1] for pair in rates], "images/CPU s"),
        given.form,
        {"Pictures": len(split), "Step": f"{sorted(steps)[len(steps) // 2]:.6g} images/CPU s"},
    )


if __name__ == "__main__":
    main()
