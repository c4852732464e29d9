"""What the runs of an attempt show of each clause: it is met, not met, or not shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from submissions.accept.bounded_metrics import BoundedMetric, FigureKind, compute_cost
from submissions.accept.contract import AcceptanceContract, Clause, convert_bound_unit
from submissions.accept.run_figures import RunFigures, read_bounded_figures
from submissions.cells import (
    KnownFigure,
    explain_missing_interval,
    format_known_interval,
    format_known_value,
    format_score_value,
)
from suite.columns import Column, Table
from suite.measurement.intervals import estimate_value_interval
from suite.result import Result

DISTURBED_NOTE: Final = "on a disturbed machine"


class ClauseState(StrEnum):
    """What is known of a clause."""

    MET = "met"
    NOT_MET = "not met"
    NOT_SHOWN = "not shown"
    """Its interval reaches across the bound, or there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseFinding:
    """A clause, what was measured, and what that shows. Figures are in the clause's unit."""

    clause: Clause
    state: ClauseState
    figure: KnownFigure
    runs: tuple[float | None, ...]
    """Empty for a score, of which there is one."""
    evidence: str

    @property
    def value_words(self) -> str:
        """The figure for a reader; a score as scores are written."""
        if not self.runs and self.figure.value is not None:
            return format_score_value(self.figure.value)
        return format_known_value(self.figure)

    @property
    def interval_words(self) -> str:
        """The interval for a reader; empty without one."""
        return format_known_interval(self.figure)


CLAUSE_TABLE: Final[Table[ClauseFinding]] = Table(
    columns=(
        Column("clause", lambda found: found.clause.words),
        Column("measured", lambda found: found.value_words, numeric=True),
        Column("interval", lambda found: found.interval_words, numeric=True),
        Column("is", lambda found: found.state.value),
        Column("why", lambda found: found.evidence),
    )
)
"""A line per clause, for people."""


def judge_clauses(contract: AcceptanceContract, result: Result) -> Iterator[ClauseFinding]:
    """Judge each clause by a result that the judge accepts. Each has the contract's confidence by
    itself: all of them must hold, so that no clause is won by their number.
    """
    for clause in contract.terms.clause:
        metric = contract.metrics[clause.metric]
        if metric.kind is FigureKind.SCORE:
            yield judge_score_clause(clause, metric, result)
        else:
            yield judge_measured_clause(contract, clause, metric, result)


def judge_score_clause(clause: Clause, metric: BoundedMetric, result: Result) -> ClauseFinding:
    """Judge a clause about a score, which the judge recomputes over the whole set."""
    score = result.accuracy.get(metric.name)
    evidence = "the score of the one accuracy run, over the round's whole set"
    if result.scenario is None:
        evidence = f"the worst of {len(result.runs)} trainings' last evaluations"
    return ClauseFinding(
        clause=clause,
        state=compare_with_bound(clause, score, score),
        figure=KnownFigure(value=score, unit=clause.unit),
        runs=(),
        evidence=evidence,
    )


def judge_measured_clause(
    contract: AcceptanceContract, clause: Clause, metric: BoundedMetric, result: Result
) -> ClauseFinding:
    """Judge a clause about a figure of each run, or the cost, by the interval over all runs."""
    factor, price = convert_bound_unit(clause, metric), contract.terms.price
    measured = read_bounded_figures(metric, result)

    def convert_figure(value: float | None) -> float | None:
        if value is None:
            return None
        if metric.kind is FigureKind.COST and price:
            return compute_cost(price.amount, value, metric.name)
        return value / factor

    value, runs = convert_figure(measured.value), tuple(map(convert_figure, measured.runs))
    interval = None
    if not measured.problem:
        interval = estimate_value_interval(value, runs, contract.terms.confidence)
    state = ClauseState.NOT_SHOWN
    if interval:
        state = compare_with_bound(clause, interval.low, interval.high)
    return ClauseFinding(
        clause=clause,
        state=state,
        figure=KnownFigure(
            value=value,
            unit=clause.unit,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
            disturbed=bool(result.noise),
        ),
        runs=runs,
        evidence=", ".join(describe_measured_evidence(contract, result, measured, bool(interval))),
    )


def describe_measured_evidence(
    contract: AcceptanceContract, result: Result, measured: RunFigures, has_interval: bool
) -> Iterator[str]:
    """Yield what a reader must know of the interval, or why there is none."""
    count = len(measured.runs)
    if measured.problem:
        yield measured.problem
    elif has_interval:
        yield f"{count} runs, {100 * contract.terms.confidence:g} % interval"
    else:
        yield explain_missing_interval(count) or f"{count} equal runs, no interval"
    if measured.read_by:
        yield measured.read_by
    if result.noise:
        yield f"{DISTURBED_NOTE}: {', '.join(result.noise)}"


def compare_with_bound(clause: Clause, low: float | None, high: float | None) -> ClauseState:
    """Compare an interval with the bound of a clause; both ends of an exact figure are equal."""
    if low is None or high is None:
        return ClauseState.NOT_SHOWN
    if clause.direction == "at least":
        is_met, is_missed = low >= clause.bound, high < clause.bound
    else:
        is_met, is_missed = high <= clause.bound, low > clause.bound
    if is_met:
        return ClauseState.MET
    return ClauseState.NOT_MET if is_missed else ClauseState.NOT_SHOWN


def summarise_clauses(found: Iterable[ClauseFinding]) -> ClauseState:
    """Return the state of all clauses together."""
    states = {each.state for each in found}
    worst = (ClauseState.NOT_MET, ClauseState.NOT_SHOWN)
    return next((each for each in worst if each in states), ClauseState.MET)
