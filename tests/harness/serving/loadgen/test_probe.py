"""The short look at a system under test: what it times, what it leaves, and what it hands to the
schedule.
"""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from podium_fakes import served
from podium_fakes.served import PROBE, Served

from harness.serving.loadgen import probe as looks
from harness.serving.loadgen.probe import (
    PROBE_TURNS,
    ProbeJob,
    measure_median_seconds,
    measure_seconds_per_call,
    run_probe_job,
)
from harness.serving.loadgen.test_settings import OFFLINE_MARGIN
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.scenario import Scenario


def abort(error: BaseException) -> NoReturn:
    raise AssertionError("nothing goes wrong here") from error


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """One call a turn is enough here."""
    monkeypatch.setattr(looks, "RATE_PROBE_S", 0.0)
    monkeypatch.setattr(looks, "LATENCY_PROBE_S", 0.0)


class Clock:
    """What the look reads the time from: it stands still but for the calls that a test makes,
    whatever holds the process up.
    """

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(looks, "time", SimpleNamespace(perf_counter=made.perf_counter))
    return made


def job(folder: Path, facts: Served | None = None, query_samples: int = 8, **more: Any) -> ProbeJob:
    """A look at the served fake; its truth lands in `folder/truth`."""
    (folder / "truth").mkdir(parents=True)
    return ProbeJob(
        system=served.system(folder / "sut", facts, **more),
        query_samples=query_samples,
        truth=folder / "truth",
    )


def batches(folder: Path) -> list[list[int]]:
    return served.batches(folder)


def test_a_look_leaves_the_truth_and_tells_the_size(tmp_path: Path):
    """The judge scores against that truth; the size is what an accuracy run has to cover."""
    seen = run_probe_job(job(tmp_path, Served(samples=70)), abort)
    assert seen.sample_count == 70 and (tmp_path / "truth" / "truth.txt").read_text() == "true"
    assert seen.built == {}, "this fake compiles no network"


def test_full_batches_single_samples_and_whole_queries_are_timed(tmp_path: Path):
    """What each scenario will send: Offline full batches, SingleStream one sample, MultiStream
    eight in parts; each once untimed, then in turns.
    """
    run_probe_job(job(tmp_path, max_batch=3), abort)
    sizes = [len(batch) for batch in batches(tmp_path)]
    assert sizes == [3, 1, 3, 3, 2] * (1 + PROBE_TURNS)


@pytest.mark.parametrize("slow", range(PROBE_TURNS))
def test_one_slow_look_is_not_believed(monkeypatch: pytest.MonkeyPatch, slow: int):
    """Others used the machine for a while: a run planned by that would have a seventeenth of the
    queries that it needs.
    """
    turns = [0.001] * PROBE_TURNS
    turns[slow] = 0.53
    monkeypatch.setattr(
        looks, "measure_seconds_per_call", lambda predictor, batch, at_least_s: turns.pop(0)
    )
    assert measure_median_seconds(lambda batch: [], [([0], 0.3)]) == [0.001]  # type: ignore[arg-type,list-item]


def test_turns_share_the_time_of_one_look(monkeypatch: pytest.MonkeyPatch):
    """Every `podium infer` begins with a look."""
    asked_s: list[float] = []
    monkeypatch.setattr(
        looks,
        "measure_seconds_per_call",
        lambda predictor, batch, at_least_s: asked_s.append(at_least_s) or 1.0,
    )
    measure_median_seconds(lambda batch: [], [([0], 0.3), ([0, 1], 0.6)])  # type: ignore[arg-type,list-item]
    assert len(asked_s) == 2 * PROBE_TURNS and sum(asked_s) == pytest.approx(0.9)


def test_a_batch_larger_than_what_is_held_repeats_samples(tmp_path: Path):
    """A data set of five pictures still fills a batch of eight."""
    run_probe_job(job(tmp_path, Served(samples=5, held=5), max_batch=8), abort)
    assert batches(tmp_path)[0] == [0, 1, 2, 3, 4, 0, 1, 2]


def test_no_more_is_loaded_than_may_be_held(tmp_path: Path):
    """The fake refuses to load more than its performance sample count, and to answer what is not
    loaded.
    """
    run_probe_job(job(tmp_path, Served(samples=500, held=6), query_samples=16), abort)
    assert {sample for batch in batches(tmp_path) for sample in batch} == set(range(6))


def test_the_rate_counts_every_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """They answer at the same time; a query and a sample are one worker's."""
    monkeypatch.setattr(
        looks, "measure_seconds_per_call", lambda predictor, batch, at_least_s: 0.5 * len(batch)
    )
    seen = run_probe_job(job(tmp_path, workers=3, max_batch=4), abort)
    assert seen.probe.samples_per_second == pytest.approx(3 * 4 / 2.0)
    assert (seen.probe.latency_ns, seen.probe.query_latency_ns) == (0.5e9, 4e9)


@pytest.mark.parametrize(
    ("samples", "max_batch", "parts"), [(8, 8, [8]), (8, 3, [3, 3, 2]), (8, 100, [8]), (1, 1, [1])]
)
def test_a_query_is_answered_in_as_many_batches_as_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: int, max_batch: int, parts: list[int]
):
    """As LoadGen's samples will be batched; the query lasts as long as its parts together."""
    monkeypatch.setattr(
        looks, "measure_seconds_per_call", lambda predictor, batch, at_least_s: 0.5 * len(batch)
    )
    seen = run_probe_job(job(tmp_path, query_samples=samples, max_batch=max_batch), abort)
    assert (
        seen.probe.query_latency_ns == 0.5e9 * samples
        and [len(batch) for batch in batches(tmp_path)][2:] == parts
    )


def test_the_first_call_does_not_count(clock: Clock):
    """It pays for what every later one finds ready."""
    pauses_s = [0.5, 0.125, 0.125, 0.125]

    def predictor(batch: Sequence[int]) -> Sequence[bytes]:
        clock.now_s += pauses_s.pop(0)
        return [b""] * len(batch)

    assert measure_median_seconds(predictor, [([0], 0.0)]) == [0.125] and not pauses_s  # type: ignore[arg-type]


def test_calls_are_timed_for_as_long_as_asked(clock: Clock):
    """One call of a fast network says little."""
    calls: list[int] = []

    def predictor(batch: Sequence[int]) -> Sequence[bytes]:
        calls.append(1)
        clock.now_s += 0.125
        return []

    assert measure_seconds_per_call(predictor, [0], 6.0) == 0.125 and len(calls) == 48


@pytest.mark.parametrize(
    ("scenario", "field", "wanted"),
    [
        (Scenario.SERVER, "rate", 0.5 * PROBE.samples_per_second),
        (Scenario.OFFLINE, "rate", OFFLINE_MARGIN * PROBE.samples_per_second),
        (
            Scenario.SINGLE_STREAM,
            "expected_latency_ns",
            int(EXPECTED_LATENCY_SHARE * PROBE.latency_ns),
        ),
        (
            Scenario.MULTI_STREAM,
            "expected_latency_ns",
            int(EXPECTED_LATENCY_SHARE * PROBE.query_latency_ns),
        ),
    ],
)
def test_the_schedule_takes_from_the_look_what_nobody_chose(
    scenario: Scenario, field: str, wanted: float
):
    """Half the rate for Server, a fifth more for Offline, a quarter of the latency in the
    streams.
    """
    assert getattr(served.schedule(scenario), field) == wanted
