"""Scores of inference entries of v0.5 and v0.7: LoadGen's result of a scenario."""

from typing import Final

from compliance.kinds.inference_text.documents.entry import read_entry_headline
from compliance.kinds.inference_text.documents.entry_files import (
    read_claims,
    read_measurements_folder,
)
from compliance.kinds.inference_text.round import load_inference_text_round
from compliance.recognition.loadgen_folders import find_child_ignoring_case
from compliance.results.indexed_result import IndexedResult
from compliance.results.machine import fold_stated_precision
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_TEXT
from suite.loadgen.scenario import Scenario
from suite.result import PUBLISHED_PROFILE, Figure, MadeWith, Quality, Result

PUBLISHED_METRICS: Final = {
    Scenario.SINGLE_STREAM: "latency_p90",
    Scenario.MULTI_STREAM: "samples_per_query",
    Scenario.SERVER: "scheduled_samples_per_second",
    Scenario.OFFLINE: "samples_per_second",
}


def read_text_precision(result: IndexedResult) -> str | None:
    """Read the precision of an entry of v0.5 or v0.7 from its measurements."""
    if not result.organisation_folder:
        return None
    measurements = read_measurements_folder(
        result.measurements_folder, result.system, result.folder.name
    )
    return fold_stated_precision(measurements.fields)


def read_text_entry_values(result: IndexedResult, round_name: str) -> Result:
    """Read one scenario: the lowest of Server's runs counts.

    Source: inference_rules.adoc v0.5, Scenarios.
    """
    judged_by = load_inference_text_round(round_name)
    found = read_entry_headline(result.folder, judged_by)
    if found is None or result.scenario is None:
        raise JudgedError(f"{result.folder}: no result in the summaries of its performance runs")
    row = judged_by.benchmarks.get(
        judged_by.find_benchmark(result.folder.parent.name, result.division or None) or ""
    )
    accuracy_folder = find_child_ignoring_case(result.folder, "accuracy")
    if accuracy_folder:
        scores = read_claims(accuracy_folder / ACCURACY_TEXT).scores
    else:
        scores = {}
    if row:
        claims = scores.get(row.metric, [])
    else:
        claims = []
    return Result(
        place=result.build_place(judged_by.name, PUBLISHED_PROFILE),
        figure=Figure(
            metric=PUBLISHED_METRICS[result.scenario],
            unit=found.unit,
            value=found.value,
            runs=found.runs,
            inferred=found.inferred,
        ),
        quality=Quality(
            accuracy={row.metric: claims[0].value} if row and claims else {},
            target={row.metric: row.threshold} if row and result.division != "open" else {},
        ),
        made_with=MadeWith(precision=read_text_precision(result)),
    )
