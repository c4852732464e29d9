"""How queries become batches, and answers become responses."""

import ctypes
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.serving.loadgen.batching import (
    BatchingSettings,
    NumberedBatch,
    QueryGatherer,
    ResponseEnvelope,
    WorkerThreads,
)
from harness.serving.loadgen.test_settings import import_loadgen
from suite.errors import JudgedError


def gatherer(max_batch: int = 4, window_us: int = 0, key: Any = None) -> QueryGatherer:
    return QueryGatherer(
        BatchingSettings(workers=1, max_batch=max_batch, window_us=window_us), lambda: key
    )


def drain(source: QueryGatherer) -> list[tuple[list[int], list[int]]]:
    """Close it, and give ids and indexes of the batches; they are numbered as they are taken."""
    source.close()
    batches = list(iter(source.take_batch, None))
    assert [number for *_, number in batches] == list(range(len(batches)))
    return [(ids, indexes) for ids, indexes, *_ in batches]


def contents(batch: NumberedBatch | None) -> tuple[list[int], list[int]] | None:
    return batch and batch[:2]


def issue(target: QueryGatherer, *sizes: int) -> list[int]:
    """Issue queries of these sizes with running numbers; ids are the numbers plus 1000."""
    number = 0
    for size in sizes:
        indexes = list(range(number, number + size))
        target.issue([1000 + index for index in indexes], indexes)
        number += size
    return list(range(number))


def test_what_has_come_meanwhile_becomes_one_batch():
    """With no window a worker takes what is there, and waits for nothing."""
    found = gatherer(max_batch=8)
    issue(found, 1, 1, 1)
    assert drain(found) == [([1000, 1001, 1002], [0, 1, 2])]


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 7))
def test_every_sample_is_in_one_batch_with_its_own_id(sizes: list[int], max_batch: int):
    """A sample lost or answered twice ends the run or falsifies it; a batch above the maximum was
    never warmed up.
    """
    found = gatherer(max_batch=max_batch)
    expected = issue(found, *sizes)
    batches = drain(found)
    assert sorted(index for _, indexes in batches for index in indexes) == expected
    assert all(
        0 < len(ids) == len(indexes) <= max_batch and ids == [1000 + index for index in indexes]
        for ids, indexes in batches
    )


def test_a_large_query_is_cut_into_full_batches():
    """Offline's one query: only the last batch may be smaller."""
    found = gatherer(max_batch=4)
    issue(found, 11)
    assert [len(ids) for ids, _ in drain(found)] == [4, 4, 3]


def test_samples_of_like_length_share_a_batch():
    """A long sentence among short ones makes all of them as slow as itself."""
    found = gatherer(max_batch=4, key=lambda index: index % 3)
    issue(found, 12)
    batches = drain(found)
    assert [[index % 3 for index in indexes] for _, indexes in batches] == [
        [0] * 4,
        [1] * 4,
        [2] * 4,
    ]
    assert all(ids == [1000 + index for index in indexes] for ids, indexes in batches)


def test_the_window_waits_for_a_full_batch_and_no_longer():
    """A window of a minute must not hold a batch that is full already."""
    found = gatherer(max_batch=2, window_us=60_000_000)
    threading.Timer(0.05, issue, (found, 1, 1)).start()
    start = time.monotonic()
    assert contents(found.take_batch()) == ([1000, 1001], [0, 1]) and time.monotonic() - start < 30


def test_the_window_ends():
    """One query alone is answered when the window is over."""
    found = gatherer(max_batch=2, window_us=50_000)
    issue(found, 1)
    start = time.monotonic()
    assert contents(found.take_batch()) == ([1000], [0]) and 0.04 < time.monotonic() - start < 30


def test_closing_ends_every_worker_and_no_window_holds_it():
    """A worker that waits for more would keep the process alive."""
    found = gatherer(max_batch=8, window_us=60_000_000)
    issue(found, 1)
    found.close()
    start = time.monotonic()
    assert contents(found.take_batch()) == ([1000], [0])
    assert (
        found.take_batch() is None and found.take_batch() is None and time.monotonic() - start < 30
    )


@dataclass
class Response:
    """As LoadGen's: three plain fields."""

    id: int
    data: int
    size: int


def read(response: Any) -> tuple[int, bytes]:
    return response.id, ctypes.string_at(response.data, response.size)


@given(st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=6), max_size=8))
def test_responses_point_at_their_answers(batches: list[list[bytes]]):
    """Responses are used again: a stale id, address or size would give one sample another's
    answer.
    """
    envelope = ResponseEnvelope(import_loadgen().QuerySampleResponse)
    for number, answers in enumerate(batches):
        ids = [100 * number + place for place in range(len(answers))]
        assert [read(response) for response in envelope.fill_responses(ids, answers)] == list(
            zip(ids, answers, strict=True)
        )


def test_answers_of_one_size_use_the_same_responses():
    """Making them anew costs three times as much; that is what carries the harness ceiling."""
    envelope = ResponseEnvelope(import_loadgen().QuerySampleResponse)
    first = envelope.fill_responses([1, 2, 3], [b"aaaa"] * 3)
    assert all(
        a is b for a, b in zip(first, envelope.fill_responses([7, 8], [b"bbbb"] * 2), strict=False)
    )


class Abort:
    """Notes why, instead of ending the test."""

    def __init__(self) -> None:
        self.causes: list[BaseException] = []

    def __call__(self, error: BaseException) -> Any:
        self.causes.append(error)


class Echo:
    """A predictor that answers with the sample's number, or one answer too few."""

    def __init__(self, missing: int = 0) -> None:
        self.missing = missing

    def warm_up(self) -> None:
        """Need nothing."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        return [b"%d" % sample for sample in samples][self.missing :]


def crew(
    missing: int, workers: int = 2
) -> tuple[WorkerThreads, QueryGatherer, list[tuple[int, bytes]], Abort]:
    found, source, abort = [], gatherer(max_batch=3), Abort()
    lg = SimpleNamespace(
        QuerySamplesComplete=lambda responses: found.extend(map(read, responses)),
        QuerySampleResponse=import_loadgen().QuerySampleResponse,
    )
    inference: Any = SimpleNamespace(open=lambda number, max_batch: Echo(missing))
    return (
        WorkerThreads(
            lg,
            inference,
            BatchingSettings(workers=workers, max_batch=3, window_us=0),
            source,
            abort,
        ),
        source,
        found,
        abort,
    )


def test_workers_answer_everything_and_count_it():
    """The tally lands in run.json."""
    workers, source, found, abort = crew(missing=0)
    workers.start()
    expected = issue(source, *[1] * 20, 7)
    workers.stop()
    assert (
        sorted(found) == sorted((1000 + index, b"%d" % index) for index in expected)
        and not abort.causes
    )
    assert (
        sum(tally.samples for tally in workers.tallies) == 27
        and sum(tally.batches for tally in workers.tallies) >= 9
    )


def test_a_wrong_number_of_answers_is_a_cause_to_end():
    """zip would quietly leave a query open, and LoadGen would wait for it."""
    workers, source, found, abort = crew(missing=1, workers=1)
    workers.start()
    issue(source, 3)
    workers.threads[0].join(60)
    assert [str(cause) for cause in abort.causes] == [
        "the system under test gave 2 answers to 3 samples"
    ] and not found
    assert isinstance(abort.causes[0], JudgedError)


@pytest.mark.parametrize("window_us", [0, 1000])
def test_two_workers_share_a_queue(window_us: int):
    """One gathers at a time; a deadlock here would hang a run at its end."""
    found = QueryGatherer(
        BatchingSettings(workers=2, max_batch=2, window_us=window_us), lambda: None
    )
    taken: list[NumberedBatch] = []
    threads = [
        threading.Thread(target=lambda: taken.extend(iter(found.take_batch, None)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    expected = issue(found, *[1] * 50)
    found.close()
    for thread in threads:
        thread.join(60)
    assert sorted(index for _, indexes, *_ in taken for index in indexes) == expected


def test_times_of_issue_are_kept_in_order_and_only_where_they_are_recorded():
    """`queries.npy` finds a query's time by its number; a server that runs for months kept the
    times of all its queries.
    """
    recorded = gatherer(max_batch=2)
    before = time.monotonic_ns()
    issue(recorded, 1, 1, 1, 3)
    drain(recorded)
    times = [before, *recorded.issued, time.monotonic_ns()]
    assert len(recorded.issued) == 4 and times == sorted(times)
    serving = QueryGatherer(
        BatchingSettings(workers=1, max_batch=2, window_us=0), lambda: None, keeps_times=False
    )
    issue(serving, 1, 1, 1)
    assert len(drain(serving)) == 2 and not serving.issued
