"""Check the statistics of a run of the Endpoints client: order, histogram, early stopping.

Source: mlcommons/endpoints, metrics registry. A percentile is the value at the lower rank; a
histogram has 30 buckets of equal width on a logarithmic scale, from the lowest value to the highest
or ten times the lowest.
"""

import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

from compliance.documents.endpoints.result_summary import ResultSummary, Series, get_series
from compliance.documents.endpoints.run import EndpointsRun
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
TOKEN_TIME_TOLERANCE: Final = 0.05
MAX_EARLY_STOPPING_SAMPLES: Final = 10_000_000


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
    median is the 50th, the mean times the count is the total, and the deviation is possible.

    Source: mlcommons/endpoints, metrics: percentiles at the lower rank.
    Advice: submit the client's files unmodified.
    """
    for name, each in list_measured_series(run.summary) if run.summary else ():
        for found, required in find_series_problems(each):
            yield run.build_fault(f"{name}: {found}", required)


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
        yield from [(f"mean {mean} of {each.count}", f"a total of {total}")] if unequal else ()
    most = (high - low) / 2 * math.sqrt(each.count / (each.count - 1)) if each.count > 1 else 0.0
    if each.std_dev is not None and not 0 <= each.std_dev <= most * (1 + SUM_TOLERANCE):
        yield f"a standard deviation of {each.std_dev}", f"between 0 and {most:.12g}"


@rule("endpoints.histogram", EndpointsRun, About.SCORE, doubt="the latencies and the rate")
def histogram(run: EndpointsRun) -> Iterator[Fault]:
    """Histograms agree with the statistics: their counts with the completed samples, their edges
    with the extremes, each percentile with the bucket of its rank, and the total with the buckets.

    Source: mlcommons/endpoints, metrics: 30 buckets of equal width on a logarithmic scale.
    Advice: submit the client's files unmodified.
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
        rank = int(percent / 100 * (each.count - 1)) if each.count else 0
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
    Advice: submit the client's files unmodified.
    """
    for name, each in list_measured_series(run.summary) if run.summary else ():
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


@rule("endpoints.token_time", EndpointsRun, About.SCORE, doubt="the times of tokens")
def token_time(run: EndpointsRun) -> Iterator[Fault]:
    """The time between first tokens and ends, summed over all answers, is possible with the lowest
    and the highest time per output token and the lengths, and no more than their times and lengths
    add up to if the longest answers were the slowest.

    Source: arithmetic: a latency is the time to the first token and the time of the others.
    Advice: submit the client's files unmodified.
    """
    summary = run.summary
    if summary is None or summary.tpot.min is None or summary.tpot.max is None:
        return
    lengths, first = summary.output_sequence_lengths, summary.ttft.total
    latency, low, high = summary.latency.total, summary.tpot.min, summary.tpot.max
    if not lengths.total or not lengths.max or latency is None or first is None:
        return
    if summary.n_samples_failed or summary.ttft.count != summary.latency.count:
        return
    slack = 1 + TOKEN_TIME_TOLERANCE
    if low >= 0:
        least = low * lengths.total / slack
    else:  # stamps of answers on a fast connection; any of them may be the longest
        least = low * lengths.max * sum(summary.tpot.histogram.counts[:1]) * slack
    if not least <= latency - first <= high * lengths.max * summary.latency.count * slack:
        yield run.build_fault(
            f"{(latency - first) / lengths.total:.6g} ns per token on average",
            f"between {low:.6g} and {high:.6g} ns, the times per output token",
        )
        return
    most = compute_highest_product(summary.tpot, lengths)
    if most is not None and latency - first > most * slack:
        yield run.build_fault(
            f"{latency - first:.6g} ns from first tokens to ends, of all answers together",
            f"at most {most:.6g} ns, with the times per output token and the lengths",
        )


def compute_highest_product(times: Series, lengths: Series) -> float | None:
    """Return the highest sum of times that answers with these times per token and these lengths can
    take: the longest are the slowest, by the rearrangement inequality. Values are no higher than
    the upper edges of their buckets. None if answers lack one or the other, or times are negative.
    """
    if times.count != lengths.count or not times.count or (times.min or 0) < 0:
        return None
    if not is_whole_histogram(times) or not is_whole_histogram(lengths):
        return None
    slow, long = (list_buckets_downwards(each) for each in (times, lengths))
    total, (time, timed), (length, counted) = 0.0, slow.pop(), long.pop()
    while True:
        shared = min(timed, counted)
        total += shared * time * length
        timed, counted = timed - shared, counted - shared
        if not timed and slow:
            time, timed = slow.pop()
        elif not counted and long:
            length, counted = long.pop()
        elif not timed or not counted:
            return total


def list_buckets_downwards(each: Series) -> list[tuple[float, int]]:
    """Return upper edge and count of the buckets that have values; the highest bucket is last."""
    top = float(each.max or 0)
    buckets = zip(each.histogram.buckets, each.histogram.counts, strict=True)
    return [(min(float(high), top), count) for (_, high), count in buckets if count]


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
    counted = run.events.negative_token_times if run.events else 0
    number = counted or sum(summary.tpot.histogram.counts[:1])
    yield run.build_fault(
        f"first fragments after the end of their answers: {number} of"
        f" {summary.n_samples_completed}",
        "first fragments before the end",
    )
