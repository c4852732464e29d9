"""What scores read from published results: minutes of each training run, LoadGen's result of each scenario."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from compliance.documents.inference.entry import headline
from compliance.documents.training.convergence import convergence_of
from compliance.documents.training.log import PublishedLog, PublishedSet, read_log, read_set
from compliance.recognition.path_kind import recognise
from submissions.metrics import MINUTES, TIME_TO_TRAIN, olympic
from submissions.result_index import Result
from submissions.score.log_values import PUBLISHED, Reading
from suite import events
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario
from suite.rounds.published_inference import PublishedInference
from suite.rounds.published_training import PublishedTraining

OLYMPIC_FROM: Final = 3
"""Runs of a set; with fewer there is nothing left between the fastest and the slowest, and the mean is that of all."""
DECIMALS: Final = 4
"""Of a run's minutes: 6 ms; logs' clocks tell milliseconds, and tables of these rounds are made from such minutes."""
METRICS: Final = {
    Scenario.SINGLE_STREAM: "latency_p90",
    Scenario.MULTI_STREAM: "samples_per_query",
    Scenario.SERVER: "scheduled_samples_per_second",
    Scenario.OFFLINE: "samples_per_second",
}


def read_training(result: Result, judged_by: PublishedTraining) -> Reading:
    """Read a training set: the mean of its minutes without the fastest and the slowest, of some benchmarks several at each end.

    Source: training_rules.adoc v0.6 and v0.7, Benchmark results; a run that did not succeed counts as the slowest.
    """
    where = recognise(result.folder).place
    group = None if result.alone else read_set(result.folder, judged_by, where)
    logs = group.logs if group else [read_log(result.logs[0], judged_by, where)]
    if all(log.minutes is None for log in logs):
        raise JudgedError(f"{result.alone or result.folder}: no run_start and run_stop in its logs")
    runs = tuple(round(log.minutes, DECIMALS) if log.succeeded and log.minutes is not None else None for log in logs)
    row = judged_by.benchmarks.get(benchmark or "") if (benchmark := group.benchmark if group else logs[0].benchmark) else None
    ends = row.drop_each_end if row and row.drop_each_end is not None else judged_by.rules.drop_each_end
    value = olympic(runs, OLYMPIC_FROM, ends)
    return Reading(
        profile=PUBLISHED,
        round=judged_by.name,
        metric=TIME_TO_TRAIN,
        value=value,
        unit=MINUTES,
        runs=runs,
        workload=benchmark,
        division=None if result.division else division_of(logs),
        org=told_of(logs, events.SUBMISSION_ORG),
        system=told_of(logs, events.SUBMISSION_PLATFORM),
        convergence=held_against(group, value) if group else None,
    )


def held_against(group: PublishedSet, minutes: float | None) -> Mapping[str, object] | None:
    """Tell what a closed set is held against: the point, what its runs needed, the factor, and the minutes times it."""
    found = convergence_of(group)
    if found is None:
        return None
    point = found.point
    return {
        "outcome": found.outcome.value,
        "factor": found.factor,
        "scaled": None if minutes is None else minutes * found.factor,
        "batch": found.batch,
        "point": point.name if point else None,
        "reference_mean": point.mean if point else None,
        "least_mean": found.least,
        "mean": found.mean,
        "spare_runs": found.spare,
        "missing_runs": found.missing,
        "others_need": found.others_need,
    }


def told_of(logs: Iterable[PublishedLog], key: str) -> str:
    """Give what most logs say of who or what ran; empty where none says it."""
    told = Counter(value.strip() for log in logs if isinstance(value := log.value(key), str))
    return max(told, key=told.__getitem__, default="")


def division_of(logs: Iterable[PublishedLog]) -> str | None:
    """Give the division that most logs name."""
    told = Counter(log.division for log in logs if log.division)
    return max(told, key=told.__getitem__, default=None)


def read_serving(result: Result, judged_by: PublishedInference) -> Reading:
    """Read one scenario: of Server's runs the lowest counts.

    Source: inference_rules.adoc v0.5, Scenarios.
    """
    found = headline(result.folder, judged_by)
    if found is None or result.scenario is None:
        raise JudgedError(f"{result.folder}: no result in the summaries of its performance runs")
    return Reading(profile=PUBLISHED, round=judged_by.name, metric=METRICS[result.scenario], value=found.value, unit=found.unit, runs=found.runs)
