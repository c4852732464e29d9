"""Check that the latencies of a run are long enough for its times of tokens."""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import ResultSummary, Series
from compliance.kinds.endpoints.documents.run import EndpointsRun
from compliance.kinds.endpoints.rules.run_series import is_whole_histogram, list_value_ranges
from compliance.kinds.endpoints.rules.token_times import MAX_FIRST_TOKENS, compute_deviation
from compliance.rules import rule
from compliance.verdict import About, Fault

LEAST_TIME_TOLERANCE: Final = 0.05
MAX_CHUNK_TOKENS: Final = 64
"""Tokens that a first chunk may have where a server collects them before it sends."""


@rule("endpoints.short_latencies", EndpointsRun, About.SCORE, doubt="the latencies")
def short_latencies(run: EndpointsRun) -> Iterator[Fault]:
    """Latencies without the times to the first token add up to no less than the times per token and
    the lengths do, even if the longest answers were the fastest, and without the tokens of first
    chunks.

    Source: arithmetic; the inequalities of rearrangement and of Cauchy and Schwarz.
    Advice: put the files of one run here; if they disagree at the source, check that the server
    streams tokens one by one, and repeat the run.
    """
    summary = run.summary
    if summary is None or summary.latency.total is None or summary.ttft.total is None:
        return
    least = compute_least_times(summary)
    took = summary.latency.total - summary.ttft.total
    if least is not None and took < least / (1 + LEAST_TIME_TOLERANCE):
        yield run.build_fault(
            f"{took:.6g} ns from first tokens to ends, of all answers together",
            f"{least:.6g} ns or more, with the times per output token and the lengths",
        )


def compute_least_times(summary: ResultSummary) -> float | None:
    """Return the least sum of times from first token to end in ns that answers with these times per
    token and these lengths can have; None if their times are negative, or not stated.
    """
    times, lengths = summary.tpot, summary.output_sequence_lengths
    if not times.count or times.count > lengths.count or times.min is None or times.min < 0:
        return None
    if not is_whole_histogram(times) or not is_whole_histogram(lengths) or lengths.min is None:
        return None
    whole = times.count == lengths.count
    # each of these answers is longer than its first chunk
    chunk = max(
        MAX_FIRST_TOKENS, min(MAX_CHUNK_TOKENS, lengths.min - 1 if whole else MAX_CHUNK_TOKENS)
    )
    least = compute_lowest_product(times, lengths, chunk)
    if not whole or None in (times.std_dev, lengths.std_dev):
        return least
    mean = float(times.avg or 0) * (float(lengths.avg or 0) - chunk)
    spread = compute_deviation(times) * compute_deviation(lengths)
    return max(least, (mean - spread) * times.count)


def compute_lowest_product(times: Series, lengths: Series, chunk: float) -> float:
    """Return the lowest sum of times that answers with these times per token can take: they are the
    shortest answers, of which the longest are the fastest, by the rearrangement inequality. Values
    are no lower than the lower edges of their buckets.
    """
    slow = [(low, count) for low, _, count in list_value_ranges(times)]  # the slowest is last
    short = [(low, count) for low, _, count in reversed(list_value_ranges(lengths))]
    total, left, counted, length = 0.0, 0, 0, 0.0
    while slow:
        time, left = slow.pop()
        while left:
            if not counted:
                length, counted = short.pop()
            shared = min(left, counted)
            total += shared * time * max(0.0, length - chunk)
            left, counted = left - shared, counted - shared
    return total
