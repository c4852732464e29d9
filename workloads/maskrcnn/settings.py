"""Settings that both training and inference read."""

from workloads.common.setting_values import Settings, require_flag_setting, require_positive_setting
from workloads.maskrcnn.model import RegionCounts


def build_region_counts(settings: Settings) -> RegionCounts:
    """Read the numbers of regions to process."""
    return RegionCounts(
        anchors=require_positive_setting(settings, "rpn.anchors"),
        before_train=require_positive_setting(settings, "rpn.candidates_train"),
        before_test=require_positive_setting(settings, "rpn.candidates_test"),
        after_train=require_positive_setting(settings, "num_image_candidates"),
        after_test=require_positive_setting(settings, "rpn.candidates_test"),
        regions=require_positive_setting(settings, "roi.regions"),
        masks=require_positive_setting(settings, "roi.masks"),
        detections=require_positive_setting(settings, "roi.detections"),
        inside_only=require_flag_setting(settings, "rpn.inside_only"),
    )
