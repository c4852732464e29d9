"""Examples of detections and masks for reports; embedded scenes are rendered again, since each is a
function of its number.
"""

from collections.abc import Mapping
from pathlib import Path

from workloads.common.detection.average_precision import read_detection_truth
from workloads.common.detection.coco import CocoImage
from workloads.common.detection.examples import DetectionExamples, PictureDetections
from workloads.maskrcnn.scoring import unpack_maskrcnn_answer


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> DetectionExamples:
    """Read the truth; ValueError if it is invalid."""
    document = read_detection_truth(truth)
    categories = len(document.categories)

    def parse_detections(answer: bytes, sample: int, image: CocoImage) -> PictureDetections:
        row_D7, masks = unpack_maskrcnn_answer(answer, sample, image, categories)
        return PictureDetections(row_D7=row_D7, masks=masks)

    return DetectionExamples(
        answers,
        document,
        parse_detections,
        render_maskrcnn_scene if embedded else lambda image: "",
        masks=True,
    )


def render_maskrcnn_scene(image: CocoImage) -> str:
    """Render a scene; empty if Pillow is not installed."""
    try:
        from workloads.common.detection import synthetic_scenes
        from workloads.common.pictures.embedding import encode_data_url
        from workloads.maskrcnn.scenes import MASKRCNN_SCENES
    except ImportError:
        return ""
    return encode_data_url(
        synthetic_scenes.rebuild_scene_picture(MASKRCNN_SCENES, "val", image.file_name)
    )
