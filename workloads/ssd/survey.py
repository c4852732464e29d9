"""The look over the scenes that a run reads, its own or COCO's."""

from suite.workload import Run
from workloads.common.detection.coco_survey import CocoSet
from workloads.ssd import data


def data_set(run: Run) -> CocoSet:
    """Give the folder in COCO's layout, to be looked over."""
    return CocoSet(run, data.root(run))
