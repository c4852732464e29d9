"""Scores of inference entries since v1.0: what LoadGen or the Endpoints client measured."""

from dataclasses import replace
from pathlib import Path

from compliance.kinds.endpoints.recognition import find_endpoints_summary
from compliance.kinds.inference_mllog.documents.endpoints_entry import read_endpoints_entry
from compliance.kinds.inference_mllog.documents.endpoints_headline import find_endpoints_headline
from compliance.kinds.inference_mllog.documents.entry_documents import read_entry_documents
from compliance.kinds.inference_mllog.documents.headline import find_mllog_headline
from compliance.kinds.inference_mllog.documents.run import (
    MllogRun,
    parse_claimed_scores,
    parse_scenario_folder,
    read_accuracy_text,
    read_mllog_run,
)
from compliance.kinds.inference_mllog.round import (
    InferenceMllogRound,
    load_inference_mllog_round,
)
from compliance.logs.loadgen.summary import PRINTED_NUMBER_PATTERN
from compliance.recognition.loadgen_folders import find_performance_folders
from compliance.recognition.path_kind import recognise_path
from compliance.results.indexed_result import IndexedResult
from compliance.results.machine import fold_stated_precision
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_TEXT
from suite.loadgen.headline import REQUESTED_TOKENS_KEY, TOKEN_RATE_UNIT
from suite.loadgen.token_figures import TokenFigures, read_token_figures
from suite.result import PUBLISHED_PROFILE, Figure, MadeWith, Quality, Result
from suite.workload import Mode


def read_mllog_entry_values(result: IndexedResult, round_name: str) -> Result:
    """Read one scenario since v1.0, in samples or as a latency: the lowest rate of its runs, or the
    highest latency.

    Source: submission-checker.py, RESULT_FIELD: SingleStream's and MultiStream's early-stopping
    estimate, else the 90th and 99th percentile.
    """
    judged_by = load_inference_mllog_round(round_name)
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
    scenario = parse_scenario_folder(result.folder.name)
    return Result(
        place=result.build_place(judged_by.name, PUBLISHED_PROFILE),
        figure=Figure(
            metric=metric,
            unit=unit,
            value=value,
            runs=values,
            whole_answers_per_s=tokens.answers_per_s if tokens else None,
            tokens=tokens,
            inferred=found[0][3].logged_scenario != result.scenario.label,
        ),
        quality=Quality(
            accuracy={metric: scores[-1] for metric, scores in claims.items()},
            target=dict(model.find_minimums(scenario)) if model else {},
        ),
        made_with=MadeWith(precision=read_mllog_precision(result, judged_by)),
    )


def read_published_tokens(run: MllogRun) -> TokenFigures | None:
    """Read what LoadGen says of tokens; None if it did not measure them."""
    if run.find_value(REQUESTED_TOKENS_KEY) is not True:
        return None
    return read_token_figures(run.find_number)


def read_endpoints_entry_values(
    result: IndexedResult, summary: Path, judged_by: InferenceMllogRound
) -> Result:
    """Read one scenario that was measured with the Endpoints client."""
    entry = read_endpoints_entry(result.folder, summary, None, judged_by)
    found = find_endpoints_headline(entry)
    if found is None:
        raise JudgedError(f"{summary}: no duration, counts or rate in it")
    return Result(
        place=result.build_place(judged_by.name, PUBLISHED_PROFILE),
        figure=Figure(
            metric=found.metric,
            unit=found.unit,
            value=found.value,
            runs=(found.value,),
            basis=found.basis,
            whole_run=found.whole_run,
            whole_answers_per_s=found.whole_answers_per_s,
            late_tokens=found.late_tokens,
        ),
        quality=Quality(
            accuracy=entry.compute_claims(),
            target=dict(entry.model.find_minimums(entry.scenario)) if entry.model else {},
        ),
        made_with=MadeWith(precision=read_mllog_precision(result, judged_by)),
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
    if f"{printed:.6g}" == f"{value:.6g}":
        return printed
    return value


def read_mllog_precision(result: IndexedResult, judged_by: InferenceMllogRound) -> str | None:
    """Read the precision of an entry since v1.0 from the file filed with it."""
    position = recognise_path(result.folder).position
    if position is None:
        return None
    return fold_stated_precision(read_entry_documents(result.folder, position, judged_by).fields)
