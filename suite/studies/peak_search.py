"""The search for the highest Server rate that meets a latency bound: which run comes next, from
those that were made. Pure functions.

Two phases. Short probes give a bracket, and a line of ln(share of queries over the bound) against
ln(rate). Then follow full-length runs, each a result if VALID, at the rate that should pass with
two thirds; each sharpens the line, until the highest VALID and the lowest INVALID rate are close.
Late queries come in bursts: counts over the bound vary more than independent ones would, by the
dispersion (variance over mean of counts in windows), so probes and runs are weighed by it. A
bisection by short probes alone ends above the peak where queues are slow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import Final

from suite.loadgen.early_stopping import compute_queries_needed
from suite.loadgen.percentiles import convert_to_fraction

FIRST_PROBE_QUERIES: Final = 1000
MAX_PROBE_QUERIES: Final = 30_000
"""Of all probes together, house rule; a quarter of it is the longest probe."""
MAX_PROBES: Final = 12
"""House rule: then full runs follow, whatever the probes showed; the simulated queues take two to
eight.
"""
PROBE_BOUNDS: Final = 50
"""A probe lasts so many times the bound: a queue that is overloaded by 2 % then shows."""
SKIPPED_BOUNDS: Final = 10
"""The first so many times the bound are not counted: the queue starts empty."""
MAX_FULL_RUNS: Final = 9
"""Full runs of the second phase, house rule."""
CLEAR_PROBE_SIGMAS: Final = 1.3
"""Standard deviations from which a probe is clearly under or over."""
CLOSE_BRACKET_RATIO: Final = 1.1
"""Ratio of a bracket's ends at which full runs begin."""
TWO_THIRDS_QUANTILE: Final = 0.43
"""Standard normal quantile of two thirds: the chance with which the next full run should pass."""
OVERLOADED_SHARE: Final = 0.3
"""Share over the bound from which a queue is overloaded, and its share says nothing of the line."""
START_RATE_SHARE: Final = 0.8
"""Of the rate that the probe of the system saw."""
PRIOR_SLOPE: Final = 20.0
"""Of the line before any probe, with PRIOR_SLOPE_SD: the simulations' queues have slopes of 5 to
60.
"""
PRIOR_SLOPE_SD: Final = 40.0
MIN_STRIDE_SHARE: Final = 0.3
"""Of the distance from the highest VALID to the lowest INVALID rate, that the next full run goes up
at least: a line can be wrong where a queue's
share over the bound rises from nothing to most queries within a few percent of the rate."""
STEP_UP_FACTOR: Final = 1.5
"""Factor of the step up after each VALID run before an INVALID one."""
STEP_DOWN_FACTOR: Final = 2.0
"""The same of the step down, as a power, after each INVALID run before the first VALID one; at most
MAX_STEP_DOWN_POWER.
"""
MAX_STEP_DOWN_POWER: Final = 12.0
MAX_STEP_DOWN_SHARE: Final = 0.5
"""Of a rate, by which the first step down goes at most, whatever the tolerance."""
OBSERVED_RATE_MARGIN: Final = 1.2
"""Over the rate that the probe of the system saw: further up, queries are late unless that probe
saw too little.
"""
OUTRUN_FACTOR: Final = 1.5
"""Factor of the step up where the system answers more than its probe saw, or no run of any rate has
a late query: nothing bounds the search then but its number of runs.
"""
BAD_LUCK_CHANCE: Final = 0.4
"""Chance to pass, by all runs, from which an INVALID run is taken to have failed by bad luck.
Chosen with MIN_STRIDE_SHARE and TWO_THIRDS_QUANTILE on the six queues of
benchmarks/peak.py, 100 seeds each."""
MIN_SLOPE: Final = 3.0
LINE_MODEL_ERROR: Final = 0.05
"""Standard deviation of ln(share) about a line, near the bound; further away a tenth of the
distance more: the curve bends.
"""
NEAR_BOUND_DISTANCE: Final = 1.5
"""Distance in ln(share) within which probes tell the dispersion at the bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakAim:
    """What is searched for."""

    percentile: float
    """0-100: share of queries within the bound."""
    bound_s: float
    observed_rate: float
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
        return 1.0 - convert_to_fraction(self.percentile)

    def compute_full_queries(self, rate: float) -> int:
        """Return the queries of a full run."""
        return max(self.min_queries, math.ceil(rate * self.min_duration_s))

    def compute_skipped_queries(self, rate: float) -> int:
        """Return the first queries of a probe, which are not counted."""
        return math.ceil(SKIPPED_BOUNDS * self.bound_s * rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunObservation:
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
class NextRun:
    """The next run: a probe of so many counted queries, or a full run."""

    rate: float
    queries: int
    full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLine:
    """ln(share) = ln(allowed share) + slope (ln(rate) - root)."""

    root: float
    error: float
    """Standard error of the root."""
    slope: float


@cache
def find_most_over(queries: int, percentile: float) -> int:
    """Return the most queries over the bound with which LoadGen calls a run of so many queries
    VALID; -1 if it never does.
    """
    low, high = -1, queries
    while high - low > 1:
        middle = (low + high) // 2
        if compute_queries_needed(middle, percentile) <= queries:
            low = middle
        else:
            high = middle
    return low


def compute_dispersion(counts: Sequence[float]) -> float:
    """Return variance over mean of the counts over the bound in windows of a run; 1, as of
    independent queries, where none is over.
    """
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 for count in counts) / (len(counts) - 1) / mean if mean else 1.0


@dataclass(slots=True)
class PeakSearch:
    """The state of a search, made of the runs so far: the same runs always give the same next step,
    so a search can go on at any time.
    """

    aim: PeakAim
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
    length: int = FIRST_PROBE_QUERIES
    spent: int = 0
    """Queries of probes."""
    probes: int = 0
    runs: int = 0
    """Full runs of the second phase."""
    risen: int = 0
    """VALID ones among them without an INVALID rate above."""
    has_late: bool = False
    """Whether any query of any run was over the bound."""
    failed: int = 0
    """INVALID full runs before the first VALID one."""
    probing: bool = True

    def __post_init__(self) -> None:
        """Begin at a share of what the system can do."""
        self.rate = START_RATE_SHARE * self.aim.observed_rate

    def choose_next_run(self) -> NextRun | None:
        """Return the next run; None if the search is over."""
        if self.probing:
            queries = max(self.length, math.ceil(PROBE_BOUNDS * self.aim.bound_s * self.rate))
            whole = self.aim.compute_full_queries(
                self.rate
            )  # a full run that is no longer than a probe tells as much, and may be the result
            return NextRun(rate=self.rate, queries=min(queries, whole), full=whole <= queries)
        if self.runs >= MAX_FULL_RUNS or self.is_closed_in():
            return None
        rate = self.compute_promising_rate()
        return NextRun(rate=rate, queries=self.aim.compute_full_queries(rate), full=True)

    def is_closed_in(self) -> bool:
        """Return whether the highest VALID and the lowest INVALID rate are close."""
        return bool(self.best and self.worst and self.worst / self.best - 1 <= self.aim.tolerance)

    def record_run(self, observation: RunObservation) -> None:
        """Add the outcome of a run."""
        self.has_late |= observation.over > 0
        if observation.full:
            self.update_verdict_rates(observation)
        if self.probing:
            self.narrow_bracket(observation)
        elif observation.full:
            self.runs += 1
            self.risen += observation.valid and not self.worst
            self.add_line_point(observation)
        if (
            self.is_closed_in()
            and self.worst
            and (estimate_pass_chance(self, self.worst) or 0.0) > BAD_LUCK_CHANCE
        ):
            self.worst = None  # by all runs together it should pass: it failed by chance

    def update_verdict_rates(self, observation: RunObservation) -> None:
        """Move the highest VALID or the lowest INVALID rate."""
        if observation.valid:
            self.best = max(self.best or 0.0, observation.rate)
        else:
            self.worst = min(self.worst or math.inf, observation.rate)
            self.failed += not self.best
        if self.best and self.worst and self.worst <= self.best:
            self.worst = None  # a rate below the best failed by chance

    def add_line_point(self, observation: RunObservation) -> None:
        """Add a point to the line."""
        count = observation.over + 0.5
        self.rows.append(
            (
                math.log(observation.rate),
                math.log(count / (observation.queries + 1)),
                count,
                max(observation.dispersion, 1.0),
            )
        )

    def narrow_bracket(self, observation: RunObservation) -> None:
        """Narrow the bracket, and choose the next probe or end the first phase."""
        self.spent += observation.queries
        count, scale = observation.over + 0.5, max(observation.dispersion, 1.0)
        clear = (
            math.log(count / (observation.queries + 1)) - math.log(self.aim.share)
        ) / math.sqrt(scale / count)
        if observation.over < OVERLOADED_SHARE * observation.queries:
            self.add_line_point(observation)
        if clear < -CLEAR_PROBE_SIGMAS:
            self.low = max(self.low or 0.0, observation.rate)
        elif clear > CLEAR_PROBE_SIGMAS:
            self.high = min(self.high or math.inf, observation.rate)
        if self.low and self.high and self.high <= self.low:
            self.low, self.high = (
                0.95 * self.high,
                1.05 * self.low,
            )  # probes that contradict each other are both in doubt
        close = bool(
            self.low
            and self.high
            and self.high / self.low < CLOSE_BRACKET_RATIO
            and len(self.rows) > 2
        )
        self.probes += 1
        known = bool(
            observation.full and self.best and self.worst
        )  # short full runs have found what probes look for
        self.probing = (
            not close and not known and self.spent < MAX_PROBE_QUERIES and self.probes < MAX_PROBES
        )
        self.choose_next_probe(clear)

    def choose_next_probe(self, clear: float) -> None:
        """Choose the rate and length of the next probe."""
        if abs(clear) <= CLEAR_PROBE_SIGMAS or (self.low and self.high):
            self.length = min(2 * self.length, MAX_PROBE_QUERIES // 4)
        if self.low and self.high:
            if len(self.rows) > 2:
                at = math.exp(self.fit_line().root)
            else:
                at = math.sqrt(self.low * self.high)
            edge = 0.2 * (self.high - self.low)
            self.rate = min(max(at, self.low + edge), self.high - edge)
        else:
            self.rate = self.choose_outer_rate(clear)

    def choose_outer_rate(self, clear: float) -> float:
        """Return the rate of the next probe outside those so far."""
        if clear >= 0:
            return 0.85 * self.rate
        most = OBSERVED_RATE_MARGIN * self.aim.observed_rate
        if self.rate < most:
            return min(1.15 * self.rate, most)
        return OUTRUN_FACTOR * self.rate if clear < -CLEAR_PROBE_SIGMAS else self.rate

    def compute_promising_rate(self) -> float:
        """Return the rate at which a full run should pass with two thirds, between the highest
        VALID and the lowest INVALID one.
        """
        line = self.fit_line()
        queries = self.aim.compute_full_queries(math.exp(line.root))
        allowed = max(find_most_over(queries, self.aim.percentile), 0.5)
        safe = math.log(allowed / queries) - TWO_THIRDS_QUANTILE * math.sqrt(
            self.estimate_dispersion() / allowed
        )
        rate = min(
            math.exp(line.root + (safe - math.log(self.aim.share)) / line.slope),
            self.high or math.inf,
        )
        return self.clamp_rate(rate)

    def clamp_rate(self, rate: float) -> float:
        """Move a rate between the highest VALID and the lowest INVALID one, so that each run
        narrows what lies between them.
        """
        if self.best and self.worst:
            gap = self.worst - self.best
            return min(
                max(
                    rate,
                    self.best + MIN_STRIDE_SHARE * gap,
                    self.best * (1 + self.aim.tolerance / 2),
                ),
                self.best + gap / 2,
            )
        if self.best and not self.has_late:
            return max(rate, OUTRUN_FACTOR * self.best)
        if self.best:
            top = max((self.high or 0.0) - self.best, 0.0)
            return max(
                rate,
                self.best + MIN_STRIDE_SHARE * top,
                self.best * (1 + self.aim.tolerance / 2 * STEP_UP_FACTOR**self.risen),
            )
        down = (1 - min(2 * self.aim.tolerance, MAX_STEP_DOWN_SHARE)) ** min(
            STEP_DOWN_FACTOR ** max(self.failed - 1, 0), MAX_STEP_DOWN_POWER
        )
        return min(rate, self.worst * down) if self.worst else rate

    def estimate_dispersion(self) -> float:
        """Return the dispersion of counts at the bound, at least 1: the mean of the points near it,
        by their counts.
        """
        near = [
            row for row in self.rows if abs(row[1] - math.log(self.aim.share)) < NEAR_BOUND_DISTANCE
        ] or self.rows
        if not near:
            return 1.0
        return max(sum(row[2] * row[3] for row in near) / sum(row[2] for row in near), 1.0)

    def fit_line(self) -> RateLine:
        """Fit the line by weighted least squares; without points it passes through the rate that is
        tried next.
        """
        if sum(row[2] >= 1 for row in self.rows) < 2:
            middle = math.sqrt(self.low * self.high) if self.low and self.high else self.rate
            return RateLine(root=math.log(middle), error=1.0, slope=PRIOR_SLOPE)
        aim, scale = math.log(self.aim.share), self.estimate_dispersion()
        weights = [
            1 / (scale / count + LINE_MODEL_ERROR**2 + (0.1 * (y - aim)) ** 2)
            for _, y, count, _ in self.rows
        ]
        total = sum(weights)
        middle = sum(w * row[0] for w, row in zip(weights, self.rows, strict=True)) / total
        y_mean = sum(w * row[1] for w, row in zip(weights, self.rows, strict=True)) / total
        prior = 1 / PRIOR_SLOPE_SD**2
        square = (
            sum(w * (row[0] - middle) ** 2 for w, row in zip(weights, self.rows, strict=True))
            + prior
        )
        slope = (
            sum(w * (row[0] - middle) * row[1] for w, row in zip(weights, self.rows, strict=True))
            + PRIOR_SLOPE * prior
        ) / square
        slope = max(slope, MIN_SLOPE)
        root = middle + (aim - y_mean) / slope
        error = math.sqrt(1 / total + (root - middle) ** 2 / square) / slope
        return RateLine(root=root, error=error, slope=slope)


def estimate_pass_chance(search: PeakSearch, rate: float) -> float | None:
    """Return the chance with which a full run at this rate is VALID, by the line and the dispersion
    seen; None without runs.

    The count over the bound is taken as normal, with the dispersion times its mean as variance, and
    the line's own error added.
    """
    if not search.rows:
        return None
    line, queries = search.fit_line(), search.aim.compute_full_queries(rate)
    mean = queries * min(
        search.aim.share * math.exp(line.slope * (math.log(rate) - line.root)), 1.0
    )
    spread = math.sqrt(search.estimate_dispersion() * mean + (mean * line.slope * line.error) ** 2)
    if not spread > 0:
        return 1.0
    return NormalDist().cdf((find_most_over(queries, search.aim.percentile) + 0.5 - mean) / spread)
