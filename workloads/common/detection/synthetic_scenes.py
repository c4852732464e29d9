"""Embedded data for detection: rendered scenes as JPEGs with COCO annotations, in COCO's own
layout.

Each image is a function of (scenery, split, number) alone. Objects of several classes occlude one
another; the visible part of an object gives its polygon, box and area. Some images have a crowd:
many small objects of one class as one region of run lengths. All surfaces are woven
(scene_looks.py).
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

from workloads.common.detection.mask_outlines import compute_mask_run_lengths, trace_mask_polygons
from workloads.common.detection.scene_looks import OutlinePainter, WeavingParameters, WovenScene
from workloads.common.embedded_cache import create_cached_folder
from workloads.common.pictures import cloth
from workloads.common.pictures.shapes import OUTLINES_PD, Flags, Floats, compute_inside_mask

# Legend: H height, W width, C colour channels, P points of an outline, D 2 coordinates.
Owners: TypeAlias = npt.NDArray[np.int64]

SCENES_VERSION: Final = 2  # part of the cache folder's name: changed images need another folder
SCENE_JPEG_QUALITY: Final = 90
GROUND_OWNER: Final = -1
MAX_PLACEMENT_TRIES: Final = 8  # positions tried for an object before it is dropped
MIN_VISIBLE_SHARE: Final = (
    0.5  # fraction of an object that must stay visible, and lie inside the image
)
# corners are rounded to 1/64 pixel, so that the last digit of a sine, which differs between
# machines, decides nothing
CORNER_STEPS_PER_PX: Final = 64
CATEGORY_ID_STEP: Final = 2  # ids have gaps, as COCO's have
MAX_OBJECT_TURN_DEG: Final = 20.0
CROWD_OBJECTS_RANGE: Final = (8, 14)
CROWD_RADIUS_SHARE: Final = (0.035, 0.05)  # of an object, as a fraction of the shorter side
CROWD_SPREAD_SHARE: Final = 0.14


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneParameters:
    """Parameters of a set of scenes."""

    pictures: Mapping[str, int]
    """Split (train, val) -> number of images."""
    classes: tuple[str, ...]
    """Names of outlines."""
    extents: tuple[tuple[int, int], ...]
    """Widths and heights of the images, in pixels, used in turn."""
    mean_objects: float
    """COCO has 7.3 per image, with few in most and many in some: the counts are geometric here
    too.
    """
    most_objects: int
    radius: tuple[float, float]
    """Size of an object, as a fraction of the shorter side; log-uniform, so that small ones are as
    frequent as large ones.
    """
    crowd_share: float
    """Fraction of the images with a crowd; 1 % of COCO's annotations are crowds."""
    empty_share: float
    """Fraction of the images without an object; 1 % of COCO's."""
    surfaces: WeavingParameters
    """Parameters of the woven surfaces, by which classes can be recognised among clutter."""

    def compute_digest(self) -> str:
        """Identify these scenes: other parameters need another folder."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]


@dataclass(slots=True, kw_only=True)
class SceneCanvas:
    """A scene under construction."""

    colour_HWC: Floats
    owner_HW: Owners
    """The object visible at each pixel, or GROUND."""
    labels: list[int] = field(default_factory=list)
    """Class of each object, including crowds."""
    full_px: list[int] = field(default_factory=list)
    """Area of each object without occlusion."""
    crowds: set[int] = field(default_factory=set)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.owner_HW.shape
        return height, width

    def draw_object(
        self, number: int, points_PD: Floats, inside_HW: Flags, paint: OutlinePainter
    ) -> None:
        """Paint an object over the existing ones."""
        paint(self.colour_HWC, points_PD)
        self.owner_HW[inside_HW] = number

    def has_room_for(self, inside_HW: Flags) -> bool:
        """Return whether every object except crowds would stay visible enough under a new one."""
        remaining_owners = self.owner_HW[~inside_HW]
        visible_px = np.bincount(
            remaining_owners[remaining_owners >= 0], minlength=len(self.full_px)
        )
        return all(
            each >= MIN_VISIBLE_SHARE * full
            for each, full in zip(visible_px, self.full_px, strict=True)
        )


def prepare_scene_folder(cache: Path, scenery: SceneParameters) -> Path:
    """Return the folder of these scenes, rendered at first use."""
    return create_cached_folder(
        cache,
        f"scenes-{SCENES_VERSION}-{scenery.compute_digest()}",
        lambda partial: write_scenes(scenery, partial),
    )


def write_scenes(scenery: SceneParameters, root: Path) -> None:
    """Render all images and write their annotations."""
    (root / "annotations").mkdir(parents=True)
    for split, count in scenery.pictures.items():
        (root / f"{split}2017").mkdir()
        images, annotations = [], []
        for number in range(count):
            canvas = generate_scene(scenery, split, number)
            image = {
                "id": number + 1,
                "file_name": format_scene_file_name(number),
                "width": canvas.size[1],
                "height": canvas.size[0],
            }
            draw_scene_picture(canvas, scenery, split, number).save(
                root / f"{split}2017" / str(image["file_name"]), "JPEG", quality=SCENE_JPEG_QUALITY
            )
            images.append(image)
            annotations += [
                entry | {"image_id": image["id"]} for entry in describe_visible_objects(canvas)
            ]
        numbered = [entry | {"id": number} for number, entry in enumerate(annotations, 1)]
        document = {
            "info": {"description": "podium scenes"},
            "images": images,
            "annotations": numbered,
            "categories": list_scene_categories(scenery),
        }
        (root / "annotations" / f"instances_{split}2017.json").write_bytes(
            msgspec.json.encode(document)
        )


def format_scene_file_name(number: int) -> str:
    """Return an image's file name, in COCO's style."""
    return f"{number + 1:012d}.jpg"


def list_scene_categories(scenery: SceneParameters) -> list[dict[str, Any]]:
    """Return the classes, under ids with gaps."""
    return [
        {"id": compute_category_id(label), "name": name, "supercategory": "shape"}
        for label, name in enumerate(scenery.classes)
    ]


def compute_category_id(label: int) -> int:
    """Return a class's category id in the file."""
    return 1 + CATEGORY_ID_STEP * label


def create_scene_generator(
    scenery: SceneParameters, split: str, number: int, stream: int
) -> np.random.Generator:
    """Create an image's random generator."""
    return np.random.default_rng(
        [SCENES_VERSION, sorted(scenery.pictures).index(split), number, stream]
    )


def generate_scene(scenery: SceneParameters, split: str, number: int) -> SceneCanvas:
    """Lay out one image."""
    rng = create_scene_generator(scenery, split, number, 0)
    width, height = scenery.extents[number % len(scenery.extents)]
    surfaces = WovenScene(weaving=scenery.surfaces, rng=rng)
    canvas = SceneCanvas(
        colour_HWC=surfaces.generate_ground((height, width)),
        owner_HW=np.full((height, width), GROUND_OWNER),
    )
    if rng.random() < scenery.crowd_share:
        place_scene_crowd(canvas, scenery, surfaces, rng)
    if rng.random() < scenery.empty_share:
        object_count = 0
    else:
        object_count = min(scenery.most_objects, int(rng.geometric(1 / scenery.mean_objects)))
    for _ in range(object_count):
        place_scene_object(canvas, scenery, surfaces, rng)
    return canvas


def transform_outline_at_random(
    outline_PD: Floats, centre_D: Floats, radius_px: float, rng: np.random.Generator
) -> Floats:
    """Rotate, squeeze, scale and place an outline at random, in pixels."""
    turn = math.radians(rng.uniform(-MAX_OBJECT_TURN_DEG, MAX_OBJECT_TURN_DEG))
    rotation = np.array([(math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))])
    squeeze = np.array([1.0, rng.uniform(0.75, 1.0)])
    found: Floats = (
        np.round(((outline_PD * squeeze) @ rotation.T * radius_px + centre_D) * CORNER_STEPS_PER_PX)
        / CORNER_STEPS_PER_PX
    )
    return found


def place_scene_object(
    canvas: SceneCanvas, scenery: SceneParameters, surfaces: WovenScene, rng: np.random.Generator
) -> None:
    """Place one more object without hiding the others."""
    height, width = canvas.size
    label = int(rng.integers(len(scenery.classes)))
    paint = surfaces.generate_painter(label)
    radius_px = min(height, width) * math.exp(
        rng.uniform(math.log(scenery.radius[0]), math.log(scenery.radius[1]))
    )
    for _ in range(MAX_PLACEMENT_TRIES):
        centre_D = rng.uniform((0, 0), (width, height))
        points_PD = transform_outline_at_random(
            OUTLINES_PD[scenery.classes[label]], centre_D, radius_px, rng
        )
        inside_HW = compute_inside_mask(points_PD, (height, width))
        if inside_HW.sum() >= MIN_VISIBLE_SHARE * compute_outline_area(
            points_PD
        ) and canvas.has_room_for(inside_HW):
            canvas.labels.append(label)
            canvas.full_px.append(int(inside_HW.sum()))
            canvas.draw_object(len(canvas.labels) - 1, points_PD, inside_HW, paint)
            return


def compute_outline_area(points_PD: Floats) -> float:
    x, y = points_PD.T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def place_scene_crowd(
    canvas: SceneCanvas, scenery: SceneParameters, surfaces: WovenScene, rng: np.random.Generator
) -> None:
    """Scatter many small objects of one class, too close to be told apart."""
    height, width = canvas.size
    side, label = min(height, width), int(rng.integers(len(scenery.classes)))
    centre_D = rng.uniform((0.2 * width, 0.2 * height), (0.8 * width, 0.8 * height))
    canvas.labels.append(label)
    canvas.full_px.append(0)
    canvas.crowds.add(0)
    for _ in range(int(rng.integers(*CROWD_OBJECTS_RANGE))):
        points_PD = transform_outline_at_random(
            OUTLINES_PD[scenery.classes[label]],
            rng.normal(centre_D, CROWD_SPREAD_SHARE * side / 2),
            side * rng.uniform(*CROWD_RADIUS_SHARE),
            rng,
        )
        canvas.draw_object(
            0,
            points_PD,
            compute_inside_mask(points_PD, (height, width)),
            surfaces.generate_painter(label),
        )


def draw_scene_picture(
    canvas: SceneCanvas, scenery: SceneParameters, split: str, number: int
) -> Image.Image:
    """Render a scene under uneven light, with grain."""
    return cloth.apply_light_and_grain(
        canvas.colour_HWC, create_scene_generator(scenery, split, number, 1)
    )


def rebuild_scene_picture(scenery: SceneParameters, split: str, name: str) -> Image.Image:
    """Render the image of that file name again, without JPEG compression; ValueError if there is
    none.
    """
    number = int(name.removesuffix(".jpg")) - 1
    if not 0 <= number < scenery.pictures[split] or format_scene_file_name(number) != name:
        raise ValueError(f"{name}: no scene has this name")
    return draw_scene_picture(generate_scene(scenery, split, number), scenery, split, number)


def describe_visible_objects(canvas: SceneCanvas) -> Iterator[dict[str, Any]]:
    """Describe the visible part of each object in COCO's form; invisible objects are left out."""
    for number, label in enumerate(canvas.labels):
        visible_HW = canvas.owner_HW == number
        if not visible_HW.any():
            continue
        crowd = number in canvas.crowds
        ys, xs = np.nonzero(visible_HW)
        segmentation: Any
        if crowd:
            segmentation = {
                "size": list(canvas.size),
                "counts": compute_mask_run_lengths(visible_HW),
            }
        else:
            segmentation = trace_mask_polygons(visible_HW)
        yield {
            "category_id": compute_category_id(label),
            "bbox": [int(xs.min()), int(ys.min()), int(np.ptp(xs)) + 1, int(np.ptp(ys)) + 1],
            "area": int(visible_HW.sum()),
            "iscrowd": int(crowd),
            "segmentation": segmentation,
        }
