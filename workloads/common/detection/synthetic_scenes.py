"""Embedded data for detection: rendered scenes as JPEGs with COCO annotations, in COCO's own layout.

Each picture is a function of (scenery, split, number) alone. Objects of several classes lie one over another; what is seen of an
object is its polygon, its box and its area. Some pictures have a crowd: many small objects of one class as one region of run lengths.
A class has an outline and a weave, and no colour; rags of cloth, which are no objects, lie between (workloads/common/pictures/cloth.py).
"""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from PIL import Image

from workloads.common.detection.mask_outlines import polygons, runs
from workloads.common.embedded_cache import generated
from workloads.common.pictures import cloth
from workloads.common.pictures.cloth import Cloth, Weave
from workloads.common.pictures.shapes import OUTLINES_PD, Flags, Floats, inside

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
Owners: TypeAlias = npt.NDArray[np.int64]

VERSION: Final = 3  # part of the cache folder's name: other pictures are another folder
JPEG_QUALITY: Final = 90
GROUND: Final = -1
TRIES: Final = 8  # places that are tried for an object before it is left out
LEAST_SEEN: Final = 0.5  # share of an object that stays visible, and lies inside the picture
GRID: Final = 64  # corners lie at whole parts of a pixel: a sine's last digit, which machines differ in, decides nothing
CATEGORY_STEP: Final = 2  # numbers have gaps, as COCO's have
CROWD_OBJECTS: Final = (8, 14)
CROWD_RADIUS: Final = (0.035, 0.05)  # of an object, as a share of the shorter side
CROWD_SPREAD: Final = 0.14


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenery:
    """What a set of scenes is like."""

    pictures: Mapping[str, int]
    """Split (train, val) -> how many."""
    classes: tuple[str, ...]
    """Names of outlines."""
    extents: tuple[tuple[int, int], ...]
    """Widths and heights that pictures have, in pixels, in turns."""
    mean_objects: float
    """COCO has 7.3 to a picture, most pictures few and some many: the numbers are geometric here too."""
    most_objects: int
    radius: tuple[float, float]
    """Of an object, as a share of the shorter side; small ones are as frequent as large ones, on a logarithmic scale."""
    crowd_share: float
    """Share of the pictures that have a crowd; 1 % of COCO's annotations are such."""
    empty_share: float
    """Share of the pictures without an object; 1 % of COCO's."""
    periods_px: tuple[float, float] = (7.0, 10.0)
    """Of the threads of objects and rags."""
    ground: float = 0.6
    """The ground's contrast, as a share of an object's."""
    rags: tuple[int, int] = (2, 6)
    """Pieces of cloth that are no objects: so many, and fewer than so many."""
    rag_radius: tuple[float, float] = (0.07, 0.2)
    """As a share of the shorter side."""

    def digest(self) -> str:
        """Name these scenes: another parameter is another folder."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]


@dataclass(slots=True, kw_only=True)
class Canvas:
    """A scene in the making."""

    colour_HWC: Floats
    owner_HW: Owners
    """Which object is seen at a pixel, or GROUND."""
    labels: list[int] = field(default_factory=list)
    """Class of each object, crowds too."""
    full_px: list[int] = field(default_factory=list)
    """Area of each object, had nothing been laid over it."""
    crowds: set[int] = field(default_factory=set)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.owner_HW.shape
        return height, width

    def lay(self, number: int, points_PD: Floats, inside_HW: Flags, worn: Cloth) -> None:
        """Paint an object over what is there."""
        cloth.lay(self.colour_HWC, points_PD, worn)
        self.owner_HW[inside_HW] = number

    def seen_with(self, inside_HW: Flags) -> bool:
        """Tell whether every object but a crowd would still be seen well enough under a new one."""
        left = self.owner_HW[~inside_HW]
        seen = np.bincount(left[left >= 0], minlength=len(self.full_px))
        return all(each >= LEAST_SEEN * full for each, full in zip(seen, self.full_px, strict=True))


def folder(cache: Path, scenery: Scenery) -> Path:
    """Give the folder of these scenes, rendered at first use."""
    return generated(cache, f"scenes-{VERSION}-{scenery.digest()}", lambda partial: write(scenery, partial))


def write(scenery: Scenery, root: Path) -> None:
    """Render all pictures, and write their annotations."""
    (root / "annotations").mkdir(parents=True)
    for split, count in scenery.pictures.items():
        (root / f"{split}2017").mkdir()
        images, annotations = [], []
        for number in range(count):
            canvas = scene(scenery, split, number)
            image = {"id": number + 1, "file_name": file_name(number), "width": canvas.size[1], "height": canvas.size[0]}
            picture(canvas, scenery, split, number).save(root / f"{split}2017" / str(image["file_name"]), "JPEG", quality=JPEG_QUALITY)
            images.append(image)
            annotations += [entry | {"image_id": image["id"]} for entry in described(canvas)]
        numbered = [entry | {"id": number} for number, entry in enumerate(annotations, 1)]
        document = {"info": {"description": "podium scenes"}, "images": images, "annotations": numbered, "categories": categories(scenery)}
        (root / "annotations" / f"instances_{split}2017.json").write_bytes(msgspec.json.encode(document))


def file_name(number: int) -> str:
    """Name a picture's file, as COCO does."""
    return f"{number + 1:012d}.jpg"


def categories(scenery: Scenery) -> list[dict[str, Any]]:
    """Name the classes under numbers with gaps."""
    return [{"id": category(label), "name": name, "supercategory": "shape"} for label, name in enumerate(scenery.classes)]


def category(label: int) -> int:
    """Give a class its number in the file."""
    return 1 + CATEGORY_STEP * label


def generator(scenery: Scenery, split: str, number: int, stream: int) -> np.random.Generator:
    """Make a generator of one picture."""
    return np.random.default_rng([VERSION, sorted(scenery.pictures).index(split), number, stream])


def scene(scenery: Scenery, split: str, number: int) -> Canvas:
    """Lay out one picture."""
    rng = generator(scenery, split, number, 0)
    width, height = scenery.extents[number % len(scenery.extents)]
    canvas = Canvas(colour_HWC=cloth.ground((height, width), scenery.periods_px, scenery.ground, rng), owner_HW=np.full((height, width), GROUND))
    low, high = scenery.rag_radius
    for _ in range(rng.integers(*scenery.rags)):
        cloth.lay_rag(canvas.colour_HWC, (min(height, width) * low, min(height, width) * high), scenery.periods_px, rng)
    if rng.random() < scenery.crowd_share:
        lay_crowd(canvas, scenery, rng)
    wanted = 0 if rng.random() < scenery.empty_share else min(scenery.most_objects, int(rng.geometric(1 / scenery.mean_objects)))
    for _ in range(wanted):
        lay_object(canvas, scenery, rng)
    return canvas


def placed(outline_PD: Floats, centre_D: Floats, radius_px: float, turn: float, rng: np.random.Generator) -> Floats:
    """Turn and squeeze an outline a little, size it and put it somewhere, in pixels."""
    rotation = np.array([(math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))])
    squeeze = np.array([1.0, rng.uniform(0.75, 1.0)])
    found: Floats = np.round(((outline_PD * squeeze) @ rotation.T * radius_px + centre_D) * GRID) / GRID
    return found


def dressed(scenery: Scenery, label: int, turn: float, rng: np.random.Generator) -> Cloth:
    """Give an object its class's weave."""
    return cloth.woven(tuple(Weave)[label % len(Weave)], turn, scenery.periods_px, rng)


def lay_object(canvas: Canvas, scenery: Scenery, rng: np.random.Generator) -> None:
    """Find a place for one more object that leaves the others visible."""
    height, width = canvas.size
    label, turn = int(rng.integers(len(scenery.classes))), cloth.tilt(rng)
    worn = dressed(scenery, label, turn, rng)
    radius_px = min(height, width) * math.exp(rng.uniform(math.log(scenery.radius[0]), math.log(scenery.radius[1])))
    for _ in range(TRIES):
        centre_D = rng.uniform((0, 0), (width, height))
        points_PD = placed(OUTLINES_PD[scenery.classes[label]], centre_D, radius_px, turn, rng)
        inside_HW = inside(points_PD, (height, width))
        if inside_HW.sum() >= LEAST_SEEN * shoelace(points_PD) and canvas.seen_with(inside_HW):
            canvas.labels.append(label)
            canvas.full_px.append(int(inside_HW.sum()))
            canvas.lay(len(canvas.labels) - 1, points_PD, inside_HW, worn)
            return


def shoelace(points_PD: Floats) -> float:
    """Compute the area of an outline."""
    x, y = points_PD.T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def lay_crowd(canvas: Canvas, scenery: Scenery, rng: np.random.Generator) -> None:
    """Scatter many small objects of one class, closer than they can be told apart."""
    height, width = canvas.size
    side, label = min(height, width), int(rng.integers(len(scenery.classes)))
    centre_D = rng.uniform((0.2 * width, 0.2 * height), (0.8 * width, 0.8 * height))
    canvas.labels.append(label)
    canvas.full_px.append(0)
    canvas.crowds.add(0)
    for _ in range(int(rng.integers(*CROWD_OBJECTS))):
        near_D, turn = rng.normal(centre_D, CROWD_SPREAD * side / 2), cloth.tilt(rng)
        points_PD = placed(OUTLINES_PD[scenery.classes[label]], near_D, side * rng.uniform(*CROWD_RADIUS), turn, rng)
        canvas.lay(0, points_PD, inside(points_PD, (height, width)), dressed(scenery, label, turn, rng))


def picture(canvas: Canvas, scenery: Scenery, split: str, number: int) -> Image.Image:
    """Photograph a scene."""
    return cloth.photographed(canvas.colour_HWC, generator(scenery, split, number, 1))


def described(canvas: Canvas) -> Iterator[dict[str, Any]]:
    """Describe what is seen of each object, as COCO does; what nothing is seen of is not there."""
    for number, label in enumerate(canvas.labels):
        seen_HW = canvas.owner_HW == number
        if not seen_HW.any():
            continue
        crowd = number in canvas.crowds
        ys, xs = np.nonzero(seen_HW)
        yield {
            "category_id": category(label),
            "bbox": [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1],
            "area": int(seen_HW.sum()),
            "iscrowd": int(crowd),
            "segmentation": {"size": list(canvas.size), "counts": runs(seen_HW)} if crowd else polygons(seen_HW),
        }
