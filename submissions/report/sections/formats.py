"""Engines and number formats beside one another, from the results themselves: a bundle does not
hold the table of `podium precision`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from submissions.compare.compared_results import Side
from submissions.report.document import Section, Table
from submissions.report.sections import serving
from submissions.result_index import Result
from submissions.score.score import Score
from submissions.tables import digits, shown
from suite.loadgen.scenario import Scenario
from suite.terms import Precision

Served: TypeAlias = Mapping[Scenario, tuple[Result, Side]]
COLUMNS: Final = (
    "engine",
    "number format",
    "accuracy",
    "difference",
    "Offline",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "times as fast",
    "compliant",
)
INTRO: Final = (
    "Computed from the results below: accuracy and rate of Offline, measured latencies of"
    " SingleStream. Differences and ratios are to the first row; none is tested."
)


def section(pairs: Sequence[tuple[Result, Side]], workload: str) -> Section | None:
    """Compare the systems of one workload that differ in engine or number format; None if there are
    not several.
    """
    systems: dict[tuple[Path | None, str], dict[Scenario, tuple[Result, Side]]] = {}
    for result, side in pairs:
        if result.workload == workload and result.scenario:
            systems.setdefault((result.home, side.score.system), {})[result.scenario] = (
                result,
                side,
            )
    found = sorted(systems.values(), key=lambda each: (kind(each)[1] != Precision.FP32, kind(each)))
    if len({kind(each) for each in found}) < 2:
        return None
    rows = tuple(row(each, found[0]) for each in found)
    table = Table(
        title="Accuracy beside speed", columns=COLUMNS, rows=rows, numeric=(4, 5, 6, 7, 8)
    )
    return Section(
        id=f"precision-{workload}", title="Engines and number formats", intro=INTRO, tables=(table,)
    )


def kind(served: Served) -> tuple[str, str]:
    """Return engine and number format of a system."""
    side = next(iter(served.values()))[1]
    return side.engine or "-", side.precision or "-"


def row(served: Served, first: Served) -> tuple[str, ...]:
    """Format one system beside the first."""
    own, base = score_of(served), score_of(first)
    accuracy, reference = accuracy_of(served), accuracy_of(first)
    differences = {
        name: value - reference[name] for name, value in accuracy.items() if name in reference
    }
    ratio = own.value / base.value if own and base and own.value and base.value else None
    single = served.get(Scenario.SINGLE_STREAM)
    return (
        *kind(served),
        ", ".join(f"{name} {digits(value)}" for name, value in accuracy.items()) or "-",
        ", ".join(f"{name} {value:+.4f}" for name, value in differences.items()) or "-",
        shown(own.value, own.unit) if own else "-",
        *(
            serving.latencies(single[0].performance[serving.counts(single[1].score)])
            if single
            else ("-", "-", "-")
        ),
        "-" if ratio is None else f"{ratio:.2f}",
        "yes" if all(side.score.compliant for _, side in served.values()) else "no",
    )


def accuracy_of(served: Served) -> Mapping[str, float]:
    """Return Offline's accuracy, else that of another scenario: all of them answer the same
    samples.
    """
    return next(
        served[scenario][1].score.accuracy
        for scenario in (Scenario.OFFLINE, *served)
        if scenario in served
    )


def score_of(served: Served) -> Score | None:
    """Return Offline's score, whose metric is a rate."""
    return served[Scenario.OFFLINE][1].score if Scenario.OFFLINE in served else None
