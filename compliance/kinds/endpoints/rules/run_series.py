"""Check the statistics of a run of the Endpoints client: order, histogram, early stopping.

Source: mlcommons/endpoints, metrics registry. A percentile is the value at the lower rank; a
histogram has 30 buckets of equal width on a logarithmic scale, from the lowest value to the highest
or ten times the lowest.
"""

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import ResultSummary, Series, get_series
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.early_stopping import estimate_early_stopping

SERIES_NAMES: Final = (
    "latency",
    "ttft",
    "tpot",
    "output_sequence_lengths",
    "input_sequence_lengths",
)
EXACT_TOLERANCE: Final = 1e-9
SUM_TOLERANCE: Final = 1e-6
MAX_EARLY_STOPPING_SAMPLES: Final = 10_000_000
LENGTH_NAMES: Final = ("output_sequence_lengths", "input_sequence_lengths")
"""Series that count tokens."""


def list_measured_series(summary: ResultSummary) -> list[tuple[str, Series]]:
    """Return the series that have values."""
    found = [(name, get_series(summary, name)) for name in SERIES_NAMES]
    return [(name, each) for name, each in found if each.min is not None and each.max is not None]


def parse_percents(series: Series) -> list[tuple[float, float]]:
    """Return the percentiles of a series, ascending; keys that are no numbers are left out."""
    found = []
    for name, value in series.percentiles.items():
        try:
            found.append((float(name), float(value)))
        except (ValueError, OverflowError):
            continue
    return sorted(each for each in found if 0 <= each[0] <= 100)


@rule("endpoints.series", EndpointsRun, About.SCORE, doubt="the latencies and the rate")
def series(run: EndpointsRun) -> Iterator[Fault]:
    """Statistics fit together: percentiles ascend between the lowest and the highest value, the
    median is the 50th, the mean times the count is the total, the deviation is possible with the
    histogram, and lengths are whole numbers of tokens. Percentiles with other names than numbers
    are a warning.

    Source: mlcommons/endpoints, metrics: percentiles at the lower rank.
    Advice: put the summary of this run here; if it has these values at the source, repeat the run
    with the round's client.
    """
    if not run.summary:
        return
    for name, each in list_measured_series(run.summary):
        for found, required in find_series_problems(each):
            yield run.build_fault(f"{name}: {found}", required)
        unread = len(each.percentiles) - len(parse_percents(each))
        if unread:
            yield run.build_fault(
                f"{name}: {unread} percentiles whose names are no numbers from 0 to 100",
                "numbers",
                severity=Severity.WARNING,
            )
        if name in LENGTH_NAMES:
            broken = list_broken_counts(each)
        else:
            broken = []
        if broken:
            yield run.build_fault(f"{name}: {', '.join(broken)}", "whole numbers of tokens")


def list_broken_counts(each: Series) -> list[str]:
    """List the statistics of a series that cannot be counts: fractions, and what is below 0."""
    stated = [("total", each.total), ("min", each.min), ("max", each.max)]
    stated += [(f"p{percent:g}", value) for percent, value in parse_percents(each)]
    return [
        f"{name} {value}"
        for name, value in stated
        if value is not None and (value < 0 or not float(value).is_integer())
    ]


def find_series_problems(each: Series) -> Iterator[tuple[str, str]]:
    """Yield what is impossible about a series: what was found, and what is required."""
    low, high = float(each.min or 0), float(each.max or 0)
    percents = parse_percents(each)
    ordered = [("min", low), *((f"p{p:g}", value) for p, value in percents), ("max", high)]
    for (before, early), (after, late) in pairwise(ordered):
        if early > late:
            yield f"{before} {early:.12g} above {after} {late:.12g}", "ascending values"
    for percent, value in percents:
        if value != dict(percents)[percent]:
            yield f"p{percent:g} {value:.12g} and {dict(percents)[percent]:.12g}", "one value"
    median = dict(percents).get(50.0)
    if median is not None and each.median is not None and each.median != median:
        yield f"median {each.median}", f"{median}, the 50th percentile"
    mean, total = each.avg, each.total
    if mean is not None and total is not None and each.count:
        unequal = not math.isclose(mean * each.count, total, rel_tol=EXACT_TOLERANCE)
        if unequal:
            yield f"mean {mean} of {each.count}", f"a total of {total}"
    least, most = bound_deviation(each)
    if each.std_dev is not None and not (
        least * (1 - SUM_TOLERANCE) <= each.std_dev <= most * (1 + SUM_TOLERANCE)
    ):
        yield (
            f"a standard deviation of {each.std_dev}",
            f"between {least:.12g} and {most:.12g}",
        )


def bound_deviation(each: Series) -> tuple[float, float]:
    """Return the lowest and the highest standard deviation that a series can have, by its extremes
    and, if they fit, by the buckets of its histogram and its mean.
    """
    count, low, high = each.count, float(each.min or 0), float(each.max or 0)
    if count < 2:
        return 0.0, 0.0
    most = (high - low) / 2 * math.sqrt(count / (count - 1))
    if each.avg is None or not is_whole_histogram(each):
        return 0.0, most
    mean, ranges = float(each.avg), list_value_ranges(each)
    near = [(max(begin - mean, mean - end, 0.0), held) for begin, end, held in ranges]
    far = [(max(mean - begin, end - mean), held) for begin, end, held in ranges]
    least, highest = (
        math.sqrt(sum(each * each * held for each, held in distances) / (count - 1))
        for distances in (near, far)
    )
    return least, min(most, highest)


def list_value_ranges(each: Series) -> list[tuple[float, float, int]]:
    """Return the lowest and the highest value of each bucket that has values, and their number;
    values below the first bucket's edge are counted in it.
    """
    low, high = float(each.min or 0), float(each.max or 0)
    buckets = zip(each.histogram.buckets, each.histogram.counts, strict=True)
    return [
        (min(float(begin), low) if place == 0 else float(begin), min(float(end), high), count)
        for place, ((begin, end), count) in enumerate(buckets)
        if count
    ]


@rule("endpoints.histogram", EndpointsRun, About.SCORE, doubt="the latencies and the rate")
def histogram(run: EndpointsRun) -> Iterator[Fault]:
    """Histograms agree with the statistics: their counts with the completed samples, their edges
    with the extremes, each percentile with the bucket of its rank, and the total with the buckets.

    Source: mlcommons/endpoints, metrics: 30 buckets of equal width on a logarithmic scale.
    Advice: put the summary of this run here; if it has these values at the source, repeat the run
    with the round's client.
    """
    if run.summary is None:
        return
    completed = run.summary.n_samples_completed
    for name, each in list_measured_series(run.summary):
        if not each.histogram.counts:
            continue
        if not is_whole_histogram(each):
            yield run.build_fault(
                f"{name}: {len(each.histogram.counts)} counts",
                f"{len(each.histogram.buckets)} of at least 0, one for each bucket",
            )
            continue
        yield from check_histogram_count(run, name, each, completed)
        for found, required in find_histogram_problems(each):
            yield run.build_fault(f"{name}: {found}", required)


def is_whole_histogram(each: Series) -> bool:
    """Return whether a histogram has a count for each bucket, and none below 0."""
    counts = each.histogram.counts
    return len(counts) == len(each.histogram.buckets) and min(counts, default=0) >= 0


def check_histogram_count(
    run: EndpointsRun, name: str, each: Series, completed: int | None
) -> Iterator[Fault]:
    """Yield a number of values that does not fit the completed samples."""
    if completed is None:
        return
    if name == "latency" and each.count != completed:
        yield run.build_fault(f"{name}: {each.count} values", f"{completed}, the completed samples")
    elif each.count > completed:
        yield run.build_fault(
            f"{name}: {each.count} values", f"at most {completed}, the completed samples"
        )
    elif name == "output_sequence_lengths" and each.count < completed:
        yield run.build_fault(
            f"{name}: {each.count} values",
            f"{completed}, the completed samples",
            severity=Severity.WARNING,
        )


def find_histogram_problems(each: Series) -> Iterator[tuple[str, str]]:
    """Yield what contradicts the statistics in a histogram."""
    low, high = float(each.min or 0), float(each.max or 0)
    buckets, counts = each.histogram.buckets, each.histogram.counts
    if low > 0:
        top = max(high, 10 * low)
        for edge, found, wanted in (
            ("first", buckets[0][0], low),
            ("last", buckets[-1][1], top),
        ):
            if not math.isclose(found, wanted, rel_tol=EXACT_TOLERANCE):
                yield f"a histogram whose {edge} edge is {found}", f"{wanted:.12g}"
        total = float(each.total or 0)
        least = sum(lo * count for (lo, _), count in zip(buckets, counts, strict=True))
        most = sum(hi * count for (_, hi), count in zip(buckets, counts, strict=True))
        if not least * (1 - SUM_TOLERANCE) <= total <= most * (1 + SUM_TOLERANCE):
            yield f"a total of {each.total}", f"between {least:.12g} and {most:.12g}"
    below = list(accumulate(counts))
    for percent, value in parse_percents(each):
        rank = 0
        if each.count:
            rank = int(percent / 100 * (each.count - 1))
        if not is_in_bucket_of_rank(each, below, rank, value):
            yield (
                f"the percentile {percent:g} at {value:.12g}",
                f"a value in the histogram's bucket of rank {rank + 1} of {each.count}",
            )


def is_in_bucket_of_rank(each: Series, below: list[int], rank: int, value: float) -> bool:
    """Return whether a value is in the bucket of a rank, or of the ranks beside it: the client's
    product of percent and count may be rounded either way.
    """
    buckets = each.histogram.buckets
    for near in (rank - 1, rank, rank + 1):
        place = next((place for place, total in enumerate(below) if near < total), None)
        if near < 0 or place is None:
            continue
        low, high = buckets[place]
        slack = EXACT_TOLERANCE * max(abs(low), abs(high))
        if (place == 0 and value <= high + slack) or low - slack <= value <= high + slack:
            return True
    return not below or not below[-1]


@rule("endpoints.early_stopping", EndpointsRun, About.SCORE, doubt="the percentile that counts")
def early_stopping(run: EndpointsRun) -> Iterator[Fault]:
    """The percentiles that early stopping proves exist where there are enough samples, are not
    below the measured ones, ascend, and have the rank that LoadGen's formula gives.

    Source: mlcommons/inference, loadgen/early_stopping.cc, which the client repeats.
    Advice: put the summary of this run here; if it has these values at the source, repeat the run
    with the round's client.
    """
    if not run.summary:
        return
    for name, each in list_measured_series(run.summary):
        for key, value, required in find_early_stopping_problems(each):
            yield run.build_fault(f"{name}: early stopping's percentile {key} {value}", required)


def find_early_stopping_problems(each: Series) -> Iterator[tuple[str, object, str]]:
    """Yield the percentiles of a series that early stopping cannot have proven: name, value, and
    what is required.
    """
    proven = each.early_stopping_percentiles or {}
    if not 0 < each.count <= MAX_EARLY_STOPPING_SAMPLES or not is_whole_histogram(each):
        return
    below = list(accumulate(each.histogram.counts))
    measured = dict(parse_percents(each))
    for key, value in proven.items():
        percent = next((p for p in measured if f"{p:.1f}" == key), None)
        if percent is None or not 0 < percent < 100:
            continue
        rank = estimate_early_stopping(each.count, percent).rank_from_top
        if value is None or rank is None:
            if (value is None) != (rank is None):
                yield key, value, "null, with too few samples" if rank is None else "a value"
        elif not measured[percent] <= value <= float(each.max or 0):
            yield (
                key,
                value,
                f"between {measured[percent]:.12g} and the highest value, {each.max}",
            )
        elif not is_in_bucket_of_rank(each, below, each.count - rank, float(value)):
            yield key, value, f"a value in the histogram's bucket of rank {each.count - rank + 1}"


@rule("endpoints.clocks", EndpointsRun, About.SCORE, severity=Severity.WARNING)
def clocks(run: EndpointsRun) -> Iterator[Fault]:
    """No first fragment comes after the end of its answer. The client stamps the first when it
    handles it and the end when it decodes it, so that on a fast connection this happens.

    Source: mlcommons/endpoints: the two stamps are made in different places.
    Advice: times of tokens of this run are uncertain; compare latencies.
    """
    summary = run.summary
    if summary is None or summary.tpot.min is None or summary.tpot.min >= 0:
        return
    counted = 0
    if run.events:
        counted = run.events.negative_token_times
    number = counted or sum(summary.tpot.histogram.counts[:1])
    yield run.build_fault(
        f"first fragments after the end of their answers: {number} of"
        f" {summary.n_samples_completed}",
        "first fragments before the end",
    )
