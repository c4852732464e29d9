"""Compares engines and precisions from the results themselves: a bundle does not contain the table
of `podium precision`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from compliance.kinds.podium.results.loadgen_runs import read_loadgen_percentiles
from compliance.results.indexed_result import IndexedResult
from submissions.cells import format_metric_value, format_score_value
from submissions.report.document import Section, Table
from submissions.report.sections import serving, tokens
from suite.loadgen.scenario import Scenario
from suite.result import PUBLISHED_PROFILE, Result
from suite.terms import Precision

ServedScenarios: TypeAlias = Mapping[Scenario, tuple[IndexedResult, Result]]
FORMAT_COLUMNS: Final = (
    "engine",
    "precision",
    "accuracy",
    "difference",
    "Offline",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "times as fast",
    "compliant",
)
FORMATS_INTRO: Final = (
    "Computed from the results below: accuracy and rate from Offline, measured latencies from "
    "SingleStream. Differences and ratios are relative to the first row and are not tested."
)


def build_formats_section(
    pairs: Sequence[tuple[IndexedResult, Result]], workload: str
) -> Section | None:
    """Compare the systems of one workload that differ in engine or precision; None if there is only
    one. Published systems are not compared: they differ in their machines, too.
    """
    systems: dict[tuple[Path | None, str], dict[Scenario, tuple[IndexedResult, Result]]] = {}
    for result, side in pairs:
        if result.workload == workload and result.scenario and side.profile != PUBLISHED_PROFILE:
            systems.setdefault((result.organisation_folder, side.system), {})[result.scenario] = (
                result,
                side,
            )
    ordered = sorted(
        systems.values(),
        key=lambda each: (
            identify_engine_and_precision(each)[1] != Precision.FP32,
            identify_engine_and_precision(each),
        ),
    )
    if len({identify_engine_and_precision(each) for each in ordered}) < 2:
        return None
    rows = tuple(format_served_system_row(each, ordered[0]) for each in ordered)
    table = Table(
        title="Accuracy and speed", columns=FORMAT_COLUMNS, rows=rows, numeric=(4, 5, 6, 7, 8)
    )
    return Section(
        id=f"precision-{workload}",
        title="Engines and precisions",
        intro=FORMATS_INTRO,
        tables=(table,),
    )


def identify_engine_and_precision(served: ServedScenarios) -> tuple[str, str]:
    """Return the engine and precision of a system."""
    side = next(iter(served.values()))[1]
    return side.engine or "-", side.precision or "-"


def format_served_system_row(served: ServedScenarios, first: ServedScenarios) -> tuple[str, ...]:
    """Format one system in comparison with the first."""
    score, first_score = find_offline_score(served), find_offline_score(first)
    accuracy, reference = select_system_accuracy(served), select_system_accuracy(first)
    differences = {
        name: value - reference[name] for name, value in accuracy.items() if name in reference
    }
    ratio = (
        score.value / first_score.value
        if score and first_score and score.value and first_score.value
        else None
    )
    single = served.get(Scenario.SINGLE_STREAM)
    return (
        *identify_engine_and_precision(served),
        ", ".join(f"{name} {format_score_value(value)}" for name, value in accuracy.items()) or "-",
        ", ".join(f"{name} {value:+.4f}" for name, value in differences.items()) or "-",
        format_metric_value(score.value, score.unit) if score else "-",
        *(
            tokens.format_measured_latencies(
                read_loadgen_percentiles(
                    single[0].performance_folders[serving.find_slowest_run(single[1])]
                )
            )
            if single
            else ("-", "-", "-")
        ),
        "-" if ratio is None else f"{ratio:.2f}",
        "yes" if all(side.compliant for _, side in served.values()) else "no",
    )


def select_system_accuracy(served: ServedScenarios) -> Mapping[str, float]:
    """Return Offline's accuracy, or else that of another scenario: all of them answer the same
    samples.
    """
    return next(
        served[scenario][1].accuracy
        for scenario in (Scenario.OFFLINE, *served)
        if scenario in served
    )


def find_offline_score(served: ServedScenarios) -> Result | None:
    """Return Offline's score, the one whose metric is a rate."""
    return served[Scenario.OFFLINE][1] if Scenario.OFFLINE in served else None
