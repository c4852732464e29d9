"""Examples of detections for reports; embedded scenes are rendered again, since each is a function
of its number.
"""

from collections.abc import Mapping
from pathlib import Path

from workloads.common.detection.average_precision import read_detection_truth
from workloads.common.detection.coco import CocoImage
from workloads.common.detection.examples import DetectionExamples, PictureDetections
from workloads.ssd.scoring import unpack_ssd_answer


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> DetectionExamples:
    """Read the truth; ValueError if it is invalid."""
    document = read_detection_truth(truth)
    categories = len(document.categories)

    def parse_detections(answer: bytes, sample: int, image: CocoImage) -> PictureDetections:
        return PictureDetections(row_D7=unpack_ssd_answer(answer, sample, categories))

    return DetectionExamples(
        answers,
        document,
        parse_detections,
        render_ssd_scene if embedded else lambda image: "",
        masks=False,
    )


def render_ssd_scene(image: CocoImage) -> str:
    """Render a scene; empty if Pillow is not installed."""
    try:
        from workloads.common.detection import synthetic_scenes
        from workloads.common.pictures.embedding import encode_data_url
        from workloads.ssd.scenes import SSD_SCENES
    except ImportError:
        return ""
    return encode_data_url(
        synthetic_scenes.rebuild_scene_picture(SSD_SCENES, "val", image.file_name)
    )
