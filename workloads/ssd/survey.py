"""Surveys the images of a run, embedded scenes or COCO."""

from suite.workload import Run
from workloads.common.detection.coco_survey import CocoDataSet
from workloads.ssd import data


def build_ssd_data_set(run: Run) -> CocoDataSet:
    """Return the folder in COCO's layout, for the data survey."""
    return CocoDataSet(run, data.resolve_ssd_folder(run))
