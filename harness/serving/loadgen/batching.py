"""Query batching: a queue that LoadGen only puts queries into, and worker threads that take batches from it.

The way of one query: LoadGen's thread puts (response ids, sample indexes) into a SimpleQueue, which is C and wakes
one worker; that worker gathers what has come meanwhile into a batch, asks its predictor, and completes in chunks.
Two clock readings a query, at its issue and at its completion, are all that the record of a run (`queries.npy`) costs inside LoadGen's clock.
"""

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from queue import Empty, SimpleQueue
from time import monotonic_ns
from typing import Any, Final, TypeAlias

from harness.child_process import Abort
from harness.serving.loadgen.query_times import Completions
from suite.errors import JudgedError
from suite.workload import Inference, Predictor

CHUNK: Final = 256
"""Answers per completion: LoadGen's own work on one chunk overlaps with ours on the next."""
NS_PER_US: Final = 1000

Query: TypeAlias = tuple[list[int], list[int], list[int]]
"""Response ids and sample indexes, side by side; then when each query of them was issued (monotonic ns).

One stamp to a sample where queries have one sample. A query of several has one stamp: LoadGen issues the next of them when all is answered.
"""
Batch: TypeAlias = tuple[list[int], list[int], list[int], int]
"""A query or some that were gathered, and the batch's number, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How queries become batches."""

    workers: int
    max_batch: int
    window_us: int


@dataclass(slots=True)
class Tally:
    """Batches that were answered."""

    batches: int = 0
    samples: int = 0


class Gatherer:
    """Makes batches of queries; one worker gathers at a time, the others wait for their turn."""

    def __init__(self, batching: Batching, sort_key: Callable[[], Callable[[int], int] | None]) -> None:
        self.queue: SimpleQueue[Query | None] = SimpleQueue()
        self.max_batch = batching.max_batch
        self.window_ns = batching.window_us * NS_PER_US
        self.sort_key = sort_key
        self.turn = threading.Lock()
        self.ready: deque[Query] = deque()
        self.taken = 0

    def issue(self, ids: list[int], indexes: list[int]) -> None:
        """Take one query; called on LoadGen's thread, inside its clock."""
        self.queue.put((ids, indexes, [monotonic_ns()]))

    def close(self) -> None:
        """Let the workers end when what was issued is answered."""
        self.queue.put(None)

    def take(self) -> Batch | None:
        """Wait for a batch; None when there are no more."""
        with self.turn:
            query = self.ready.popleft() if self.ready else self.wait()
            if query is None:
                return None
            self.taken += 1
            return *query, self.taken - 1

    def wait(self) -> Query | None:
        """Wait for a query, and add those that share its batch; what is beyond a batch is ready for the next turns."""
        query = self.queue.get()
        if query is None:
            self.queue.put(None)  # for the next worker
            return None
        if len(query[0]) < self.max_batch:
            query = self.gather(query)
        if len(query[0]) > self.max_batch:
            self.ready.extend(self.split(query))
            return self.ready.popleft()
        return query

    def gather(self, query: Query) -> Query:
        """Add queries until the batch is full or the window is over; with no window, what is there already."""
        ids, indexes, issued = query
        deadline = time.monotonic_ns() + self.window_ns if self.window_ns else 0
        while len(ids) < self.max_batch:
            try:
                more = self.queue.get_nowait() if not deadline else self.queue.get(timeout=max(0, deadline - time.monotonic_ns()) / 1e9)
            except Empty:
                break
            if more is None:
                self.queue.put(None)
                break
            ids += more[0]
            indexes += more[1]
            issued += more[2]
        return ids, indexes, issued

    def split(self, query: Query) -> list[Query]:
        """Cut a large query into full batches of samples of like length."""
        ids, indexes, issued = query
        key = self.sort_key()
        if key is not None:
            order = sorted(range(len(ids)), key=lambda place: key(indexes[place]))
            ids, indexes = [ids[place] for place in order], [indexes[place] for place in order]
        starts = range(0, len(ids), self.max_batch)
        return [(ids[start : start + self.max_batch], indexes[start : start + self.max_batch], issued) for start in starts]


class Envelope:
    """One worker's responses, made once and used again while answers keep their sizes: making one costs three times as much as readdressing it."""

    def __init__(self, response: Any) -> None:
        self.response, self.set_id = response, response.id.fset
        self.sizes: list[int] = []
        self.responses: list[Any] = []
        self.memory = ctypes.create_string_buffer(0)

    def fill(self, ids: list[int], answers: Sequence[bytes]) -> list[Any]:
        """Give responses for these answers; good until the next call."""
        sizes, count = list(map(len, answers)), len(ids)
        if sizes == self.sizes[:count]:
            deque(map(self.set_id, self.responses, ids), maxlen=0)
        else:
            self.sizes, self.memory = sizes, ctypes.create_string_buffer(sum(sizes))
            self.responses = list(map(self.response, ids, accumulate(sizes, initial=ctypes.addressof(self.memory)), sizes))
        content = b"".join(answers)
        ctypes.memmove(self.memory, content, len(content))
        return self.responses[:count]


class Workers:
    """Worker threads, each with a predictor of its own."""

    def __init__(self, lg: Any, inference: Inference, batching: Batching, gatherer: Gatherer, abort: Abort) -> None:
        self.respond, self.response = lg.QuerySamplesComplete, lg.QuerySampleResponse
        self.inference, self.batching, self.gatherer, self.abort = inference, batching, gatherer, abort
        self.tallies = [Tally() for _ in range(batching.workers)]
        self.completions = [Completions() for _ in range(batching.workers)]
        self.warm = threading.Barrier(batching.workers + 1)
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True) for number in range(batching.workers)]

    def start(self) -> None:
        """Start the threads and wait until all are warm: nothing of that is inside LoadGen's clock."""
        for thread in self.threads:
            thread.start()
        self.warm.wait()

    def stop(self) -> None:
        """End the threads."""
        self.gatherer.close()
        for thread in self.threads:
            thread.join()

    def work(self, number: int) -> None:
        """Live one worker's life; any exception ends the process."""
        try:
            predictor = self.inference.open(number, self.batching.max_batch)
            predictor.warm_up()
            self.warm.wait()
            envelope = Envelope(self.response)
            while (batch := self.gatherer.take()) is not None:
                self.answer(predictor, batch, envelope, self.tallies[number], self.completions[number])
        except BaseException as error:
            self.abort(error)

    def answer(self, predictor: Predictor, batch: Batch, envelope: Envelope, tally: Tally, completions: Completions) -> None:
        """Answer one batch; the answers' memory is the envelope's, and LoadGen has copied it when `respond` returns."""
        ids, indexes, issued, number = batch
        answers = predictor(indexes)
        if len(answers) != len(ids):
            raise JudgedError(f"the system under test gave {len(answers)} answers to {len(ids)} samples")
        for start in range(0, len(ids), CHUNK):
            responses = envelope.fill(ids[start : start + CHUNK], answers[start : start + CHUNK])
            done = monotonic_ns()  # LoadGen takes its own time as soon as it is called
            self.respond(responses)
            completions.add(done, number, issued if len(issued) == 1 else issued[start : start + CHUNK], len(responses))
        tally.batches += 1
        tally.samples += len(ids)
