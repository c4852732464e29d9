"""Reads the values that scores take from published results: the minutes of each training run, and
LoadGen's result of each scenario.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.documents.endpoints.entry import read_endpoints_entry
from compliance.documents.endpoints.headline import find_endpoints_headline
from compliance.documents.inference_mllog.entry_documents import read_entry_documents
from compliance.documents.inference_mllog.headline import find_mllog_headline
from compliance.documents.inference_mllog.run import (
    MllogRun,
    parse_claimed_scores,
    parse_scenario_folder,
    read_accuracy_text,
    read_mllog_run,
)
from compliance.documents.inference_text.entry import (
    find_child_ignoring_case,
    find_performance_folders,
    read_entry_headline,
)
from compliance.documents.inference_text.entry_files import read_claims, read_measurements_folder
from compliance.documents.training.convergence import judge_set_convergence
from compliance.documents.training.evaluations import PublishedEvaluation
from compliance.documents.training.log import (
    PublishedLog,
    PublishedSet,
    read_published_log,
    read_published_set,
)
from compliance.logs.loadgen.summary import PRINTED_NUMBER_PATTERN
from compliance.recognition.path_kind import find_endpoints_summary, recognise_path
from submissions.metrics import MINUTES_UNIT, TIME_TO_TRAIN, compute_olympic_mean
from submissions.result_index import IndexedResult
from submissions.score.log_values import PUBLISHED_PROFILE, ResultValues
from suite import events
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_TEXT
from suite.loadgen.headline import REQUESTED_TOKENS_KEY, TOKEN_RATE_UNIT
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_figures import TokenFigures, read_token_figures
from suite.rounds.inference_mllog import InferenceMllogRound
from suite.rounds.inference_text import InferenceTextRound
from suite.rounds.published_training import PublishedTraining
from suite.rounds.quality import select_worst_scores
from suite.workload import Mode

PUBLISHED_OLYMPIC_RUNS: Final = 3
"""Minimum number of runs for an olympic mean; with fewer, the mean covers all of them."""
MINUTES_DECIMALS: Final = 4
"""Decimals of a run's minutes, a resolution of 6 ms: logs have milliseconds, and these rounds'
tables are computed from such minutes.
"""
PUBLISHED_METRICS: Final = {
    Scenario.SINGLE_STREAM: "latency_p90",
    Scenario.MULTI_STREAM: "samples_per_query",
    Scenario.SERVER: "scheduled_samples_per_second",
    Scenario.OFFLINE: "samples_per_second",
}


def read_published_training_values(
    result: IndexedResult, judged_by: PublishedTraining
) -> ResultValues:
    """Read a training set: the mean of its minutes without the fastest and the slowest run, or
    without several at each end for some benchmarks.

    Source: training_rules.adoc v0.6 and v0.7, Benchmark results; a run that did not succeed counts
    as the slowest.
    """
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
    value = compute_olympic_mean(runs, PUBLISHED_OLYMPIC_RUNS, ends)
    return ResultValues(
        profile=PUBLISHED_PROFILE,
        round=judged_by.name,
        metric=TIME_TO_TRAIN,
        value=value,
        unit=MINUTES_UNIT,
        runs=runs,
        workload=benchmark,
        division=None if result.division else find_most_frequent_division(logs),
        org=find_most_frequent_value(logs, events.SUBMISSION_ORG),
        system=find_most_frequent_value(logs, events.SUBMISSION_PLATFORM),
        accuracy=collect_final_scores(logs),
        target=dict(logs[0].target),
        lower_is_better=logs[0].row.lower_is_better if logs[0].row else (),
        convergence=build_convergence_record(group, value) if group else None,
    )


def read_published_result_logs(
    result: IndexedResult, judged_by: PublishedTraining
) -> tuple[PublishedSet | None, Sequence[PublishedLog]]:
    """Read the logs of a training set, with the set; of a single log without it."""
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
    lower = logs[0].row.lower_is_better if logs and logs[0].row else ()
    return select_worst_scores(
        (
            {metric: score for metric, score in each.scores.items() if score is not None}
            for each in finals
        ),
        lower,
    )


def build_convergence_record(
    group: PublishedSet, minutes: float | None
) -> Mapping[str, object] | None:
    """Return the RCP comparison of a closed set: the point, the least mean, the set's own mean, the
    factor, and the minutes times it.
    """
    found = judge_set_convergence(group)
    if found is None:
        return None
    point = found.point
    return {
        "outcome": found.outcome.value,
        "factor": found.factor,
        "scaled": None if minutes is None else minutes * found.factor,
        "headline": "scaled" if found.factor > 1 else "value",
        "batch": found.batch,
        "point": point.name if point else None,
        "reference_mean": point.mean if point else None,
        "least_mean": found.least,
        "mean": found.mean,
        "spare_runs": found.spare,
        "missing_runs": found.missing,
        "others_need": found.others_need,
    }


def read_mllog_entry_values(result: IndexedResult, judged_by: InferenceMllogRound) -> ResultValues:
    """Read one scenario since v1.0, in samples or as a latency: the lowest rate of its runs, or the
    highest latency.

    Source: submission-checker.py, RESULT_FIELD: SingleStream's and MultiStream's early-stopping
    estimate, else the 90th and 99th percentile.
    """
    if summary := find_endpoints_summary(result.folder):
        return read_endpoints_entry_values(result, summary, judged_by)
    runs = [
        read_mllog_run(folder, Mode.PERFORMANCE, judged_by)
        for folder in find_performance_folders(result.folder)
    ]
    found = [
        (metric, unit, find_printed_digits(run, metric, value), run)
        for run in runs
        for metric, unit, value in filter(None, [find_mllog_headline(run, result.scenario)])
    ]
    if not found or result.scenario is None:
        raise JudgedError(f"{result.folder}: no result in the detail logs of its performance runs")
    metric, unit, *_ = found[0]
    values = tuple(value for _, _, value, _ in found)
    value = (max if unit == "ns" else min)(values)
    tokens = read_published_tokens(found[values.index(value)][3])
    if tokens and unit == TOKEN_RATE_UNIT:
        tokens = replace(tokens, tokens_per_s=value)  # with all digits that were printed
    model = judged_by.models.get(judged_by.find_benchmark(result.folder.parent.name) or "")
    claims = parse_claimed_scores(read_accuracy_text(result.accuracy_folder / ACCURACY_TEXT), model)
    return ResultValues(
        profile=PUBLISHED_PROFILE,
        round=judged_by.name,
        metric=metric,
        value=value,
        unit=unit,
        runs=values,
        precision=read_mllog_precision(result, judged_by),
        whole_answers_per_s=tokens.answers_per_s if tokens else None,
        tokens=tokens,
        inferred=found[0][3].logged_scenario != result.scenario.label,
        accuracy={metric: scores[-1] for metric, scores in claims.items()},
        target=dict(model.find_minimums(parse_scenario_folder(result.folder.name)))
        if model
        else {},
    )


def read_published_tokens(run: MllogRun) -> TokenFigures | None:
    """Read what LoadGen says of tokens; None if it did not measure them."""
    if run.find_value(REQUESTED_TOKENS_KEY) is not True:
        return None
    return read_token_figures(run.find_number)


def read_endpoints_entry_values(
    result: IndexedResult, summary: Path, judged_by: InferenceMllogRound
) -> ResultValues:
    """Read one scenario that was measured with the Endpoints client."""
    entry = read_endpoints_entry(result.folder, summary, None, judged_by)
    found = find_endpoints_headline(entry)
    if found is None:
        raise JudgedError(f"{summary}: no duration, counts or rate in it")
    return ResultValues(
        profile=PUBLISHED_PROFILE,
        round=judged_by.name,
        metric=found.metric,
        value=found.value,
        unit=found.unit,
        runs=(found.value,),
        accuracy=entry.compute_claims(),
        target=dict(entry.model.find_minimums(entry.scenario)) if entry.model else {},
        basis=found.basis,
        whole_run=found.whole_run,
        whole_answers_per_s=found.whole_answers_per_s,
        late_tokens=found.late_tokens,
        precision=read_mllog_precision(result, judged_by),
    )


def find_printed_digits(run: MllogRun, metric: str, value: float) -> float:
    """Return a rate with the digits that LoadGen's summary prints, where its detail log has only
    the first six of them.

    Source: mlcommons/inference, loadgen/results.cc: the summary prints tokens per second with two
    decimals; logging.cc: numbers in the detail log have C++'s six digits.
    """
    text = run.summary.find_text(metric.replace("_", " ").capitalize())
    if text is None or not PRINTED_NUMBER_PATTERN.fullmatch(text):
        return value
    printed = float(text)
    return printed if f"{printed:.6g}" == f"{value:.6g}" else value


def read_mllog_precision(result: IndexedResult, judged_by: InferenceMllogRound) -> str | None:
    """Read the precision of an entry since v1.0 from the file filed with it."""
    position = recognise_path(result.folder).position
    if position is None:
        return None
    return fold_stated_precision(read_entry_documents(result.folder, position, judged_by).fields)


def read_text_precision(result: IndexedResult) -> str | None:
    """Read the precision of an entry of v0.5 or v0.7 from its measurements."""
    if not result.organisation_folder:
        return None
    measurements = read_measurements_folder(
        result.measurements_folder, result.system, result.folder.name
    )
    return fold_stated_precision(measurements.fields)


def fold_stated_precision(fields: Mapping[str, object]) -> str | None:
    """Return the precision of the weights in lower case; None if it is not stated."""
    precision = fields.get("weight_data_types")
    return precision.casefold() if isinstance(precision, str) else None


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


def read_published_inference_values(
    result: IndexedResult, judged_by: InferenceTextRound
) -> ResultValues:
    """Read one scenario: the lowest of Server's runs counts.

    Source: inference_rules.adoc v0.5, Scenarios.
    """
    found = read_entry_headline(result.folder, judged_by)
    if found is None or result.scenario is None:
        raise JudgedError(f"{result.folder}: no result in the summaries of its performance runs")
    row = judged_by.benchmarks.get(
        judged_by.find_benchmark(result.folder.parent.name, result.division or None) or ""
    )
    accuracy_folder = find_child_ignoring_case(result.folder, "accuracy")
    scores = read_claims(accuracy_folder / ACCURACY_TEXT).scores if accuracy_folder else {}
    claims = scores.get(row.metric, []) if row else []
    return ResultValues(
        profile=PUBLISHED_PROFILE,
        round=judged_by.name,
        metric=PUBLISHED_METRICS[result.scenario],
        value=found.value,
        unit=found.unit,
        runs=found.runs,
        accuracy={row.metric: claims[0].value} if row and claims else {},
        target={row.metric: row.threshold} if row and result.division != "open" else {},
        inferred=found.inferred,
        precision=read_text_precision(result),
    )
