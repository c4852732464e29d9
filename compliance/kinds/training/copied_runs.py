"""What is left of a training run where somebody has multiplied all of its times by one factor."""

from collections.abc import Hashable
from typing import Final

from compliance.documents.submitted_runs import RunMark, SubmittedRun, TimeShape
from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.rules.run_set import list_distinct_scores
from suite import events
from suite.units import NS_PER_MS

BOUNDS_MARK: Final = "times"
"""When a run began and ended; org.repeated reports two runs with the same."""


def identify_training_run(
    log: PublishedLog, organisation: str, system: str, bounds: Hashable | None
) -> SubmittedRun:
    """Return when a run began and ended, the results of its evaluations, and when they came."""
    marks = []
    if bounds is not None:
        marks.append(RunMark(BOUNDS_MARK, bounds))
    shape, scores = None, list_distinct_scores(log)
    start, stop = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    if scores and start and stop:
        ends = [*(each.entry for each in log.evaluations), stop]
        shape = TimeShape(
            counts=(log.benchmark, scores),
            times=[float(each.time_ns - start.time_ns) for each in ends],
            rounding_ns=NS_PER_MS,
        )
    return SubmittedRun(
        file=log.path, organisation=organisation, system=system, marks=marks, shape=shape
    )
