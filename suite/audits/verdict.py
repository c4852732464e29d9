"""The verdict of a compliance test from the numbers of its runs: harness and judge compute it with
the same code.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from suite.audits.rules import AuditRow, AuditRules, ComparedMeasure
from suite.human_numbers import format_plain_number, format_whole_digits
from suite.loadgen.headline import HEADLINE_METRICS, LATENCY_METRIC, SAMPLE_RATE_UNIT
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

MEDIAN_METRICS: Final[Mapping[Scenario, tuple[str, str]]] = {
    Scenario.SINGLE_STREAM: (LATENCY_METRIC, "result_50.00_percentile_latency_ns"),
    Scenario.MULTI_STREAM: (LATENCY_METRIC, "result_50.00_percentile_per_query_latency_ns"),
    Scenario.SERVER: (LATENCY_METRIC, "result_50.00_percentile_latency_ns"),
    Scenario.OFFLINE: HEADLINE_METRICS[Scenario.OFFLINE],
}
"""Metric of the median measure, and its key in the detail log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditComparison:
    """Speeds of a test's runs beside those of its reference runs."""

    metric: str
    reference: float
    """The reference run that counts, in the metric's unit: nanoseconds or samples/s."""
    test: float
    """The test's run that counts."""
    ratio: float
    """Speed of the test as a share of the reference's: more is faster."""
    lowest: float | None
    highest: float | None

    @property
    def passed(self) -> bool:
        """Whether the ratio is within its limits."""
        return (self.lowest is None or self.ratio >= self.lowest) and (
            self.highest is None or self.ratio <= self.highest
        )

    @property
    def required(self) -> str:
        """The limits in words."""
        least = []
        if self.lowest is not None:
            least.append(f"at least {format_plain_number(self.lowest)}")
        most = []
        if self.highest is not None:
            most.append(f"at most {format_plain_number(self.highest)}")
        return f"{' and '.join(least + most) or 'any'} times the reference's speed"

    @property
    def is_speed_limited(self) -> bool:
        """Whether speed proves anything."""
        return self.lowest is not None or self.highest is not None


def select_compared_metric(rules: AuditRules, scenario: Scenario) -> tuple[str, str]:
    """Return the metric that is compared, and its key in the detail log."""
    return (MEDIAN_METRICS if rules.measure is ComparedMeasure.MEDIAN else HEADLINE_METRICS)[
        scenario
    ]


def compare_audit_runs(
    rules: AuditRules,
    test: AuditRow,
    scenario: Scenario,
    reference: Sequence[float],
    found: Sequence[float],
) -> AuditComparison:
    """Compare the runs of both kinds; each needs at least one, in the unit of the metric.

    What else a machine does only slows a run down, so the best of several is the least disturbed
    one (J. Chen and J. Revels, Robust benchmarking in noisy environments, 2016, arXiv:1608.04295):
    while the best runs are within the limits, they decide. One fast run among slow ones proves
    nothing. So after all turns a speed beyond a limit counts only if all runs of the faster kind
    but one are beyond it.
    """
    best = compare_ranked_runs(rules, test, scenario, reference, found, (0, 0))
    if best.passed or len(found) < rules.most_turns:
        return best
    return compare_spread_runs(rules, test, scenario, reference, found)


def compare_spread_runs(
    rules: AuditRules,
    test: AuditRow,
    scenario: Scenario,
    reference: Sequence[float],
    found: Sequence[float],
) -> AuditComparison:
    """Compare the best run of the slower kind with the slowest but one of the faster kind, or with
    the slowest of two: what all reference runs and their spread say.
    """
    best = compare_ranked_runs(rules, test, scenario, reference, found, (0, 0))
    if best.lowest is not None and best.ratio < best.lowest:
        ranks = (choose_spread_rank(reference), 0)
    else:
        ranks = (0, choose_spread_rank(found))
    spread = compare_ranked_runs(rules, test, scenario, reference, found, ranks)
    return replace(spread, lowest=best.lowest, highest=best.highest)


def choose_spread_rank(figures: Sequence[float]) -> int:
    """Return the rank, the best being 0, of the run behind which only one is left out."""
    return len(figures) - (2 if len(figures) > 2 else 1)


def compare_ranked_runs(
    rules: AuditRules,
    test: AuditRow,
    scenario: Scenario,
    reference: Sequence[float],
    found: Sequence[float],
    ranks: tuple[int, int],
) -> AuditComparison:
    """Compare the runs of these ranks, of the reference runs and of the test's."""
    metric, _ = select_compared_metric(rules, scenario)
    known, own = (sorted(each, reverse=metric != LATENCY_METRIC) for each in (reference, found))
    return compare_audit_figures(rules, test, scenario, metric, known[ranks[0]], own[ranks[1]])


def compare_audit_figures(
    rules: AuditRules,
    test: AuditRow,
    scenario: Scenario,
    metric: str,
    reference: float,
    found: float,
) -> AuditComparison:
    """Compare two figures; a lower latency is faster, and a higher value of every other metric."""
    if metric == LATENCY_METRIC:
        ratio = compute_speed_ratio(reference, found)
    else:
        ratio = compute_speed_ratio(found, reference)
    short = scenario is Scenario.SINGLE_STREAM and reference <= rules.short_ns
    lowest = test.short_lowest if short and test.short_lowest is not None else test.lowest
    highest = test.short_highest if short and test.short_highest is not None else test.highest
    if metric == LATENCY_METRIC and rules.measure is ComparedMeasure.HEADLINE:
        lowest, highest = convert_latency_limit(lowest), convert_latency_limit(highest)
    return AuditComparison(
        metric=metric, reference=reference, test=found, ratio=ratio, lowest=lowest, highest=highest
    )


def convert_latency_limit(limit: float | None) -> float | None:
    """Turn MLCommons' limit of a latency into one of speed: the scripts allow a latency of up to
    1.1 times the other where a rate may be 0.9 times it.
    """
    return None if limit is None else 1 / (2 - limit)


def compute_speed_ratio(part: float, whole: float) -> float:
    """Divide; a run that took no time is infinitely fast."""
    return part / whole if whole > 0 else sys.float_info.max


def count_differing_answers(
    found: Mapping[int, Sequence[bytes]],
    wanted: Mapping[int, bytes],
    agree: Callable[[bytes, bytes], bool],
) -> tuple[int, int]:
    """Compare whole answers of the test's runs with the accuracy run's, by sample; return how many
    were compared, and how many differ or are not in it.
    """
    compared = wrong = 0
    for sample, answers in found.items():
        for answer in answers:
            compared += 1
            known = wanted.get(sample)
            wrong += known is None or not (answer == known or agree(answer, known))
    return compared, wrong


def count_equal_answers(found: Mapping[int, Sequence[bytes]], wanted: Mapping[int, bytes]) -> int:
    """Count the answers that equal the accuracy run's byte for byte: all of a deterministic
    system's.
    """
    return sum(
        answer == wanted.get(sample) for sample, answers in found.items() for answer in answers
    )


def describe_compared_speeds(
    compared: AuditComparison, reference: Sequence[float], found: Sequence[float]
) -> str:
    """Describe the figures of all runs with their unit, and the ratio of those that count."""
    return (
        f"{format_figure_range(compared.metric, found)} against"
        f" {format_figure_range(compared.metric, reference)} in the reference runs,"
        f" {format_speed_ratio(compared.ratio)} times the speed"
    )


def format_figure_range(metric: str, figures: Sequence[float]) -> str:
    """Format the least and the greatest of some figures, with the unit."""
    if metric == LATENCY_METRIC:
        unit, divisor = "ms", NS_PER_MS
    else:
        unit, divisor = SAMPLE_RATE_UNIT, 1
    ends = [format_whole_digits(each / divisor) for each in (min(figures), max(figures))]
    shown = " to ".join(dict.fromkeys(ends))
    if metric == LATENCY_METRIC:
        return f"median latency {shown} {unit}"
    return f"{shown} {unit}"


def format_speed_ratio(ratio: float) -> str:
    """Format a share of a speed so that none that is above 0 is shown as 0."""
    if ratio >= 0.1:
        return f"{ratio:.2f}"
    return format_plain_number(ratio, 2)
