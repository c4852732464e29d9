"""Two curves beside each other: what each yields at a speed per user, and which is ahead where.

Source: Endpoints rules, 5.2: a curve is a step function, without interpolation. All functions here
are pure.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isclose
from pathlib import Path
from typing import Final

from compliance.results.curves import ScoredCurve
from submissions.compare.conclusions import MIN_RATIO_DIGITS, format_ratio
from submissions.compare.fitness import find_engine_differences
from submissions.compare.verdicts import SpeedVerdict
from suite.human_numbers import format_whole_digits
from suite.measurement.intervals import Interval
from suite.result import MadeWith, Result, ScoredPoint
from suite.rounds.endpoints_curve import fold_model_name
from suite.served_identity import ServedIdentity

EQUAL: Final = "equal"
NOT_SEPARABLE: Final = SpeedVerdict.NOT_SEPARABLE.value
NOT_COMPARABLE: Final = "not comparable"
FIRST, OTHER = "A", "B"
"""Names of the two curves: the baseline, and the one that is compared with it."""
LOCAL_PATHS: Final = ("/", ".", "~")
"""How the name of a tokenizer in a folder of the client's machine begins."""
SAME_SIZE_TOLERANCE: Final = 0.01
"""Systems whose power differs by less are of one size, if their accelerators do not differ."""

Figure = Callable[[ScoredPoint], float | None]
RATE: Final = "system_tps"
SPEED: Final = "tps_per_user"


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveStep:
    """What both curves yield at a speed per user, or at one concurrency; None if a curve has no
    point there.
    """

    tps_per_user: float | None
    """None in a row of equal concurrency."""
    concurrency: int | None
    """None in a row of equal speed."""
    first_tps: float | None
    other_tps: float | None
    ratio: float | None
    """How many times as much B yields as A."""
    per_kw_ratio: float | None
    per_accelerator_ratio: float | None
    first_interval: Interval | None = None
    """95 % interval of A's rate; None of one run per point."""
    other_interval: Interval | None = None
    ahead: str = ""
    """Which curve is ahead beyond the intervals of both; empty if neither is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A speed per user above which another curve is ahead."""

    tps_per_user: float
    below: str
    above: str
    ahead_from: float | None = None
    """The speed from which that one is ahead, if neither is at the speeds between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioRange:
    """Ratios of B to A at all speeds per user that both reach."""

    peak: float
    """At the lowest speed, where each yields its highest rate."""
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveComparison:
    """The comparison of a curve with the baseline."""

    first: ScoredCurve
    other: ScoredCurve
    verdict: str
    """`A dominates`, `B dominates`, `equal`, `not separable`, `cross at x = ...`, or
    `not comparable`.
    """
    reasons: tuple[str, ...]
    """Why they are not comparable; empty if they are."""
    notes: tuple[str, ...]
    """What else differs, and which points were left out."""
    steps: tuple[CurveStep, ...]
    """At each speed per user that a point has."""
    matched: tuple[CurveStep, ...]
    """At each concurrency that both measured."""
    crossings: tuple[Crossing, ...]
    equal_size: bool | None
    """Whether the systems are of one size; None if their descriptions do not say."""
    per_accelerator: RatioRange | None
    """How many times as much an accelerator of B yields; None if a description says no
    accelerators."""
    per_kw: RatioRange | None
    """The same for each provisioned kilowatt."""

    @property
    def single_runs(self) -> tuple[str, ...]:
        """The curves whose points have one run each, and so no intervals."""
        curves = ((FIRST, self.first), (OTHER, self.other))
        return tuple(label for label, curve in curves if curve.runs == 1)


def compare_with_baselines(
    curves: Sequence[ScoredCurve], baselines: Sequence[ScoredCurve]
) -> list[CurveComparison]:
    """Compare each curve with the baseline's of its model and system. Where the baseline has one
    system of the model, others are compared with that; where it has none of the model, with the
    first one, which is not comparable.
    """
    pairs = [(find_partner(each, baselines), each) for each in curves]
    return [
        compare_curves(first, other)
        for first, other in pairs
        if first is not None and first is not other
    ]


def select_first_curves(curves: Sequence[ScoredCurve]) -> list[ScoredCurve]:
    """Select the first curve of each model."""
    return [*{fold_model_name(each.model): each for each in reversed(curves)}.values()][::-1]


def find_partner(curve: ScoredCurve, baselines: Sequence[ScoredCurve]) -> ScoredCurve | None:
    """Return the baseline of a curve, which may be the curve itself; None if the baseline has
    several systems of its model, and none of its name.
    """
    model = fold_model_name(curve.model)
    candidates = [each for each in baselines if fold_model_name(each.model) == model]
    if not candidates:
        return baselines[0]
    namesake = next((each for each in candidates if each.system == curve.system), None)
    alone = len({each.system for each in candidates}) == 1
    return namesake or (candidates[0] if alone else None)


def iterate_unpaired_curves(
    curves: Sequence[ScoredCurve], baselines: Sequence[ScoredCurve]
) -> Iterator[str]:
    """Yield which curves are compared with none, since no other has their model and system."""
    partners = [find_partner(each, baselines) for each in curves]
    for curve, partner in zip(curves, partners, strict=True):
        of_others = sum(each is curve for each in partners) - (partner is curve)
        name = f"{curve.path}: {curve.system}, {curve.model}"
        if partner is None:
            yield f"{name}: not compared, since the baseline has other systems of the model alone"
        elif partner is curve and not of_others:
            yield f"{name}: not compared, since no other curve is of that system and model"


def compare_curves(first: ScoredCurve, other: ScoredCurve) -> CurveComparison:
    """Compare a curve with the baseline."""
    reasons = tuple(iterate_incomparability_reasons(first, other))
    steps = () if reasons else tuple(iterate_speed_steps(first, other))
    crossings = tuple(iterate_crossings(steps))
    per_accelerator = find_ratio_range(each.per_accelerator_ratio for each in steps)
    per_kw = find_ratio_range(each.per_kw_ratio for each in steps)
    sizes = describe_system_sizes(first, other, per_accelerator, per_kw)
    return CurveComparison(
        first=first,
        other=other,
        verdict=NOT_COMPARABLE if reasons else choose_curve_verdict(steps, crossings),
        reasons=reasons,
        notes=(*iterate_comparison_notes(first, other), *filter(None, [sizes])),
        steps=steps,
        matched=() if reasons else tuple(iterate_concurrency_steps(first, other)),
        crossings=crossings,
        equal_size=has_equal_size(first, other),
        per_accelerator=per_accelerator,
        per_kw=per_kw,
    )


def find_ratio_range(ratios: Iterable[float | None]) -> RatioRange | None:
    """Return the range of the known ratios, given by rising speed; None if none is known."""
    known = [each for each in ratios if each is not None]
    if not known:
        return None
    return RatioRange(peak=known[0], lowest=min(known), highest=max(known))


def select_counted_points(curve: ScoredCurve) -> list[ScoredPoint]:
    """Return the points that count: with a fixed number of requests in flight, with figures, and
    accepted by the judge.
    """
    return [
        each
        for each in curve.points
        if each.is_fixed and each.compliant and None not in (each.system_tps, each.tps_per_user)
    ]


def select_fast_points(points: Sequence[ScoredPoint], speed: float) -> list[ScoredPoint]:
    """Select the points that are at least so fast for each user."""
    return [each for each in points if (each.tps_per_user or 0.0) >= speed]


def find_best_figure(points: Sequence[ScoredPoint], figure: Figure) -> float | None:
    """Return the highest figure of some points; None if none has the figure."""
    return max((found for each in points if (found := figure(each)) is not None), default=None)


def find_best_interval(points: Sequence[ScoredPoint]) -> Interval | None:
    """Return the interval of the highest rate of some points; None if it has none."""
    best = max(points, key=lambda each: each.system_tps or 0.0, default=None)
    return best.intervals.get(RATE) if best else None


def select_front_points(curve: ScoredCurve) -> list[ScoredPoint]:
    """Return the points that count and that no other one dominates, by rising speed per user."""
    counted = select_counted_points(curve)
    found = [
        each for each in counted if not any(is_dominated_point(each, other) for other in counted)
    ]
    return sorted(found, key=lambda each: each.tps_per_user or 0.0)


def is_dominated_point(point: ScoredPoint, other: ScoredPoint) -> bool:
    """Return whether another point is nowhere behind a point, and ahead in one figure."""
    mine = (point.system_tps or 0.0, point.tps_per_user or 0.0)
    others = (other.system_tps or 0.0, other.tps_per_user or 0.0)
    return mine != others and mine[0] <= others[0] and mine[1] <= others[1]


def is_clearly_dominated(point: ScoredPoint, other: ScoredPoint) -> bool:
    """Return whether another point dominates a point with a rate beyond the intervals of both; a
    pair without intervals is taken by its values.
    """
    if not is_dominated_point(point, other):
        return False
    mine, others = point.get_ends(RATE), other.get_ends(RATE)
    has_interval = RATE in point.intervals or RATE in other.intervals
    return not has_interval or (mine is not None and others is not None and others.low > mine.high)


def get_system_tps(point: ScoredPoint) -> float | None:
    """Return the tokens per second of all users."""
    return point.system_tps


def get_tps_per_kw(point: ScoredPoint) -> float | None:
    """Return the tokens per second and kilowatt."""
    return point.tps_per_kw


def iterate_speed_steps(first: ScoredCurve, other: ScoredCurve) -> Iterator[CurveStep]:
    """Yield what both curves yield at each speed per user that a point of either has."""
    sides = [select_counted_points(each) for each in (first, other)]
    speeds = {each.tps_per_user for points in sides for each in points}
    for speed in sorted(each for each in speeds if each is not None):
        fast = [select_fast_points(each, speed) for each in sides]
        rates = [find_best_figure(each, get_system_tps) for each in fast]
        efficiencies = [find_best_figure(each, get_tps_per_kw) for each in fast]
        yield CurveStep(
            tps_per_user=speed,
            concurrency=None,
            first_tps=rates[0],
            other_tps=rates[1],
            ratio=compute_ratio(*rates),
            per_kw_ratio=compute_ratio(*efficiencies),
            per_accelerator_ratio=compute_accelerator_ratio(first, other, *rates),
            first_interval=find_best_interval(fast[0]),
            other_interval=find_best_interval(fast[1]),
            ahead=choose_leader(fast, [select_reaching_points(each, speed) for each in sides]),
        )


def iterate_concurrency_steps(first: ScoredCurve, other: ScoredCurve) -> Iterator[CurveStep]:
    """Yield what both curves yield at each concurrency that both measured."""
    sides = [
        {each.concurrency: each for each in select_counted_points(curve)}
        for curve in (first, other)
    ]
    for concurrency in sorted(each for each in sides[0] if each is not None and each in sides[1]):
        mine, others = (each[concurrency] for each in sides)
        yield CurveStep(
            tps_per_user=None,
            concurrency=concurrency,
            first_tps=mine.system_tps,
            other_tps=others.system_tps,
            ratio=compute_ratio(mine.system_tps, others.system_tps),
            per_kw_ratio=compute_ratio(mine.tps_per_kw, others.tps_per_kw),
            per_accelerator_ratio=compute_accelerator_ratio(
                first, other, mine.system_tps, others.system_tps
            ),
            first_interval=mine.intervals.get(RATE),
            other_interval=others.intervals.get(RATE),
            ahead=choose_leader(([mine], [others]), ([mine], [others])),
        )


def compute_ratio(first: float | None, other: float | None) -> float | None:
    """Return how many times as much the other yields; None if either is unknown."""
    return other / first if first and other else None


def compute_accelerator_ratio(
    first: ScoredCurve, other: ScoredCurve, first_tps: float | None, other_tps: float | None
) -> float | None:
    """Return how many times as much an accelerator of the other system yields; None if either
    description says no accelerators.
    """
    counts = [each.machine.accelerators for each in (first, other)]
    ratio, share = compute_ratio(first_tps, other_tps), compute_ratio(*counts)
    if ratio is None or share is None:
        return None
    return ratio / share


def select_reaching_points(points: Sequence[ScoredPoint], speed: float) -> list[ScoredPoint]:
    """Select the points that may be so fast for each user: up to the upper end of the interval."""
    return [each for each in points if (ends := each.get_ends(SPEED)) and ends.high >= speed]


def choose_leader(
    fast: Sequence[Sequence[ScoredPoint]], reaching: Sequence[Sequence[ScoredPoint]]
) -> str:
    """Return which curve is ahead at a speed; empty if neither is. A curve is ahead whose rate is,
    with its lower end, above all that the other may reach there; one that is never so fast for a
    user is behind.

    Args:
        fast: points of each curve that are so fast.
        reaching: points of each curve that may be so fast.
    """
    least = [max((ends.low for ends in list_rate_ends(each)), default=0.0) for each in fast]
    most = [max((ends.high for ends in list_rate_ends(each)), default=0.0) for each in reaching]
    if least[0] > most[1]:
        return FIRST
    return OTHER if least[1] > most[0] else ""


def list_rate_ends(points: Iterable[ScoredPoint]) -> list[Interval]:
    """List the intervals of the known rates of some points."""
    return [ends for each in points if (ends := each.get_ends(RATE))]


def iterate_crossings(steps: Sequence[CurveStep]) -> Iterator[Crossing]:
    """Yield the speeds up to which one curve is ahead, and above which the other is."""
    led = [(place, each) for place, each in enumerate(steps) if each.ahead]
    for (place, below), (next_place, above) in pairwise(led):
        if below.ahead != above.ahead and below.tps_per_user is not None:
            yield Crossing(
                tps_per_user=below.tps_per_user,
                below=below.ahead,
                above=above.ahead,
                ahead_from=above.tps_per_user if next_place > place + 1 else None,
            )


def choose_curve_verdict(steps: Sequence[CurveStep], crossings: Sequence[Crossing]) -> str:
    """Return which curve dominates: nowhere behind, and ahead somewhere, beyond the intervals."""
    if crossings:
        places = (format_whole_digits(each.tps_per_user, 6) for each in crossings)
        return f"cross at x = {', '.join(places)}"
    leader = next((each.ahead for each in steps if each.ahead), None)
    if leader:
        return f"{leader} dominates"
    if any(map(has_step_interval, steps)):
        return NOT_SEPARABLE
    return EQUAL


def has_step_interval(step: CurveStep) -> bool:
    """Return whether a rate of a step has an interval."""
    return bool(step.first_interval or step.other_interval)


def iterate_incomparability_reasons(first: ScoredCurve, other: ScoredCurve) -> Iterator[str]:
    """Yield why two curves are not comparable: what must be equal and is not."""
    if fold_model_name(first.model) != fold_model_name(other.model):
        yield f"model: {first.model}, not {other.model}"
    for name, mine, others in (
        ("data set", first.data_set, other.data_set),
        ("rules", first.round, other.round),
        ("division", first.division, other.division),
    ):
        if mine.casefold() != others.casefold():
            yield f"{name}: {mine or 'unknown'}, not {others or 'unknown'}"
    if differ_in_tokenizer(first, other) and not is_tokenizer_local(first, other):
        yield f"tokens: counted with {first.tokenizer}, not with {other.tokenizer}"
    bases = [list_declared_windows(each) for each in (first, other)]
    if not set(bases[0]) & set(bases[1]) and all(bases):
        yield f"basis of the official figures: {bases[0][0]}, not {bases[1][0]}"
    for label, curve in ((FIRST, first), (OTHER, other)):
        if not select_counted_points(curve):
            yield f"{label} has no point that counts"


def differ_in_tokenizer(first: ScoredCurve, other: ScoredCurve) -> bool:
    """Return whether two curves name different tokenizers, their publishers included."""
    names = [each.tokenizer.casefold() for each in (first, other)]
    return all(names) and len(set(names)) > 1


def is_tokenizer_local(first: ScoredCurve, other: ScoredCurve) -> bool:
    """Return whether one of two curves names a folder, which may be a copy of any tokenizer."""
    return any(each.tokenizer.startswith(LOCAL_PATHS) for each in (first, other))


def list_declared_windows(curve: ScoredCurve) -> list[str]:
    """List what the official figures of a curve's points are of."""
    return sorted({each.declared_basis for each in select_counted_points(curve)})


def has_equal_size(first: ScoredCurve, other: ScoredCurve) -> bool | None:
    """Return whether two systems are of one size; None if their descriptions do not say."""
    counts = [each.machine.accelerators for each in (first, other)]
    powers = [each.kw for each in (first, other)]
    same = []
    if None not in counts:
        same.append(counts[0] == counts[1])
    if powers[0] is not None and powers[1] is not None:
        same.append(isclose(powers[0], powers[1], rel_tol=SAME_SIZE_TOLERANCE))
    return all(same) if same else None


def iterate_comparison_notes(first: ScoredCurve, other: ScoredCurve) -> Iterator[str]:
    """Yield what may differ and does, and which points were left out."""
    if differ_in_tokenizer(first, other) and is_tokenizer_local(first, other):
        yield f"tokenizer: {first.tokenizer} and {other.tokenizer}"
    for name, mine, others in (
        ("data set, as disclosed", first.dataset, other.dataset),
        ("cohort", first.cohort, other.cohort),
    ):
        if mine != others:
            yield f"{name}: {mine or 'unknown'} and {others or 'unknown'}"
    yield from find_engine_differences(*map(build_engine_side, (first, other)))
    for label, curve in ((FIRST, first), (OTHER, other)):
        yield from (f"{label}: left out: {each}" for each in iterate_broken_points(curve))


def build_engine_side(curve: ScoredCurve) -> Result:
    """Return what of a curve says with what it was served."""
    engine = (curve.served or ServedIdentity()).engine.value or None
    return Result(made_with=MadeWith(engine=engine, precision=curve.precision, served=curve.served))


def describe_system_sizes(
    first: ScoredCurve,
    other: ScoredCurve,
    per_accelerator: RatioRange | None,
    per_kw: RatioRange | None,
) -> str | None:
    """Say that two systems are of different size, and what B yields for each accelerator and each
    kilowatt; None if they are of one size.
    """
    equal = has_equal_size(first, other)
    if equal:
        return None
    if equal is None:
        return "the descriptions do not say how large the systems are: a ratio is of whole systems"
    ranges = (("accelerator", per_accelerator), ("kW", per_kw))
    factors = [f"per {name} B/A is {format_range(each)}" for name, each in ranges if each]
    sizes = " and ".join(format_system_size(each) for each in (first, other))
    return "; ".join([f"systems of different size: {sizes}", *factors])


def format_range(found: RatioRange) -> str:
    """Format ratios in brackets, as ones that were not tested."""
    peak, lowest, highest = (
        f"({format_ratio(each, MIN_RATIO_DIGITS)})"
        for each in (found.peak, found.lowest, found.highest)
    )
    if lowest == highest:
        return peak
    return f"{peak} at the peaks, {lowest} to {highest} over all"


def iterate_broken_points(curve: ScoredCurve) -> Iterator[str]:
    """Yield the points that the judge does not accept, those that break the same rules together."""
    for rules in dict.fromkeys(each.failed_rules for each in curve.points if each.failed_rules):
        broken = [Path(each.path).name for each in curve.points if each.failed_rules == rules]
        verb = "breaks" if len(broken) == 1 else "break"
        yield f"{', '.join(broken)}, which {verb} {', '.join(rules)}"


def format_system_size(curve: ScoredCurve) -> str:
    """Format how large a system is: its accelerators and its power."""
    count, power = curve.machine.accelerators, curve.kw
    known = [
        None if count is None else f"{count} accelerators",
        None if power is None else f"{format_whole_digits(power)} kW",
    ]
    return f"{curve.system} ({', '.join(filter(None, known)) or 'unknown'})"
