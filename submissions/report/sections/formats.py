"""Compares engines and precisions from the results themselves: a bundle does not contain the table
of `podium precision`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from compliance.kinds.podium.results.loadgen_runs import read_loadgen_percentiles
from compliance.results.indexed_result import IndexedResult
from submissions.cells import format_metric_value, format_score_value
from submissions.report.document import Section
from submissions.report.sections import serving
from submissions.report.sections.tokens import build_percentile_columns
from submissions.report.shown_table import build_shown_table
from suite import columns
from suite.columns import UNKNOWN_CELL, Column
from suite.loadgen.scenario import Scenario
from suite.result import PUBLISHED_PROFILE, Result
from suite.terms import Precision

ServedScenarios: TypeAlias = Mapping[Scenario, tuple[IndexedResult, Result]]
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
    rows = [
        SystemBesideFirst(each, ordered[0], read_single_stream_percentiles(each))
        for each in ordered
    ]
    table = build_shown_table("Accuracy and speed", FORMATS_TABLE, rows)
    return Section(
        id=f"precision-{workload}",
        title="Engines and precisions",
        intro=FORMATS_INTRO,
        tables=(table,),
    )


def identify_engine_and_precision(served: ServedScenarios) -> tuple[str, str]:
    side = next(iter(served.values()))[1]
    return side.engine_words or UNKNOWN_CELL, side.precision_words or UNKNOWN_CELL


class SystemBesideFirst(NamedTuple):
    """A system, and the first one of the table."""

    served: ServedScenarios
    first: ServedScenarios
    latencies: Mapping[float, float]
    """Percentile -> latency in ms of SingleStream; empty without it."""


def format_system_accuracy(row: SystemBesideFirst) -> str:
    """Format the scores; a dash if there are none."""
    scores = select_system_accuracy(row.served).items()
    return (
        ", ".join(f"{name} {format_score_value(value)}" for name, value in scores) or UNKNOWN_CELL
    )


def format_system_difference(row: SystemBesideFirst) -> str:
    """Format how far the scores are from those of the first system; a dash if nothing is known."""
    reference = select_system_accuracy(row.first)
    told = (
        f"{name} {value - reference[name]:+.4f}"
        for name, value in select_system_accuracy(row.served).items()
        if name in reference
    )
    return ", ".join(told) or UNKNOWN_CELL


def format_offline_rate(row: SystemBesideFirst) -> str:
    """Format the rate of Offline; a dash without it."""
    score = find_offline_score(row.served)
    if score:
        return format_metric_value(score.value, score.unit)
    return UNKNOWN_CELL


def format_rate_ratio(row: SystemBesideFirst) -> str:
    """Format how many times as fast as the first system it is in Offline; a dash if either rate is
    unknown.
    """
    score, first_score = find_offline_score(row.served), find_offline_score(row.first)
    if not (score and first_score and score.value and first_score.value):
        return UNKNOWN_CELL
    return f"{score.value / first_score.value:.2f}"


def is_compliant_system(row: SystemBesideFirst) -> bool:
    """Return whether all results of a system are compliant."""
    return all(side.compliant for _, side in row.served.values())


def read_single_stream_percentiles(served: ServedScenarios) -> Mapping[float, float]:
    """Read the percentiles that SingleStream measured; empty without it."""
    single = served.get(Scenario.SINGLE_STREAM)
    if single is None:
        return {}
    folder = single[0].performance_folders[serving.find_slowest_run(single[1])]
    return read_loadgen_percentiles(folder)


FORMATS_TABLE: Final[columns.Table[SystemBesideFirst]] = columns.Table(
    columns=(
        Column("engine", lambda row: identify_engine_and_precision(row.served)[0]),
        Column("precision", lambda row: identify_engine_and_precision(row.served)[1]),
        Column("accuracy", format_system_accuracy),
        Column("difference", format_system_difference),
        Column("Offline", format_offline_rate, numeric=True),
        *build_percentile_columns(lambda row: row.latencies),
        Column("times as fast", format_rate_ratio, numeric=True),
        Column("compliant", is_compliant_system),
    )
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
    if Scenario.OFFLINE in served:
        return served[Scenario.OFFLINE][1]
    return None
