"""The search for the highest Server rate that meets a latency bound: which run comes next, from
those that were made. Pure functions.

Two phases. Short probes give a bracket, and a line of ln(share of queries over the bound) against
ln(rate). Then follow full-length runs, each a
result if VALID, at the rate that should pass with two thirds; each sharpens the line, until the
highest VALID and the lowest INVALID rate are
close. Late queries come in bursts: counts over the bound vary more than independent ones would, by
the dispersion (variance over mean of counts
in windows), so probes and runs are weighed by it. A bisection by short probes alone ends above the
peak where queues are slow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import Final

from suite.loadgen.early_stopping import queries_needed
from suite.loadgen.percentiles import fraction

FIRST_QUERIES: Final = 1000
PROBE_QUERIES: Final = 30_000
"""Of all probes together, house rule; a quarter of it is the longest probe."""
PROBES: Final = 12
"""House rule: then full runs follow, whatever the probes showed; the simulated queues take two to
eight.
"""
PROBE_BOUNDS: Final = 50
"""A probe lasts so many times the bound: a queue that is overloaded by 2 % then shows."""
SKIPPED_BOUNDS: Final = 10
"""The first so many times the bound are not counted: the queue starts empty."""
RUNS: Final = 9
"""Full runs of the second phase, house rule."""
CLEAR: Final = 1.3
"""Standard deviations from which a probe is clearly under or over."""
CLOSE: Final = 1.1
"""Ratio of a bracket's ends at which full runs begin."""
PASS: Final = 0.43
"""Standard normal quantile of two thirds: the chance with which the next full run should pass."""
FLAT: Final = 0.3
"""Share over the bound from which a queue is overloaded, and its share says nothing of the line."""
START: Final = 0.8
"""Of the rate that the probe of the system saw."""
SLOPE: Final = 20.0
"""Of the line before any probe, with SLOPE_SD: the simulations' queues have slopes of 5 to 60."""
SLOPE_SD: Final = 40.0
STRIDE: Final = 0.3
"""Of the distance from the highest VALID to the lowest INVALID rate, that the next full run goes up
at least: a line can be wrong where a queue's
share over the bound rises from nothing to most queries within a few percent of the rate."""
STEEPER: Final = 1.5
"""Factor of the step up after each VALID run before an INVALID one."""
STEEPER_DOWN: Final = 2.0
"""The same of the step down, as a power, after each INVALID run before the first VALID one; at most
MOST_DOWN.
"""
MOST_DOWN: Final = 12.0
CHANCE: Final = 0.4
"""Chance to pass, by all runs, from which an INVALID run is taken to have failed by bad luck.
Chosen with STRIDE and PASS on the six queues of
benchmarks/peak.py, 100 seeds each."""
LEAST_SLOPE: Final = 3.0
MODEL_ERROR: Final = 0.05
"""Standard deviation of ln(share) about a line, near the bound; further away a tenth of the
distance more: the curve bends.
"""
NEAR: Final = 1.5
"""Distance in ln(share) within which probes tell the dispersion at the bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What is searched for."""

    percentile: float
    """0-100: share of queries within the bound."""
    bound_s: float
    seen: float
    """Queries/s that the system answers in full batches."""
    min_queries: int
    min_duration_s: float
    """Both of a full run."""
    tolerance: float
    """Relative distance of the highest VALID and the lowest INVALID rate at which the search ends.
    """

    @property
    def share(self) -> float:
        """Share of queries that may be over the bound."""
        return 1.0 - fraction(self.percentile)

    def full(self, rate: float) -> int:
        """Return the queries of a full run."""
        return max(self.min_queries, math.ceil(rate * self.min_duration_s))

    def skipped(self, rate: float) -> int:
        """Return the first queries of a probe, which are not counted."""
        return math.ceil(SKIPPED_BOUNDS * self.bound_s * rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a probe or a full run showed."""

    rate: float
    queries: int
    """Counted ones."""
    over: int
    """Over the bound, of these."""
    dispersion: float
    full: bool
    valid: bool = False
    """LoadGen's verdict on a full run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The next run: a probe of so many counted queries, or a full run."""

    rate: float
    queries: int
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """ln(share) = ln(allowed share) + slope (ln(rate) - root)."""

    root: float
    error: float
    """Standard error of the root."""
    slope: float


@cache
def most_over(queries: int, percentile: float) -> int:
    """Return the most queries over the bound with which LoadGen calls a run of so many queries
    VALID; -1 if it never does.
    """
    low, high = -1, queries
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if queries_needed(middle, percentile) <= queries else (low, middle)
        )
    return low


def dispersion(counts: Sequence[float]) -> float:
    """Return variance over mean of the counts over the bound in windows of a run; 1, as of
    independent queries, where none is over.
    """
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 for count in counts) / (len(counts) - 1) / mean if mean else 1.0


@dataclass(slots=True)
class Search:
    """The state of a search, made of the runs so far: the same runs always give the same next step,
    so a search can go on at any time.
    """

    aim: Aim
    rows: list[tuple[float, float, float, float]] = field(default_factory=list)
    """Of the line: ln(rate), ln(share), count over, dispersion."""
    low: float | None = None
    high: float | None = None
    """Ends of the bracket by probes."""
    best: float | None = None
    """Highest VALID rate."""
    worst: float | None = None
    """Lowest INVALID rate above it."""
    rate: float = 0.0
    length: int = FIRST_QUERIES
    spent: int = 0
    """Queries of probes."""
    probes: int = 0
    runs: int = 0
    """Full runs of the second phase."""
    risen: int = 0
    """VALID ones among them without an INVALID rate above."""
    failed: int = 0
    """INVALID full runs before the first VALID one."""
    probing: bool = True

    def __post_init__(self) -> None:
        """Begin at a share of what the system can do."""
        self.rate = START * self.aim.seen

    def next(self) -> Step | None:
        """Return the next run; None if the search is over."""
        if self.probing:
            queries = max(self.length, math.ceil(PROBE_BOUNDS * self.aim.bound_s * self.rate))
            whole = self.aim.full(
                self.rate
            )  # a full run that is no longer than a probe tells as much, and may be the result
            return Step(rate=self.rate, queries=min(queries, whole), full=whole <= queries)
        if self.runs >= RUNS or self.close():
            return None
        rate = self.promising()
        return Step(rate=rate, queries=self.aim.full(rate), full=True)

    def close(self) -> bool:
        """Tell whether the highest VALID and the lowest INVALID rate are close."""
        return bool(self.best and self.worst and self.worst / self.best - 1 <= self.aim.tolerance)

    def took(self, seen: Seen) -> None:
        """Take over what a run showed."""
        if seen.full:
            self.judged(seen)
        if self.probing:
            self.probed(seen)
        elif seen.full:
            self.runs += 1
            self.risen += seen.valid and not self.worst
            self.add(seen)
        if self.close() and self.worst and (passes(self, self.worst) or 0.0) > CHANCE:
            self.worst = None  # by all runs together it should pass: it failed by chance

    def judged(self, seen: Seen) -> None:
        """Move the highest VALID or the lowest INVALID rate."""
        if seen.valid:
            self.best = max(self.best or 0.0, seen.rate)
        else:
            self.worst = min(self.worst or math.inf, seen.rate)
            self.failed += not self.best
        if self.best and self.worst and self.worst <= self.best:
            self.worst = None  # a rate below the best failed by chance

    def add(self, seen: Seen) -> None:
        """Add a point to the line."""
        count = seen.over + 0.5
        self.rows.append(
            (
                math.log(seen.rate),
                math.log(count / (seen.queries + 1)),
                count,
                max(seen.dispersion, 1.0),
            )
        )

    def probed(self, seen: Seen) -> None:
        """Narrow the bracket, and choose the next probe or end the first phase."""
        self.spent += seen.queries
        count, scale = seen.over + 0.5, max(seen.dispersion, 1.0)
        clear = (math.log(count / (seen.queries + 1)) - math.log(self.aim.share)) / math.sqrt(
            scale / count
        )
        if seen.over < FLAT * seen.queries:
            self.add(seen)
        if clear < -CLEAR:
            self.low = max(self.low or 0.0, seen.rate)
        elif clear > CLEAR:
            self.high = min(self.high or math.inf, seen.rate)
        if self.low and self.high and self.high <= self.low:
            self.low, self.high = (
                0.95 * self.high,
                1.05 * self.low,
            )  # probes that contradict each other are both in doubt
        close = bool(self.low and self.high and self.high / self.low < CLOSE and len(self.rows) > 2)
        self.probes += 1
        known = bool(
            seen.full and self.best and self.worst
        )  # short full runs have found what probes look for
        self.probing = (
            not close and not known and self.spent < PROBE_QUERIES and self.probes < PROBES
        )
        self.turn(clear)

    def turn(self, clear: float) -> None:
        """Choose the rate and length of the next probe."""
        if abs(clear) <= CLEAR or (self.low and self.high):
            self.length = min(2 * self.length, PROBE_QUERIES // 4)
        if self.low and self.high:
            at = (
                math.exp(self.line().root)
                if len(self.rows) > 2
                else math.sqrt(self.low * self.high)
            )
            edge = 0.2 * (self.high - self.low)
            self.rate = min(max(at, self.low + edge), self.high - edge)
        else:
            self.rate = (
                min(1.15 * self.rate, 1.2 * self.aim.seen) if clear < 0 else 0.85 * self.rate
            )

    def promising(self) -> float:
        """Return the rate at which a full run should pass with two thirds, between the highest
        VALID and the lowest INVALID one.
        """
        line = self.line()
        queries = self.aim.full(math.exp(line.root))
        allowed = max(most_over(queries, self.aim.percentile), 0.5)
        safe = math.log(allowed / queries) - PASS * math.sqrt(self.scale() / allowed)
        rate = min(
            math.exp(line.root + (safe - math.log(self.aim.share)) / line.slope),
            self.high or math.inf,
        )
        return self.inside(rate)

    def inside(self, rate: float) -> float:
        """Move a rate between the highest VALID and the lowest INVALID one, so that each run
        narrows what lies between them.
        """
        if self.best and self.worst:
            gap = self.worst - self.best
            return min(
                max(rate, self.best + STRIDE * gap, self.best * (1 + self.aim.tolerance / 2)),
                self.best + gap / 2,
            )
        if self.best:
            top = max((self.high or 0.0) - self.best, 0.0)
            return max(
                rate,
                self.best + STRIDE * top,
                self.best * (1 + self.aim.tolerance / 2 * STEEPER**self.risen),
            )
        down = (1 - 2 * self.aim.tolerance) ** min(
            STEEPER_DOWN ** max(self.failed - 1, 0), MOST_DOWN
        )
        return min(rate, self.worst * down) if self.worst else rate

    def scale(self) -> float:
        """Return the dispersion of counts at the bound, at least 1: the mean of the points near it,
        by their counts.
        """
        near = [
            row for row in self.rows if abs(row[1] - math.log(self.aim.share)) < NEAR
        ] or self.rows
        return (
            max(sum(row[2] * row[3] for row in near) / sum(row[2] for row in near), 1.0)
            if near
            else 1.0
        )

    def line(self) -> Line:
        """Fit the line by weighted least squares; without points it passes through the rate that is
        tried next.
        """
        if sum(row[2] >= 1 for row in self.rows) < 2:
            middle = math.sqrt(self.low * self.high) if self.low and self.high else self.rate
            return Line(root=math.log(middle), error=1.0, slope=SLOPE)
        aim, scale = math.log(self.aim.share), self.scale()
        weights = [
            1 / (scale / count + MODEL_ERROR**2 + (0.1 * (y - aim)) ** 2)
            for _, y, count, _ in self.rows
        ]
        total = sum(weights)
        middle = sum(w * row[0] for w, row in zip(weights, self.rows, strict=True)) / total
        y_mean = sum(w * row[1] for w, row in zip(weights, self.rows, strict=True)) / total
        prior = 1 / SLOPE_SD**2
        square = (
            sum(w * (row[0] - middle) ** 2 for w, row in zip(weights, self.rows, strict=True))
            + prior
        )
        slope = (
            sum(w * (row[0] - middle) * row[1] for w, row in zip(weights, self.rows, strict=True))
            + SLOPE * prior
        ) / square
        slope = max(slope, LEAST_SLOPE)
        root = middle + (aim - y_mean) / slope
        error = math.sqrt(1 / total + (root - middle) ** 2 / square) / slope
        return Line(root=root, error=error, slope=slope)


def passes(search: Search, rate: float) -> float | None:
    """Return the chance with which a full run at this rate is VALID, by the line and the dispersion
    seen; None without runs.

    The count over the bound is taken as normal, with the dispersion times its mean as variance, and
    the line's own error added.
    """
    if not search.rows:
        return None
    line, queries = search.line(), search.aim.full(rate)
    mean = queries * min(
        search.aim.share * math.exp(line.slope * (math.log(rate) - line.root)), 1.0
    )
    spread = math.sqrt(search.scale() * mean + (mean * line.slope * line.error) ** 2)
    return (
        NormalDist().cdf((most_over(queries, search.aim.percentile) + 0.5 - mean) / spread)
        if spread > 0
        else 1.0
    )
