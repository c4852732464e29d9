"""The embedded scenes, in a module of their own so that a report can render single ones without a framework."""

from typing import Final

from workloads.common.detection import synthetic_scenes
from workloads.common.detection.scene_looks import Hues

SCENERY: Final = synthetic_scenes.Scenery(
    pictures={"train": 960, "val": 160},
    classes=("circle", "cross", "triangle"),
    extents=((128, 128), (128, 96), (96, 128)),
    mean_objects=5.0,
    most_objects=14,
    radius=(0.1, 0.28),
    crowd_share=0.08,
    empty_share=0.02,
    surfaces=Hues(classes=3, spread=0.2),
)
