"""Examples of detections for reports; embedded scenes are rendered again, since each is a function
of its number.
"""

from collections.abc import Mapping
from pathlib import Path

from workloads.common.detection.average_precision import read_truth
from workloads.common.detection.coco import Image
from workloads.common.detection.examples import BoxExamples, Found
from workloads.ssd.scoring import rows_of


def examples(answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path) -> BoxExamples:
    """Read the truth; ValueError if it is invalid."""
    document = read_truth(truth)
    categories = len(document.categories)

    def detect(answer: bytes, sample: int, image: Image) -> Found:
        return Found(row_D7=rows_of(answer, sample, categories))

    return BoxExamples(
        answers, document, detect, drawn if embedded else lambda image: "", masks=False
    )


def drawn(image: Image) -> str:
    """Render a scene; empty if Pillow is not installed."""
    try:
        from workloads.common.detection import synthetic_scenes
        from workloads.common.pictures.embedding import data_url
        from workloads.ssd.scenes import SCENERY
    except ImportError:
        return ""
    return data_url(synthetic_scenes.again(SCENERY, "val", image.file_name))
