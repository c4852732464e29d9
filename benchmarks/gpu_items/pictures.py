"""Generated images: JPEGs in ImageNet's layout and scenes in COCO's, each file under many names or
in many entries, so that an epoch outlasts a measurement.
"""

import json
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from gpu_shared.sizes import Sizes
from gpu_shared.workbench import Workbench
from PIL import Image

from gpu_items.runs import describe_pictures
from suite.files.cache import fill_cache_entry
from workloads.common.detection import coco, coco_survey, synthetic_scenes
from workloads.ssd.scenes import SSD_SCENES

QUALITY: Final = 90
GRAIN: Final = 19.0
"""Deviation of the noise, by which a file of 500 x 375 has about 100 kB, as ImageNet's have."""
SPLITS: Final = ("train", "val")


def prepare_jpegs(bench: Workbench) -> Path:
    """Return a folder in ImageNet's layout, generated at first use."""
    folder = bench.data / "jpegs"
    with fill_cache_entry(folder) as partial_folder:
        if partial_folder is not None:
            write_jpegs(partial_folder, bench.sizes)
    return folder


def write_jpegs(folder: Path, sizes: Sizes) -> None:
    """Write the files by as many processes as there are cores, and link them."""
    first = folder / "train" / "class0"
    first.mkdir(parents=True)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(partial(write_jpeg, first, sizes.picture_extent), range(sizes.pictures)))
    files = sorted(first.iterdir())
    for number in range(sizes.names):
        place = folder / "train" / f"class{number % sizes.classes}"
        place.mkdir(exist_ok=True)
        for file in files:
            if not (link := place / f"{number}-{file.name}").exists():
                os.link(file, link)
    for number in range(sizes.classes):
        place = folder / "val" / f"class{number}"
        place.mkdir(parents=True)
        os.link(files[number % len(files)], place / "0.JPEG")
        train = folder / "train" / place.name
        if not train.exists():
            train.mkdir()
            os.link(files[number % len(files)], train / "0.JPEG")


def write_jpeg(folder: Path, extent: tuple[int, int], number: int) -> None:
    """Write soft colours with grain."""
    rng = np.random.default_rng(number)
    soft = Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)).resize(
        extent, Image.Resampling.BICUBIC
    )
    grain = np.asarray(soft, dtype=np.float64) + rng.normal(0, GRAIN, (*extent[::-1], 3))
    Image.fromarray(grain.clip(0, 255).astype(np.uint8)).save(
        folder / f"{number:04d}.JPEG", "JPEG", quality=QUALITY
    )


@cache
def survey_jpegs(folder: Path) -> dict[str, Any]:
    """Return what a survey would find, without decoding each link."""
    classes = sorted(path.name for path in (folder / "train").iterdir())
    counts = {split: sum(1 for _ in (folder / split).glob("*/*.JPEG")) for split in SPLITS}
    return {
        "classes": classes,
        **{split: describe_pictures(number) for split, number in counts.items()},
    }


def prepare_scenes(bench: Workbench) -> Path:
    """Return a folder in COCO's layout, generated at first use."""
    sizes = bench.sizes
    scenery = replace(
        SSD_SCENES,
        pictures={"train": sizes.scenes, "val": max(sizes.evaluated // 2, 2)},
        extents=(sizes.scene_extent,),
        mean_objects=7.3,
        most_objects=20,
        radius=(0.05, 0.3),
        crowd_share=0.0,
        empty_share=0.0,
    )
    folder = bench.data / "scenes"
    with fill_cache_entry(folder) as partial_folder:
        if partial_folder is not None:
            synthetic_scenes.write_scenes(scenery, partial_folder)
            for split in SPLITS:
                repeat_entries(partial_folder, split, sizes.repeats)
    return folder


def repeat_entries(folder: Path, split: str, times: int) -> None:
    """Write the entries of a split's annotations several times, under other ids."""
    path = folder / coco_survey.COCO_ANNOTATION_FILES[split]
    document = json.loads(path.read_text())
    pictures, objects = document["images"], document["annotations"]
    document["images"] = [
        {**each, "id": each["id"] + number * len(pictures)}
        for number in range(times)
        for each in pictures
    ]
    document["annotations"] = [
        {
            **each,
            "id": each["id"] + number * len(objects),
            "image_id": each["image_id"] + number * len(pictures),
        }
        for number in range(times)
        for each in objects
    ]
    path.write_text(json.dumps(document))


@cache
def survey_scenes(folder: Path) -> dict[str, Any]:
    """Return what a survey would find."""
    train, val = (coco.read_coco_split(folder, split) for split in SPLITS)
    return {
        "categories": [{"id": each.id, "name": each.name} for each in val.categories],
        "train": describe_pictures(len(train.drop_empty_pictures())),
        "val": describe_pictures(len(val)),
    }
