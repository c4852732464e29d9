"""Small scenes in COCO's layout."""

from workloads.common.detection import synthetic_scenes
from workloads.common.detection.scene_looks import WeavingParameters

TINY = synthetic_scenes.SceneParameters(
    pictures={"train": 9, "val": 5},
    classes=("circle", "cross", "triangle"),
    extents=((64, 64), (64, 48)),
    mean_objects=3.0,
    most_objects=6,
    radius=(0.15, 0.3),
    crowd_share=0.2,
    empty_share=0.1,
    surfaces=WeavingParameters(
        periods_px=(5.0, 8.0), ground_strength=0.5, rags=(1, 4), rag_radius=(0.07, 0.2)
    ),
)
