"""Check the times of tokens of a run against its latencies and lengths.

An answer's latency is the time to its first token and, for each token after the first chunk, its
time per output token. All rules here bound what series with the stated statistics can add up to,
in whatever way the answers pair their values.
"""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import ResultSummary, Series
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.kinds.endpoints.rules.run_series import is_whole_histogram, list_value_ranges
from compliance.rules import rule
from compliance.verdict import About, Fault

TOKEN_TIME_TOLERANCE: Final = 0.05
MEAN_TIME_TOLERANCE: Final = 0.01
"""Genuine runs stay 5 % and more below what their means and deviations allow: the client counts
tokens of a part and of the whole answer apart, which is a token or two."""
MAX_FIRST_TOKENS: Final = 8
"""Tokens that a first chunk may have, by speculative decoding."""


@rule("endpoints.token_time", EndpointsRun, About.SCORE, doubt="the times of tokens")
def token_time(run: EndpointsRun) -> Iterator[Fault]:
    """The time between first tokens and ends, summed over all answers, is possible with the lowest
    and the highest time per output token and the lengths, and no more than their times and lengths
    add up to if the longest answers were the slowest, as far as means and deviations allow.

    Source: arithmetic: a latency is the time to the first token and the time of the others; the
    inequalities of rearrangement and of Cauchy and Schwarz.
    Advice: put the files of one run here; if they disagree at the source, check that the server
    streams tokens one by one, and repeat the run.
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
        least = low * compute_fewest_tokens(summary) / slack
    else:  # stamps of answers on a fast connection; any of them may be the longest
        least = low * lengths.max * sum(summary.tpot.histogram.counts[:1]) * slack
    if not least <= latency - first <= high * lengths.max * summary.latency.count * slack:
        yield run.build_fault(
            f"{(latency - first) / lengths.total:.6g} ns per token on average",
            f"between {least / lengths.total:.6g} and {high:.6g} ns, by the times per output token",
        )
        return
    most = compute_highest_product(summary.tpot, lengths)
    if most is not None and latency - first > most * slack:
        yield run.build_fault(
            f"{latency - first:.6g} ns from first tokens to ends, of all answers together",
            f"at most {most:.6g} ns, with the times per output token and the lengths",
        )
        return
    mean, answers = compute_highest_mean(summary), summary.latency.count
    if mean is not None and latency - first > mean * answers * (1 + MEAN_TIME_TOLERANCE):
        yield run.build_fault(
            f"{(latency - first) / answers:.6g} ns from first token to end on average",
            f"at most {mean:.6g} ns, with the means and deviations of times and lengths",
        )


def compute_fewest_tokens(summary: ResultSummary) -> float:
    """Return how many tokens come after the first chunks at least: of each answer with a time per
    token all but those that a first chunk may have. Answers without such a time may be the longest.
    """
    lengths, times = summary.output_sequence_lengths, summary.tpot
    untimed = max(0, lengths.count - times.count)
    whole = float(lengths.total or 0) - untimed * float(lengths.max or 0)
    fewest, left = whole - MAX_FIRST_TOKENS * times.count, times.count
    by_buckets = 0.0
    if is_whole_histogram(lengths):
        for low, _, count in list_value_ranges(lengths):
            by_buckets += min(left, count) * max(0.0, low - MAX_FIRST_TOKENS)
            left -= min(left, count)
    return max(0.0, fewest, by_buckets)


def compute_highest_mean(summary: ResultSummary) -> float | None:
    """Return the highest mean time from first token to end that answers with these times per token
    and these lengths can have, in ns: the product of the means, and the highest covariance. None if
    answers lack one or the other, or the statistics of them.

    Source: Cauchy and Schwarz: a covariance is at most the product of the deviations. Where times
    and lengths grow together, the time from first token to end varies more than both, and latencies
    and times to the first token bound how much it can.
    """
    times, lengths = summary.tpot, summary.output_sequence_lengths
    every = (times, lengths, summary.ttft, summary.latency)
    counts = {each.count for each in every}
    if len(counts) > 1 or not times.count or not all(map(is_whole_histogram, every)):
        return None
    mean = float(times.avg or 0) * float(lengths.avg or 0)
    if not times.avg or not lengths.avg or mean <= 0:
        return None
    if any(each.std_dev is None for each in every):
        return None
    spread, of_lengths, of_first, of_latency = map(compute_deviation, every)
    # as shares of their means
    slow, long = spread / float(times.avg), of_lengths / float(lengths.avg)
    chunk = MAX_FIRST_TOKENS * float(times.avg) * math.hypot(1, slow)
    wide = (of_latency + of_first + chunk) / mean + bound_product_deviation(times, lengths)
    covariance = min(slow * long, (wide * wide - slow * slow - long * long) / 2)
    # a negative time, by stamps on a fast connection, is that of fewer tokens than the answer has
    early = MAX_FIRST_TOKENS * max(0.0, -float(times.min or 0)) * times.histogram.counts[0]
    return mean * (1 + covariance) + early / times.count


def compute_deviation(each: Series) -> float:
    """Return the standard deviation of all values, where the client divides by one less."""
    return float(each.std_dev or 0) * math.sqrt(max(0, each.count - 1) / each.count)


def bound_product_deviation(first: Series, other: Series) -> float:
    """Return the highest standard deviation of the product of two series' distances from their
    means, as shares of these.
    """
    pairs = ((first, other), (other, first))
    by_extremes = [
        bound_distance(each) * compute_deviation(beside) / float(beside.avg or 1)
        for each, beside in pairs
    ]
    by_moments = math.sqrt(math.sqrt(bound_fourth_moment(first) * bound_fourth_moment(other)))
    return min(*by_extremes, by_moments)


def bound_distance(each: Series) -> float:
    """Return the highest distance of a value from the mean, as a share of it."""
    mean = float(each.avg or 1)
    return max(float(each.max or 0) / mean - 1, 1 - float(each.min or 0) / mean)


def bound_fourth_moment(each: Series) -> float:
    """Return the highest mean of the fourth powers of values' distances from their mean, as shares
    of it, by the histogram.
    """
    mean = float(each.avg or 1)
    squares = (
        (max((low / mean - 1) * (low / mean - 1), (high / mean - 1) * (high / mean - 1)), count)
        for low, high, count in list_value_ranges(each)
    )
    return sum(square * square * count for square, count in squares) / each.count


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
    return [(high, count) for _, high, count in list_value_ranges(each)]
