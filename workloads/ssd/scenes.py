"""The embedded scenes, in a module of their own so that a report can render single ones without a
framework.
"""

from typing import Final

from workloads.common.detection import synthetic_scenes
from workloads.common.detection.scene_looks import WeavingParameters

SSD_SCENES: Final = synthetic_scenes.SceneParameters(
    pictures={"train": 960, "val": 160},
    classes=("circle", "cross", "triangle"),
    extents=((64, 64), (64, 48), (48, 64)),
    mean_objects=3.5,
    most_objects=7,
    radius=(0.18, 0.34),
    crowd_share=0.03,
    empty_share=0.01,
    surfaces=WeavingParameters(
        periods_px=(5.0, 8.0), ground_strength=0.6, rags=(5, 9), rag_radius=(0.08, 0.2)
    ),
)
