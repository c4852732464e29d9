"""Examples of detections and masks for reports; embedded scenes are rendered again, since each is a
function of its number.
"""

from collections.abc import Mapping
from pathlib import Path

from workloads.common.detection.average_precision import read_truth
from workloads.common.detection.coco import Image
from workloads.common.detection.examples import BoxExamples, Found
from workloads.maskrcnn.scoring import unpacked


def examples(answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path) -> BoxExamples:
    """Read the truth; ValueError if it is invalid."""
    document = read_truth(truth)
    categories = len(document.categories)

    def detect(answer: bytes, sample: int, image: Image) -> Found:
        row_D7, masks = unpacked(answer, sample, image, categories)
        return Found(row_D7=row_D7, masks=masks)

    return BoxExamples(
        answers, document, detect, drawn if embedded else lambda image: "", masks=True
    )


def drawn(image: Image) -> str:
    """Render a scene; empty if Pillow is not installed."""
    try:
        from workloads.common.detection import synthetic_scenes
        from workloads.common.pictures.embedding import data_url
        from workloads.maskrcnn.scenes import EMBEDDED
    except ImportError:
        return ""
    return data_url(synthetic_scenes.again(EMBEDDED, "val", image.file_name))
