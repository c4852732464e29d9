"""Settings that both training and inference read."""

from workloads.common.setting_values import Settings, flag, positive
from workloads.maskrcnn.model import Counts


def counts(settings: Settings) -> Counts:
    """Read the numbers of regions to process."""
    return Counts(
        anchors=positive(settings, "rpn.anchors"),
        before_train=positive(settings, "rpn.candidates_train"),
        before_test=positive(settings, "rpn.candidates_test"),
        after_train=positive(settings, "num_image_candidates"),
        after_test=positive(settings, "rpn.candidates_test"),
        regions=positive(settings, "roi.regions"),
        masks=positive(settings, "roi.masks"),
        detections=positive(settings, "roi.detections"),
        inside_only=flag(settings, "rpn.inside_only"),
    )
