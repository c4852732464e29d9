"""Compares each result with the baseline of its kind, or gives the reasons why the two are not
comparable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from submissions.compare import intervals
from submissions.compare.compared_results import Side
from submissions.compare.fitness import notes, reasons, unfit, unsearched
from submissions.compare.intervals import Interval
from submissions.compare.machines import Machine
from submissions.compare.per_unit import Basis, Derived, Per
from submissions.compare.verdicts import Asked, Trial, Verdict, hold, holm, verdict
from submissions.compare.watts import Kind, common, rough, unlike
from submissions.metrics import more_is_better
from submissions.published_rows import Reference, beside_kind
from submissions.score.log_values import PUBLISHED
from submissions.score.score import Score
from submissions.score.within_run import WithinRun
from suite.files.layout import fold

NO_RESULT = "has no such result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request for a comparison."""

    baseline: str | None = None
    """Path of the baseline results; None: the first result of each kind."""
    asked: Asked = Asked()
    per: Per | None = None
    references: tuple[Reference, ...] = ()
    """Published rows; those of the same kind are shown with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One result compared with the baseline."""

    path: str
    org: str | None = None
    system: str | None = None
    machine: Machine = Machine()
    round: str | None = None
    precision: str | None = None
    engine: str | None = None
    value: float | None = None
    runs: tuple[float | None, ...] = ()
    attempts: int | None = None
    """Attempts in its ledger: training sets, or performance runs; None if there is no ledger."""
    interval: Interval | None = None
    """Interval of the value."""
    baseline: bool = False
    ratio: float | None = None
    """How many times as fast as the baseline; None if they are not comparable."""
    ratio_interval: Interval | None = None
    verdict: Verdict | None = None
    """None for the baseline, or if there is no baseline result."""
    p: float | None = None
    """p-value for equal speed, adjusted for all rows of the command."""
    shows: float | None = None
    """The smallest difference that the runs would have detected in 80 % of cases, as a share."""
    runs_for: int | None = None
    """Runs per side needed for the requested difference."""
    why: str = ""
    """Why nothing was tested, or which test was used."""
    derived: Derived | None = None
    samples_per_second: float | None = None
    """Training throughput; None if its logs do not allow it."""
    reasons: tuple[str, ...] = ()
    """Why they are not comparable."""
    notes: tuple[str, ...] = ()
    """Differences that are allowed."""
    source: str = ""
    """Source of a published row."""
    within_run: tuple[WithinRun, ...] = ()
    """Statistics over time slices of each of its runs; they affect no verdict."""
    noise: tuple[str, ...] = ()
    """The judge's rules that found a disturbance in one of its runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All results of one workload and scenario."""

    workload: str
    scenario: str | None
    metric: str
    unit: str
    comparable: bool
    """Each result is comparable with the baseline."""
    results: tuple[Compared, ...]
    references: tuple[Compared, ...] = ()
    """Published results of the same workload and scenario, for orientation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A result and the baseline of its kind."""

    first: Side | None
    """None if the baseline has no such result."""
    other: Side
    reasons: tuple[str, ...] = ()
    trial: Trial | None = None
    """None if there is no ratio."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The pairs of one kind of result."""

    workload: str
    scenario: str | None
    results: tuple[Pair, ...]
    references: tuple[Pair, ...]
    absent: tuple[str, ...]
    """Paths without such a result."""


def compare(
    sides: Sequence[Side], paths: Sequence[str], request: Request | None = None
) -> list[Comparison]:
    """Compare the results of several paths, kind by kind, in the order of the paths; p-values are
    adjusted across the whole command.
    """
    request = request or Request()
    groups = [group(kind, paths, request) for kind in kinds(sides)]
    adjusted = iter(
        holm(
            [
                pair.trial.p if pair.trial else None
                for each in groups
                for pair in (*each.results, *each.references)
            ]
        )
    )
    return [finished(each, adjusted, request) for each in groups]


def kinds(sides: Sequence[Side]) -> Iterator[list[Side]]:
    """Yield results grouped by workload and scenario, by name, training first; names are compared
    without spelling differences.
    """
    found: dict[tuple[str, str], list[Side]] = {}
    for each in sides:
        found.setdefault((fold(each.score.workload), each.score.scenario or ""), []).append(each)
    yield from (found[kind] for kind in sorted(found))


def group(sides: Sequence[Side], paths: Sequence[str], request: Request) -> Group:
    """Pair the results of one kind with their baseline."""
    first = next((each for each in sides if request.baseline in (None, each.path)), None)
    kind = sides[0].score
    rows = beside_kind(request.references, kind.workload, sides[0].half, kind.scenario, kind.metric)
    return Group(
        workload=sides[0].score.workload,
        scenario=sides[0].score.scenario,
        results=tuple(pair(first, each, request.asked) for each in sides),
        references=tuple(pair(first, row_side(row, sides[0]), request.asked) for row in rows),
        absent=tuple(
            path for path in dict.fromkeys(paths) if path not in {each.path for each in sides}
        ),
    )


def pair(first: Side | None, other: Side, asked: Asked) -> Pair:
    """Pair a result with the baseline; the baseline itself is only checked for its own faults."""
    if first is None:
        return Pair(first=first, other=other, why="the baseline has no such result")
    if other is first:
        return Pair(first=first, other=other, reasons=tuple(unfit(first, "this")))
    found, why = tuple(reasons(first, other)), unsearched(first, other)
    ratio = None if found or why else ratio_of(first, other)
    if ratio is None:
        return Pair(first=first, other=other, reasons=found, why=why)
    more = more_is_better(first.score.metric)
    return Pair(
        first=first, other=other, trial=hold(first.score.runs, other.score.runs, ratio, more, asked)
    )


def ratio_of(first: Side, other: Side) -> float | None:
    """Return how many times as fast the other is; None if the division is impossible."""
    mine, others = first.score.value, other.score.value
    if not mine or not others:
        return None
    ratio = others / mine if more_is_better(first.score.metric) else mine / others
    return ratio if 0 < ratio < inf else None


def row_side(row: Reference, like: Side) -> Side:
    """Convert a published row to a result."""
    score = Score(
        org=row.org,
        system=row.system,
        division=row.division,
        profile=PUBLISHED,
        round=row.round,
        workload=like.score.workload,
        scenario=like.score.scenario,
        metric=row.metric,
        value=row.value,
        unit=row.unit,
        runs=row.runs,
        compliant=True,
    )
    machine = Machine(
        accelerator=row.accelerator or None, accelerators=row.accelerators, nodes=row.nodes
    )
    return Side(
        path=row.id,
        score=score,
        precision=None,
        engine=None,
        machine=machine,
        source=row.source,
        note=row.note,
    )


def finished(found: Group, adjusted: Iterator[float | None], request: Request) -> Comparison:
    """Return the comparison of one kind with its verdicts; consumes the adjusted p-values of its
    pairs in order.
    """
    shared = shared_watts(found)
    results = [compared(each, next(adjusted), request, shared) for each in found.results]
    first = found.results[0].other.score
    return Comparison(
        workload=found.workload,
        scenario=found.scenario,
        metric=first.metric,
        unit=first.unit,
        comparable=len(results) > 1
        and found.results[0].first is not None
        and not any(result.reasons for result in results),
        results=(*results, *(Compared(path=path, notes=(NO_RESULT,)) for path in found.absent)),
        references=tuple(
            compared(each, next(adjusted), request, shared) for each in found.references
        ),
    )


def shared_watts(found: Group) -> Kind | None:
    """Return the kind of energy that the efficiencies of a group are computed from: that of the
    baseline, or of the first result that has energy.
    """
    sides = [each.other for each in found.results]
    first = found.results[0].first or next((each for each in sides if each.score.energy), sides[0])
    return common(first.score.energy, [each.score.energy for each in sides if each is not first])


def told_beside(found: Pair) -> Iterator[str]:
    """Yield allowed differences from the baseline, or the remark on a published row."""
    if found.first and found.first is not found.other and not found.other.source:
        yield from notes(found.first, found.other)
    else:
        yield found.other.note


def watts_note(found: Pair, request: Request, shared: Kind | None) -> str | None:
    """Explain why the efficiency of a result is not compared, or how rough it is; None if it is
    compared, or was not requested.
    """
    if request.per is None or request.per.basis is not Basis.WATT:
        return None
    if found.first is None or found.first is found.other:
        return rough(found.other.score.energy, shared)
    return unlike(found.first.score.energy, found.other.score.energy, shared) or rough(
        found.other.score.energy, shared
    )


def compared(
    found: Pair, adjusted: float | None, request: Request, shared: Kind | None
) -> Compared:
    """Return the comparison of one result."""
    other, trial = found.other, found.trial
    itself = found.first is other
    return Compared(
        path=other.path,
        org=other.score.org,
        system=other.score.system,
        machine=other.machine,
        round=other.score.round,
        precision=other.precision,
        engine=other.engine,
        value=other.score.value,
        runs=other.score.runs,
        attempts=other.score.attempts,
        interval=intervals.around(other.score.value, other.score.runs, request.asked.confidence),
        baseline=itself,
        ratio=1.0 if itself and not found.reasons else trial.ratio if trial else None,
        ratio_interval=trial.interval if trial else None,
        verdict=(
            None
            if itself
            else verdict(trial, adjusted, request.asked.confidence)
            if trial
            else Verdict.NOT_TESTED
        ),
        p=adjusted,
        shows=trial.shows if trial else None,
        runs_for=trial.runs_for if trial else None,
        why=trial.why if trial else found.why,
        derived=request.per.derive(other, shared) if request.per else None,
        samples_per_second=other.samples_per_second,
        reasons=found.reasons,
        notes=tuple(filter(None, [*told_beside(found), watts_note(found, request, shared)])),
        source=other.source,
        within_run=other.score.within_run,
        noise=other.score.noise,
    )
