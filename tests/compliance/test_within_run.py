"""Ten slices of one run: what they cover on simulated servers, and where they say that there is too
little.
"""

import numpy
import pytest

from compliance import within_run
from suite.loadgen.query_record import QueryTimes


def served(load: float, count: int, seed: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """A queue with one server, Poisson arrivals and exponential service of 1 ms: arrivals and
    completions, in ns.
    """
    draw = numpy.random.default_rng(seed)
    arrivals = numpy.cumsum(draw.exponential(1e6 / load, count))
    service = draw.exponential(1e6, count)
    done, free = numpy.empty(count), 0.0
    for place in range(count):
        free = done[place] = max(free, arrivals[place]) + service[place]
    return arrivals.astype("i8"), done.astype("i8")


@pytest.mark.parametrize("load", [0.3, 0.5])
def test_slices_hold_the_true_percentile(load: float):
    """The time in such a queue is exponential with mean 1 / (1 - load) ms; an interval that takes
    queries for independent holds it far too seldom.
    """
    truth = -numpy.log(0.1) / (1 - load) * 1e6
    found = [
        within_run.estimate_latency_percentile(*served(load, 8192, seed), 90.0)
        for seed in range(60)
    ]
    held = [
        each.low <= truth <= each.high
        for each in found
        if each is not None and each.low is not None and each.high is not None
    ]
    assert len(held) == 60 and sum(held) >= 0.85 * len(held)


def test_a_crowded_queue_says_that_it_has_too_few_independent_queries():
    """At load 0.9 every interval of p99 is wrong: none is given."""
    found = [
        within_run.estimate_latency_percentile(*served(0.9, 8192, seed), 99.0) for seed in range(20)
    ]
    assert all(
        each is not None and each.low is None and each.problem == "too few independent queries"
        for each in found
    )


def queries(done: list[int], issued: int = 0, samples: int = 256) -> QueryTimes:
    count = len(done)
    column = {
        "issued_ns": numpy.full(count, issued),
        "done_ns": numpy.array(done),
        "batch": numpy.arange(count),
        "samples": numpy.full(count, samples),
    }
    return QueryTimes(**column)


def test_offline_is_sliced_by_its_completions():
    """A steady run has a narrow interval around its rate."""
    found = within_run.estimate_offline_rate(
        queries([10_000_000 * n for n in range(1, 201)]), by_length=False
    )
    assert (
        found is not None
        and found.value == pytest.approx(25_600)
        and found.low is not None
        and found.low > 24_000
    )


@pytest.mark.parametrize(
    ("count", "by_length", "words"),
    [(20, False, "too few completions"), (200, True, "sorted by length")],
)
def test_offline_says_why_there_is_no_interval(count: int, by_length: bool, words: str):
    """Some chunks make no rate, and batches sorted by length are no even load."""
    found = within_run.estimate_offline_rate(
        queries([10_000_000 * n for n in range(1, count + 1)]), by_length
    )
    assert found is not None and found.low is None and words in found.problem


def test_a_run_of_one_query_has_no_slices():
    """Nothing can be cut."""
    assert (
        within_run.estimate_offline_rate(queries([5]), False) is None
        and within_run.estimate_latency_percentile(numpy.array([1]), numpy.array([2]), 90.0) is None
    )
