"""The search for the peak rate: pure, resumable, and right on simulated queues."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from suite.loadgen.early_stopping import is_server_run_proven
from suite.studies.peak_search import (
    MAX_FULL_RUNS,
    NextRun,
    PeakAim,
    PeakSearch,
    RunObservation,
    compute_dispersion,
    estimate_pass_chance,
    find_most_over,
)
from suite.studies.rates import replay_peak_search

FULL = 4_000
BOUND_S = 0.050


def aim(**changes: Any) -> PeakAim:
    usual: dict[str, Any] = {
        "percentile": 99.0,
        "bound_s": BOUND_S,
        "observed_rate": 200.0,
        "min_queries": FULL,
        "min_duration_s": 0.0,
        "tolerance": 0.02,
    }
    return PeakAim(**{**usual, **changes})


def queue(
    rate: float, queries: int, rng: np.random.Generator, service_s: float = 0.005
) -> np.ndarray:
    """Latencies of one device that takes 5 ms a query."""
    arrived = np.cumsum(rng.exponential(1 / rate, queries))
    work = np.arange(queries) * service_s
    return np.maximum.accumulate(arrived - work) + work + service_s - arrived


def simulated(seed: int, of: PeakAim) -> Callable[[NextRun], RunObservation]:
    """A run of that queue."""
    rng = np.random.default_rng(seed)

    def run(step: NextRun) -> RunObservation:
        skipped = 0 if step.full else of.compute_skipped_queries(step.rate)
        late = (queue(step.rate, step.queries + skipped, rng) > of.bound_s)[skipped:]
        over = int(late.sum())
        valid = step.full and is_server_run_proven(step.queries, over, of.percentile)
        scatter = compute_dispersion([float(part.sum()) for part in np.array_split(late, 25)])
        return RunObservation(
            rate=step.rate,
            queries=step.queries,
            over=over,
            dispersion=scatter,
            full=step.full,
            valid=valid,
        )

    return run


def searched(seed: int, of: PeakAim) -> tuple[PeakSearch, list[RunObservation]]:
    search, seen, run = PeakSearch(of), list[RunObservation](), simulated(seed, of)
    while (step := search.choose_next_run()) is not None:
        seen.append(run(step))
        search.record_run(seen[-1])
    return search, seen


@pytest.mark.parametrize("seed", range(6))
def test_a_search_ends_with_a_valid_run_near_the_peak(seed: int) -> None:
    """Of M/D/1 with ten services' bound half of all full runs are VALID at about 0.8 of the
    capacity; a search that ends far away is of no use.
    """
    search, seen = searched(seed, aim())
    assert search.best is not None and 0.70 < search.best / 200.0 < 0.88
    assert search.runs <= MAX_FULL_RUNS and any(
        each.full and each.valid and each.rate == search.best for each in seen
    )


def test_the_same_runs_give_the_same_next_step() -> None:
    """A search that was killed goes on as if it had not been: its state is its runs."""
    of = aim()
    search, seen = PeakSearch(of), list[RunObservation]()
    run = simulated(3, of)
    while (step := search.choose_next_run()) is not None:
        assert replay_peak_search(of, seen).choose_next_run() == step
        seen.append(run(step))
        search.record_run(seen[-1])
    assert replay_peak_search(of, seen).choose_next_run() is None


def answer_below(capacity: float, of: PeakAim) -> list[RunObservation]:
    """A search of a system that answers every query in time up to a rate, and none above."""
    search, seen = PeakSearch(of), list[RunObservation]()
    while (step := search.choose_next_run()) is not None:
        over = step.queries if step.rate > capacity else 0
        seen.append(
            RunObservation(
                rate=step.rate,
                queries=step.queries,
                over=over,
                dispersion=1.0,
                full=step.full,
                valid=step.full and not over,
            )
        )
        search.record_run(seen[-1])
    return seen


@pytest.mark.parametrize("times", [3, 10, 30])
@pytest.mark.parametrize("queries", [459, FULL, 40_000])
def test_a_system_that_answers_more_than_its_probe_saw_is_bracketed(
    times: int, queries: int
) -> None:
    """A first look at a quick network sees the call that it takes, not what it can do."""
    of = aim(observed_rate=200.0, min_queries=queries, tolerance=0.05)
    seen = answer_below(200.0 * times, of)
    valid = max(each.rate for each in seen if each.valid)
    invalid = min(each.rate for each in seen if each.full and not each.valid)
    assert valid <= 200.0 * times < invalid < 1.5 * valid


@pytest.mark.parametrize("tolerance", [0.02, 0.5, 0.9])
def test_a_rate_is_never_zero(tolerance: float) -> None:
    """On a machine that answers nothing in time each step down is a share of the rate."""
    seen = answer_below(0.0, aim(min_queries=459, tolerance=tolerance))
    rates = [each.rate for each in seen]
    assert len(rates) > MAX_FULL_RUNS and min(rates) > 0


def test_full_runs_that_are_short_serve_as_probes() -> None:
    """A probe that lasts longer than a full run would prove less than it, and cost more."""
    step = PeakSearch(aim(min_queries=459)).choose_next_run()
    assert step is not None and step.full and step.queries == 459
    longer = PeakSearch(aim()).choose_next_run()
    assert longer is not None and not longer.full and longer.queries == 1000


def test_a_full_run_is_as_long_as_both_minimums_ask() -> None:
    """LoadGen ends when both are met."""
    of = aim(min_duration_s=60.0, min_queries=459)
    assert (
        of.compute_full_queries(100.0) == 6000
        and of.compute_full_queries(1.0) == 459
        and of.compute_skipped_queries(100.0) == math.ceil(10 * BOUND_S * 100)
    )


@pytest.mark.parametrize("queries", [459, 1000, 24_000, 270_336])
def test_the_most_queries_over_the_bound_are_loadgens(queries: int) -> None:
    """One more would be INVALID."""
    most = find_most_over(queries, 99.0)
    assert is_server_run_proven(queries, most, 99.0) and not is_server_run_proven(
        queries, most + 1, 99.0
    )
    assert find_most_over(100, 99.0) == -1


def test_dispersion_is_one_for_independent_counts_and_more_for_bursts() -> None:
    """Of bursts, LoadGen's 99 % are far less sure than they say."""
    rng = np.random.default_rng(0)
    assert 0.4 < compute_dispersion([float(count) for count in rng.poisson(10, 25)]) < 2.0
    assert compute_dispersion([0.0] * 24 + [100.0]) > 50 and compute_dispersion([0.0] * 25) == 1.0


def test_a_run_below_the_best_that_failed_by_chance_does_not_end_the_search() -> None:
    """An INVALID rate is a bound only above the highest VALID one."""
    search = PeakSearch(aim())
    search.probing = False
    search.record_run(
        RunObservation(rate=150.0, queries=FULL, over=10, dispersion=1.0, full=True, valid=True)
    )
    search.record_run(
        RunObservation(rate=140.0, queries=FULL, over=60, dispersion=1.0, full=True, valid=False)
    )
    assert search.best == 150.0 and search.worst is None


def test_the_chance_to_pass_falls_with_the_rate() -> None:
    """What is told beside a verdict."""
    search, _ = searched(1, aim())
    assert search.best is not None
    chances = [
        estimate_pass_chance(search, rate)
        for rate in (0.7 * search.best, search.best, 1.2 * search.best)
    ]
    assert None not in chances and chances == sorted(chances, reverse=True, key=float)  # type: ignore[arg-type]
    assert estimate_pass_chance(PeakSearch(aim()), 100.0) is None


def test_a_device_that_never_keeps_the_bound_ends() -> None:
    """Lower and lower, never below nothing; twelve runs of the first phase and nine of the second
    at most.
    """
    search, rates = PeakSearch(aim(min_queries=459)), list[float]()
    while (step := search.choose_next_run()) is not None:
        rates.append(step.rate)
        search.record_run(
            RunObservation(
                rate=step.rate,
                queries=step.queries,
                over=step.queries,
                dispersion=1.0,
                full=step.full,
                valid=False,
            )
        )
    assert (
        search.best is None and len(rates) <= MAX_FULL_RUNS + 12 and 0 < rates[-1] < 0.05 * rates[0]
    )
