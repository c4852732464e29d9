"""The embedded scenes, in a module of their own so that a report can render single ones without a
framework.
"""

from typing import Final

from workloads.common.detection import synthetic_scenes
from workloads.common.detection.scene_looks import WeavingParameters

MASKRCNN_SCENES: Final = synthetic_scenes.SceneParameters(
    pictures={"train": 480, "val": 50},
    classes=("circle", "cross", "triangle"),
    extents=((64, 64), (64, 48), (48, 64)),
    mean_objects=1.8,
    most_objects=4,
    radius=(0.2, 0.36),
    crowd_share=0.03,
    empty_share=0.01,
    surfaces=WeavingParameters(
        periods_px=(5.0, 8.0), ground_strength=0.45, rags=(2, 5), rag_radius=(0.07, 0.2)
    ),
)
