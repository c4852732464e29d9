"""The values that scores take from published results: minutes of each training run, LoadGen's
result of each scenario.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from compliance.documents.inference.entry import headline, performance_folders
from compliance.documents.inference.served import read_run
from compliance.documents.inference.served_headline import served_value
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
from suite.rounds.served import ServedRound
from suite.workload import Mode

OLYMPIC_FROM: Final = 3
"""Minimum number of runs for an olympic mean; with fewer, the mean covers all of them."""
DECIMALS: Final = 4
"""Decimals of a run's minutes, that is 6 ms: logs have milliseconds, and these rounds' tables are
computed from such minutes.
"""
METRICS: Final = {
    Scenario.SINGLE_STREAM: "latency_p90",
    Scenario.MULTI_STREAM: "samples_per_query",
    Scenario.SERVER: "scheduled_samples_per_second",
    Scenario.OFFLINE: "samples_per_second",
}


def read_training(result: Result, judged_by: PublishedTraining) -> Reading:
    """Read a training set: the mean of its minutes without the fastest and the slowest run, or
    without several at each end for some benchmarks.

    Source: training_rules.adoc v0.6 and v0.7, Benchmark results; a run that did not succeed counts
    as the slowest.
    """
    where = recognise(result.folder).place
    group = None if result.alone else read_set(result.folder, judged_by, where)
    logs = group.logs if group else [read_log(result.logs[0], judged_by, where)]
    if all(log.minutes is None for log in logs):
        raise JudgedError(f"{result.alone or result.folder}: no run_start and run_stop in its logs")
    runs = tuple(
        round(log.minutes, DECIMALS) if log.succeeded and log.minutes is not None else None
        for log in logs
    )
    row = (
        judged_by.benchmarks.get(benchmark or "")
        if (benchmark := group.benchmark if group else logs[0].benchmark)
        else None
    )
    ends = (
        row.drop_each_end
        if row and row.drop_each_end is not None
        else judged_by.rules.drop_each_end
    )
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
    """Return the RCP comparison of a closed set: the point, the least mean, the set's own mean, the
    factor, and the minutes times it.
    """
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


def read_served(result: Result, judged_by: ServedRound) -> Reading:
    """Read one scenario since v1.0, in samples or as a latency: the lowest rate of its runs, or the
    highest latency.

    Source: submission-checker.py, RESULT_FIELD: SingleStream's and MultiStream's early-stopping
    estimate, else the 90th and 99th percentile.
    """
    found = [
        value
        for folder in performance_folders(result.folder)
        if (value := served_value(read_run(folder, Mode.PERFORMANCE, judged_by), result.scenario))
    ]
    if not found or result.scenario is None:
        raise JudgedError(f"{result.folder}: no result in the detail logs of its performance runs")
    metric, unit, _ = found[0]
    values = tuple(value for _, _, value in found)
    return Reading(
        profile=PUBLISHED,
        round=judged_by.name,
        metric=metric,
        value=(max if unit == "ns" else min)(values),
        unit=unit,
        runs=values,
    )


def told_of(logs: Iterable[PublishedLog], key: str) -> str:
    """Return the most frequent value of a field about submitter or system in the logs; empty if
    none has it.
    """
    told = Counter(value.strip() for log in logs if isinstance(value := log.value(key), str))
    return max(told, key=told.__getitem__, default="")


def division_of(logs: Iterable[PublishedLog]) -> str | None:
    """Return the division that most logs name."""
    told = Counter(log.division for log in logs if log.division)
    return max(told, key=told.__getitem__, default=None)


def read_serving(result: Result, judged_by: PublishedInference) -> Reading:
    """Read one scenario: the lowest of Server's runs counts.

    Source: inference_rules.adoc v0.5, Scenarios.
    """
    found = headline(result.folder, judged_by)
    if found is None or result.scenario is None:
        raise JudgedError(f"{result.folder}: no result in the summaries of its performance runs")
    return Reading(
        profile=PUBLISHED,
        round=judged_by.name,
        metric=METRICS[result.scenario],
        value=found.value,
        unit=found.unit,
        runs=found.runs,
    )
