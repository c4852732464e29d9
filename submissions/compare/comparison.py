"""Compares each result with the baseline of its kind, or gives the reasons why the two are not comparable."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from submissions.compare import intervals
from submissions.compare.compared_results import Side
from submissions.compare.fitness import notes, reasons, unfit, unsearched
from submissions.compare.intervals import Interval
from submissions.compare.machines import Machine
from submissions.compare.per_unit import Derived, Per
from submissions.compare.verdicts import Asked, Trial, Verdict, hold, holm, verdict
from submissions.metrics import more_is_better
from submissions.published_rows import Reference, beside_kind
from submissions.score.log_values import PUBLISHED
from submissions.score.score import Score
from submissions.score.within_run import WithinRun
from suite.files.layout import fold

NO_RESULT = "has no such result"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked of a comparison."""

    baseline: str | None = None
    """The path whose results the others stand beside; None: the first result of each kind."""
    asked: Asked = Asked()
    per: Per | None = None
    references: tuple[Reference, ...] = ()
    """Published rows, of which those of each kind stand beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One result beside the baseline."""

    path: str
    org: str | None = None
    system: str | None = None
    machine: Machine = Machine()
    round: str | None = None
    precision: str | None = None
    engine: str | None = None
    value: float | None = None
    runs: tuple[float | None, ...] = ()
    interval: Interval | None = None
    """Of the value."""
    baseline: bool = False
    ratio: float | None = None
    """How many times as fast as the baseline; None where they may not be compared."""
    ratio_interval: Interval | None = None
    verdict: Verdict | None = None
    """None for the baseline, and where there is no such result."""
    p: float | None = None
    """That both are equally fast, adjusted for all rows of the command."""
    shows: float | None = None
    """The smallest difference that the runs would have shown in 80 % of the cases, as a share."""
    runs_for: int | None = None
    """Runs of each side for the difference that was asked about."""
    why: str = ""
    """Why nothing was tested, or how."""
    derived: Derived | None = None
    samples_per_second: float | None = None
    """Of training; None where its logs do not tell it."""
    reasons: tuple[str, ...] = ()
    """Why they may not be compared."""
    notes: tuple[str, ...] = ()
    """What differs, and may."""
    source: str = ""
    """Of a published row."""
    within_run: tuple[WithinRun, ...] = ()
    """What slices of time say of each of its runs; no verdict hangs on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All results of one workload and scenario."""

    workload: str
    scenario: str | None
    metric: str
    unit: str
    comparable: bool
    """Every one with the baseline."""
    results: tuple[Compared, ...]
    references: tuple[Compared, ...] = ()
    """Published results of the same workload and scenario, for orientation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A result and the baseline of its kind."""

    first: Side | None
    """None where the baseline has no such result."""
    other: Side
    reasons: tuple[str, ...] = ()
    trial: Trial | None = None
    """None where there is no ratio."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The pairs of one kind."""

    workload: str
    scenario: str | None
    results: tuple[Pair, ...]
    references: tuple[Pair, ...]
    absent: tuple[str, ...]
    """Paths without such a result."""


def compare(sides: Sequence[Side], paths: Sequence[str], request: Request | None = None) -> list[Comparison]:
    """Compare the results of several paths, kind by kind, in the order of the paths; all tests of the command are adjusted together."""
    request = request or Request()
    groups = [group(kind, paths, request) for kind in kinds(sides)]
    adjusted = iter(holm([pair.trial.p if pair.trial else None for each in groups for pair in (*each.results, *each.references)]))
    return [finished(each, adjusted, request) for each in groups]


def kinds(sides: Sequence[Side]) -> Iterator[list[Side]]:
    """Yield the results of one workload and scenario together, by name, training first; spelling aside."""
    found: dict[tuple[str, str], list[Side]] = {}
    for each in sides:
        found.setdefault((fold(each.score.workload), each.score.scenario or ""), []).append(each)
    yield from (found[kind] for kind in sorted(found))


def group(sides: Sequence[Side], paths: Sequence[str], request: Request) -> Group:
    """Put the results of one kind beside their baseline."""
    first = next((each for each in sides if request.baseline in (None, each.path)), None)
    kind = sides[0].score
    rows = beside_kind(request.references, kind.workload, sides[0].half, kind.scenario, kind.metric)
    return Group(
        workload=sides[0].score.workload,
        scenario=sides[0].score.scenario,
        results=tuple(pair(first, each, request.asked) for each in sides),
        references=tuple(pair(first, row_side(row, sides[0]), request.asked) for row in rows),
        absent=tuple(path for path in dict.fromkeys(paths) if path not in {each.path for each in sides}),
    )


def pair(first: Side | None, other: Side, asked: Asked) -> Pair:
    """Put a result beside the baseline; the baseline beside itself is only looked at for its own faults."""
    if first is None:
        return Pair(first=first, other=other, why="the baseline has no such result")
    if other is first:
        return Pair(first=first, other=other, reasons=tuple(unfit(first, "this")))
    found, why = tuple(reasons(first, other)), unsearched(first, other)
    ratio = None if found or why else ratio_of(first, other)
    if ratio is None:
        return Pair(first=first, other=other, reasons=found, why=why)
    more = more_is_better(first.score.metric)
    return Pair(first=first, other=other, trial=hold(first.score.runs, other.score.runs, ratio, more, asked))


def ratio_of(first: Side, other: Side) -> float | None:
    """Say how many times as fast the other is; None where nothing can be divided."""
    mine, others = first.score.value, other.score.value
    if not mine or not others:
        return None
    ratio = others / mine if more_is_better(first.score.metric) else mine / others
    return ratio if 0 < ratio < inf else None


def row_side(row: Reference, like: Side) -> Side:
    """Take a published row for a result."""
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
    machine = Machine(accelerator=row.accelerator or None, accelerators=row.accelerators, nodes=row.nodes)
    return Side(path=row.id, score=score, precision=None, engine=None, machine=machine, source=row.source, note=row.note)


def finished(found: Group, adjusted: Iterator[float | None], request: Request) -> Comparison:
    """Give the comparison of one kind with its verdicts; takes the adjusted p of its pairs, in their order."""
    results = [compared(each, next(adjusted), request) for each in found.results]
    first = found.results[0].other.score
    return Comparison(
        workload=found.workload,
        scenario=found.scenario,
        metric=first.metric,
        unit=first.unit,
        comparable=len(results) > 1 and found.results[0].first is not None and not any(result.reasons for result in results),
        results=(*results, *(Compared(path=path, notes=(NO_RESULT,)) for path in found.absent)),
        references=tuple(compared(each, next(adjusted), request) for each in found.references),
    )


def compared(found: Pair, adjusted: float | None, request: Request) -> Compared:
    """Say what was found of one result."""
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
        interval=intervals.around(other.score.value, other.score.runs, request.asked.confidence),
        baseline=itself,
        ratio=1.0 if itself and not found.reasons else trial.ratio if trial else None,
        ratio_interval=trial.interval if trial else None,
        verdict=None if itself else verdict(trial, adjusted, request.asked.confidence) if trial else Verdict.NOT_TESTED,
        p=adjusted,
        shows=trial.shows if trial else None,
        runs_for=trial.runs_for if trial else None,
        why=trial.why if trial else found.why,
        derived=request.per.derive(other) if request.per else None,
        samples_per_second=other.samples_per_second,
        reasons=found.reasons,
        notes=tuple(notes(found.first, other)) if found.first and not itself and not other.source else tuple(filter(None, [other.note])),
        source=other.source,
        within_run=other.score.within_run,
    )
