"""Examples of detections and masks for reports; embedded scenes are rendered again, since each is a
function of its number.
"""

from collections.abc import Mapping
from pathlib import Path

from workloads.common.detection.average_precision import read_detection_truth
from workloads.common.detection.coco import CocoImage
from workloads.common.detection.examples import DetectionExamples, PictureDetections
from workloads.maskrcnn.scoring import unpacked


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> DetectionExamples:
    """Read the truth; ValueError if it is invalid."""
    document = read_detection_truth(truth)
    categories = len(document.categories)

    def detect(answer: bytes, sample: int, image: CocoImage) -> PictureDetections:
        row_D7, masks = unpacked(answer, sample, image, categories)
        return PictureDetections(row_D7=row_D7, masks=masks)

    return DetectionExamples(
        answers, document, detect, drawn if embedded else lambda image: "", masks=True
    )


def drawn(image: CocoImage) -> str:
    """Render a scene; empty if Pillow is not installed."""
    try:
        from workloads.common.detection import synthetic_scenes
        from workloads.common.pictures.embedding import encode_data_url
        from workloads.maskrcnn.scenes import EMBEDDED
    except ImportError:
        return ""
    return encode_data_url(synthetic_scenes.rebuild_scene_picture(EMBEDDED, "val", image.file_name))
