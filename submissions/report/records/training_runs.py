"""The runs of a run set as a report draws them, with the reader of its kind of round."""

from collections.abc import Iterable

from compliance.results.indexed_result import IndexedResult
from compliance.results.training_runs import DrawnTrainingSet
from submissions.report.document import Axis
from submissions.report.records.telemetry import MINUTES_AXIS_UNIT
from submissions.round_readers import load_result_reader
from suite.result import Result


def read_drawn_training_set(result: IndexedResult, score: Result) -> DrawnTrainingSet:
    """Read a run set."""
    read_runs = load_result_reader(score.round, "read_training_runs")
    drawn: DrawnTrainingSet = read_runs(result, score.round)
    return drawn


def build_evaluation_axis(drawn: DrawnTrainingSet) -> Axis:
    """Return the axis over which a set's evaluations are drawn."""
    if drawn.over_progress:
        return Axis(name=drawn.progress_name, low=0.0)
    return build_training_time_axis(run.minutes for run in drawn.runs)


def build_training_time_axis(minutes: Iterable[float | None]) -> Axis:
    """Return the time axis of a run set, to the end of its longest run; its quality and
    machine charts share it.
    """
    return Axis(
        name="time since run_start",
        unit=MINUTES_AXIS_UNIT,
        low=0.0,
        high=max((each for each in minutes if each is not None), default=None),
    )
