"""Surveys the scenes of a run, embedded or COCO."""

from suite.workload import Run
from workloads.common.detection.coco_survey import CocoSet
from workloads.maskrcnn import data


def data_set(run: Run) -> CocoSet:
    """Return the folder in COCO's layout, to be looked over."""
    return CocoSet(run, data.root(run))
