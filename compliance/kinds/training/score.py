"""Scores of published run sets: the minutes of each run, and their mean."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from compliance.kinds.training.documents.convergence import judge_set_convergence
from compliance.kinds.training.documents.evaluations import PublishedEvaluation
from compliance.kinds.training.documents.log import (
    PublishedLog,
    PublishedSet,
    read_published_log,
    read_published_set,
)
from compliance.kinds.training.round import PublishedTraining, load_training_round
from compliance.recognition.path_kind import recognise_path
from compliance.results.indexed_result import IndexedResult
from suite import events
from suite.errors import JudgedError
from suite.measurement.metrics import MINUTES_UNIT, TIME_TO_TRAIN, compute_olympic_mean
from suite.result import PUBLISHED_PROFILE, Convergence, Figure, Quality, Result
from suite.rounds.quality import select_worst_scores

PUBLISHED_OLYMPIC_RUNS: Final = 3
"""Minimum number of runs for an olympic mean; with fewer, the mean covers all of them."""
MINUTES_DECIMALS: Final = 4
"""Decimals of a run's minutes, a resolution of 6 ms: logs have milliseconds, and these rounds'
tables are computed from such minutes.
"""


def read_published_training_values(result: IndexedResult, round_name: str) -> Result:
    """Read a run set: the mean of its minutes without the fastest and the slowest run, or
    without several at each end for some benchmarks.

    Source: training_rules.adoc v0.6 and v0.7, Benchmark results; a run that did not succeed counts
    as the slowest.
    """
    judged_by = load_training_round(round_name)
    group, logs = read_published_result_logs(result, judged_by)
    for log in logs:
        if mixture := log.mixture:
            raise JudgedError(
                f"{log.path}: {mixture.found}, so it has no score; {mixture.advice.rstrip('.')}"
            )
    if all(log.minutes is None for log in logs):
        raise JudgedError(
            f"{result.single_log or result.folder}: its logs contain no run_start and run_stop"
        )
    runs = tuple(
        round(log.minutes, MINUTES_DECIMALS) if log.succeeded and log.minutes is not None else None
        for log in logs
    )
    row = None
    if benchmark := group.benchmark if group else logs[0].benchmark:
        row = judged_by.benchmarks.get(benchmark or "")
    if row and row.drop_each_end is not None:
        ends = row.drop_each_end
    else:
        ends = judged_by.rules.drop_each_end
    return Result(
        place=result.build_place(
            judged_by.name,
            PUBLISHED_PROFILE,
            division=find_most_frequent_division(logs) or "",
            org=find_most_frequent_value(logs, events.SUBMISSION_ORG),
            system=find_most_frequent_value(logs, events.SUBMISSION_PLATFORM),
            workload=benchmark or "",
        ),
        figure=Figure(
            metric=TIME_TO_TRAIN,
            unit=MINUTES_UNIT,
            value=compute_olympic_mean(runs, PUBLISHED_OLYMPIC_RUNS, ends),
            runs=runs,
        ),
        quality=Quality(
            accuracy=collect_final_scores(logs),
            target=dict(logs[0].target),
            lower_is_better=logs[0].row.lower_is_better if logs[0].row else (),
        ),
        convergence=build_convergence_record(group) if group else None,
    )


def read_published_result_logs(
    result: IndexedResult, judged_by: PublishedTraining
) -> tuple[PublishedSet | None, Sequence[PublishedLog]]:
    """Read the logs of a run set, with the set; of a single log without it."""
    tree_location = recognise_path(result.folder).position
    if result.single_log:
        return None, [read_published_log(result.single_log, judged_by, tree_location)]
    group = read_published_set(result.folder, judged_by, tree_location)
    return group, group.logs


def find_final_evaluation(log: PublishedLog) -> PublishedEvaluation | None:
    """Return the evaluation that ended a run: the first that reached the target, else the last."""
    ended = next(filter(log.has_reached_target, log.evaluations), None)
    return ended or (log.evaluations[-1] if log.evaluations else None)


def collect_final_scores(logs: Sequence[PublishedLog]) -> Mapping[str, float]:
    """Return the score of each metric in the evaluation that ended the runs: of several runs the
    one furthest from the target.
    """
    finals = [each for log in logs if (each := find_final_evaluation(log))]
    if logs and logs[0].row:
        lower = logs[0].row.lower_is_better
    else:
        lower = ()
    return select_worst_scores(
        (
            {metric: score for metric, score in each.scores.items() if score is not None}
            for each in finals
        ),
        lower,
    )


def build_convergence_record(group: PublishedSet) -> Convergence | None:
    """Return the RCP comparison of a closed set: the point, the least mean, the set's own mean and
    the factor.
    """
    found = judge_set_convergence(group)
    if found is None:
        return None
    point = found.point
    return Convergence(
        outcome=found.outcome.value,
        factor=found.factor,
        batch=found.batch,
        point=point.name if point else None,
        reference_mean=point.mean if point else None,
        least_mean=found.least,
        mean=found.mean,
        spare_runs=found.spare,
        missing_runs=found.missing,
        others_need=found.others_need,
    )


def find_most_frequent_value(logs: Iterable[PublishedLog], key: str) -> str:
    """Return the most frequent value of a field about submitter or system in the logs; empty if no
    log has the field.
    """
    value_counts = Counter(
        value.strip() for log in logs if isinstance(value := log.find_value(key), str)
    )
    return max(value_counts, key=value_counts.__getitem__, default="")


def find_most_frequent_division(logs: Iterable[PublishedLog]) -> str | None:
    """Return the division that most logs name."""
    division_counts = Counter(log.division for log in logs if log.division)
    return max(division_counts, key=division_counts.__getitem__, default=None)
