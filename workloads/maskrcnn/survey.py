"""Surveys the images of a run, embedded scenes or COCO."""

from suite.workload import Run
from workloads.common.detection.coco_survey import CocoDataSet
from workloads.maskrcnn import data


def build_maskrcnn_data_set(run: Run) -> CocoDataSet:
    """Return the folder in COCO's layout, for the data survey."""
    return CocoDataSet(run, data.resolve_maskrcnn_folder(run))
