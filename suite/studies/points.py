"""The measured points of a study, and the walk over its plan: which run comes next, given those
that were made. The harness walks it to measure, the judge to see whether the runs follow it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from suite.measurement.student import compute_t_quantile
from suite.records import NetworkRecord

if TYPE_CHECKING:
    from suite.studies.kind import StudyKind

R = TypeVar("R")
P = TypeVar("P")
F = TypeVar("F")

FIGURE_CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun(Generic[P, F]):
    """One LoadGen run of a point, with its figures."""

    folder: str
    """Relative to the study's."""
    number: int
    """In the study, from 1."""
    point: P
    repeat: int
    """Among the runs of its point, from 1."""
    seconds: float
    """Wall-clock time."""
    figures: F
    network: NetworkRecord | None = None
    """Of a run over one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudiedPoint(Generic[P, F]):
    """A point with all its runs."""

    point: P
    runs: tuple[MeasuredRun[P, F], ...]
    figures: F
    """Of all runs together; None, whatever the kind's figures are, if it could not be measured."""
    why: str = ""
    """Why it could not."""

    @property
    def folder(self) -> str:
        """Return the folder of the first run; empty without one."""
        return self.runs[0].folder if self.runs else ""

    @property
    def seconds(self) -> float:
        """Return the wall-clock time of all runs."""
        return sum(each.seconds for each in self.runs)

    def find_interval(self, name: str) -> tuple[float, float] | None:
        """Return the 95 % interval of the mean of a figure, by Student's t over the runs; None for
        one run, or a figure that is no number.
        """
        values = [getattr(each.figures, name) for each in self.runs]
        if len(values) < 2 or not all(isinstance(each, int | float) for each in values):
            return None
        quantile = compute_t_quantile((1 + FIGURE_CONFIDENCE) / 2, len(values) - 1)
        half = quantile * stdev(values) / sqrt(len(values))
        return fmean(values) - half, fmean(values) + half


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep(Generic[P, F]):
    """What a study measures next."""

    point: P
    place: int
    """Of the point in the plan, from 1."""
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWalk(Generic[P, F]):
    """A walk over a plan, as far as its points are measured."""

    done: tuple[StudiedPoint[P, F], ...]
    """In the order of the plan."""
    step: NextStep[P, F] | None
    """None: the plan is finished."""
    begun: StudiedPoint[P, F] | None = None
    """The point that is measured next, if some of its runs are there."""


def average_figures(figures: Sequence[F]) -> F:
    """Return the mean of each number in the figures of several runs; of what is no number, the
    first one's.
    """
    first: Any = figures[0]
    if len(figures) == 1:
        return figures[0]
    means: dict[str, Any] = {}
    for each in fields(first):
        values = [getattr(one, each.name) for one in figures]
        is_number = all(isinstance(value, int | float) for value in values)
        mean = fmean(values) if is_number else values[0]
        whole = all(isinstance(value, int) for value in values)
        means[each.name] = round(mean) if is_number and whole else mean
    made: F = type(first)(**means)
    return made


def is_separable(
    one: StudiedPoint[Any, Any], other: StudiedPoint[Any, Any], name: str
) -> bool | None:
    """Return whether the means of a figure differ beyond the 95 % interval of their difference
    (Welch, Biometrika 34, 1947); None with fewer than two runs of a point, or an unknown value.
    """
    sets = [[getattr(each.figures, name) for each in point.runs] for point in (one, other)]
    if any(len(values) < 2 or None in values for values in sets):
        return None
    squares = [stdev(values) ** 2 / len(values) for values in sets]
    error, gap = sum(squares), abs(fmean(sets[0]) - fmean(sets[1]))
    if error == 0:
        return gap > 0
    dof = error**2 / sum(
        square**2 / (len(values) - 1) for square, values in zip(squares, sets, strict=True)
    )
    return gap > compute_t_quantile((1 + FIGURE_CONFIDENCE) / 2, dof) * sqrt(error)


def compute_known_mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values; None if there are none."""
    known = [each for each in values if each is not None]
    return fmean(known) if known else None


def collect_points(
    kind: "StudyKind[R, P, F]",
    runs: Sequence[MeasuredRun[P, F]],
    failed: Sequence[StudiedPoint[P, F]] = (),
) -> list[StudiedPoint[P, F]]:
    """Return the points of runs, each with all its runs, in the order of the first ones; then those
    that could not be measured.
    """
    grouped: list[list[MeasuredRun[P, F]]] = []
    for run in runs:
        same = (each for each in grouped if kind.is_same_point(each[0].point, run.point))
        found = next(same, None)
        if found is None:
            grouped.append([run])
        else:
            found.append(run)
    measured = [
        StudiedPoint(
            point=each[0].point,
            runs=tuple(each),
            figures=kind.combine_figures([run.figures for run in each]),
        )
        for each in grouped
    ]
    return [*measured, *failed]


def build_failed_point(point: P, why: str) -> StudiedPoint[P, Any]:
    """Build a point that could not be measured."""
    return StudiedPoint(point=point, runs=(), figures=None, why=why)


def walk_plan(
    kind: "StudyKind[R, P, F]",
    request: R,
    repeats: int,
    points: Sequence[StudiedPoint[P, F]],
    others: Sequence[R] = (),
) -> PlanWalk[P, F]:
    """Walk over the plan of a request as long as its next point is measured as often as asked. In a
    search, a point that the plan of another request gives is as good.

    A kind whose points are interleaved is measured in passes over all points, so that a machine
    that changes with time changes all points alike.
    """
    passes = range(1, repeats + 1) if kind.is_interleaved else (repeats,)
    walk: PlanWalk[P, F] = PlanWalk(done=(), step=None)
    for wanted in passes:
        before, walk = walk, walk_once(kind, request, wanted, points, others)
        if walk.step is not None and before.done:
            return replace(walk, done=before.done, begun=None)
        if walk.step is not None:
            return walk
    return walk


def walk_once(
    kind: "StudyKind[R, P, F]",
    request: R,
    repeats: int,
    points: Sequence[StudiedPoint[P, F]],
    others: Sequence[R],
) -> PlanWalk[P, F]:
    """Walk over the plan of a request until a point is measured less often than that."""
    left = list(points)
    done: list[StudiedPoint[P, F]] = []
    while True:
        point = kind.choose_next_point(request, done)
        found = find_same_point(kind, left, point)
        if found is None and kind.is_ordered:
            choices = (kind.choose_next_point(each, done) for each in others)
            known = (find_same_point(kind, left, each) for each in choices)
            if (other := next(filter(None, known), None)) is not None:
                left.remove(other)
                done.append(other)
                continue
        if point is None:
            return PlanWalk(done=tuple(done), step=None)
        runs = len(found.runs) if found else 0
        wanted = kind.limit_repeats(point, repeats)
        if found is None or (runs < wanted and not found.why):
            step: NextStep[P, F] = NextStep(
                point=found.point if found else point, place=len(done) + 1, repeat=runs + 1
            )
            return PlanWalk(done=tuple(done), step=step, begun=found)
        left.remove(found)
        done.append(found)


def find_same_point(
    kind: "StudyKind[R, P, F]", points: Sequence[StudiedPoint[P, F]], point: P | None
) -> StudiedPoint[P, F] | None:
    """Return the measured point that is the same as another one; None if there is none."""
    if point is None:
        return None
    return next((each for each in points if kind.is_same_point(each.point, point)), None)


def iterate_walks(
    kind: "StudyKind[R, P, F]",
    requests: Sequence[tuple[R, int]],
    points: Sequence[StudiedPoint[P, F]],
) -> Iterator[PlanWalk[P, F]]:
    """Walk over the plan of each request and its number of repeats."""
    others = [each for each, _ in requests]
    for request, repeats in requests:
        yield walk_plan(kind, request, repeats, points, others)


def describe_figures(point: StudiedPoint[Any, Any]) -> Mapping[str, Any]:
    """Return the fields of a point and of its figures, with the intervals that several runs
    give.
    """
    names = [each.name for each in fields(point.figures)] if point.runs else []
    intervals = {name: found for name in names if (found := point.find_interval(name)) is not None}
    return {
        **{each.name: getattr(point.point, each.name) for each in fields(point.point)},
        **{name: getattr(point.figures, name) for name in names},
        "folder": point.folder,
        "runs": len(point.runs),
        "intervals": intervals,
        **({"why": point.why} if point.why else {}),
    }
