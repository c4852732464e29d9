"""Query batching: a queue that LoadGen's thread only puts queries into, and worker threads that
take batches from it.

The path of one query: LoadGen's thread puts (response ids, sample indexes, time of issue) into a
SimpleQueue, which is C and
wakes one worker; that worker gathers what has arrived meanwhile into a batch, calls its predictor,
and completes in chunks.
The record of a run (`queries.npy`) costs one clock reading per query at its issue, and one per
chunk at its completion: the
times of issue are stored by the worker, a batch at a time, since storing them one by one costs
LoadGen's thread twice the clock.
"""

import ctypes
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from queue import Empty, SimpleQueue
from time import monotonic_ns
from typing import Any, Final, TypeAlias

from harness.children.process import Abort
from harness.serving.loadgen.fitting_batch import open_warm_predictor
from harness.serving.loadgen.query_times import WorkerCompletions
from suite.errors import JudgedError
from suite.units import NS_PER_S, NS_PER_US
from suite.workload import Inference, Predictor

COMPLETION_CHUNK_SIZE: Final = 256
"""Answers per completion: LoadGen processes one chunk while podium prepares the next."""

IssuedQuery: TypeAlias = tuple[list[int], list[int], int]
"""Response ids and sample indexes, in parallel lists, and when it was issued (monotonic ns)."""


GatheredQueries: TypeAlias = tuple[list[int], list[int], int, int]
"""The same of a batch, then its first query (0 for the first issued) and its number of queries.

That is 1, or one per sample: LoadGen issues a query of several samples only when the one before it
is fully answered.
"""
NumberedBatch: TypeAlias = tuple[list[int], list[int], int, int, int]
"""The gathered queries and the batch's number, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchingSettings:
    """How queries become batches."""

    workers: int
    max_batch: int
    window_us: int


@dataclass(slots=True)
class BatchTally:
    """Counts the batches answered."""

    batches: int = 0
    samples: int = 0
    generated: int = 0
    """Tokens, of answers that are generated token by token: the batches are a generator's steps."""
    slots: int = 0
    """Of a generator: prompts that it answers at the same time."""


class QueryGatherer:
    """Collects queries into batches; one worker gathers at a time, the others wait for their
    turn.
    """

    def __init__(
        self,
        batching: BatchingSettings,
        sort_key: Callable[[], Callable[[int], int] | None],
        *,
        keeps_times: bool = True,
    ) -> None:
        self.queue: SimpleQueue[IssuedQuery | None] = SimpleQueue()
        self.max_batch = batching.max_batch
        self.window_ns = batching.window_us * NS_PER_US
        self.sort_key = sort_key
        self.keeps_times = keeps_times
        self.turn = threading.Lock()
        self.ready: deque[GatheredQueries] = deque()
        self.taken = 0
        self.gathered = 0
        self.issued = array("q")
        """When each gathered query was issued (monotonic ns), in the order of issue."""
        self.issue = self.build_issue_callback()

    def build_issue_callback(self) -> Callable[[list[int], list[int]], None]:
        """Return the function that enqueues one query; LoadGen's thread calls it inside its clock,
        so it looks up no attributes.
        """
        put, clock = self.queue.put, monotonic_ns

        def enqueue_query(ids: list[int], indexes: list[int]) -> None:
            put((ids, indexes, clock()))

        return enqueue_query

    def close(self) -> None:
        """Let the workers end when all issued queries are answered."""
        self.queue.put(None)

    def take_batch(self) -> NumberedBatch | None:
        """Wait for a batch; None when there are no more."""
        with self.turn:
            batch = self.ready.popleft() if self.ready else self.wait_for_batch()
            if batch is None:
                return None
            self.taken += 1
            return *batch, self.taken - 1

    def wait_for_batch(self) -> GatheredQueries | None:
        """Wait for a query, and add those that share its batch; what exceeds a batch is kept for
        the next turns.
        """
        query = self.queue.get()
        if query is None:
            self.queue.put(None)  # for the next worker
            return None
        ids, indexes, queries = self.gather_queries(*query)
        first = self.gathered
        self.gathered += queries
        if len(ids) <= self.max_batch:
            return ids, indexes, first, queries
        self.ready.extend(self.split_large_query(ids, indexes, first))
        return self.ready.popleft()

    def gather_queries(
        self, ids: list[int], indexes: list[int], issued_ns: int
    ) -> tuple[list[int], list[int], int]:
        """Add queries until the batch is full or the window has passed; without a window, those
        already in the queue. Also return their number.
        """
        times, most, arrived = [issued_ns], self.max_batch, self.choose_queue_reader()
        while len(ids) < most:
            try:
                more = arrived()
            except Empty:
                break
            if more is None:
                self.queue.put(None)
                break
            ids += more[0]
            indexes += more[1]
            times.append(more[2])
        if self.keeps_times:
            self.issued.extend(times)
        return ids, indexes, len(times)

    def choose_queue_reader(self) -> Callable[[], IssuedQuery | None]:
        """Return what gives the next query: at once, or within the window from now; it raises Empty
        if there is none.
        """
        if not self.window_ns:
            return self.queue.get_nowait
        deadline = monotonic_ns() + self.window_ns
        return lambda: self.queue.get(timeout=max(0, deadline - monotonic_ns()) / NS_PER_S)

    def split_large_query(
        self, ids: list[int], indexes: list[int], first: int
    ) -> list[GatheredQueries]:
        """Split a large query into full batches of samples of similar length."""
        key = self.sort_key()
        if key is not None:
            order = sorted(range(len(ids)), key=lambda place: key(indexes[place]))
            ids, indexes = [ids[place] for place in order], [indexes[place] for place in order]
        starts = range(0, len(ids), self.max_batch)
        return [
            (ids[start : start + self.max_batch], indexes[start : start + self.max_batch], first, 1)
            for start in starts
        ]


class ResponseEnvelope:
    """One worker's responses, reused while answer sizes stay the same: creating one costs three
    times as much as readdressing it.
    """

    def __init__(self, response: Any) -> None:
        self.response, self.set_id = response, response.id.fset
        self.sizes: list[int] = []
        self.responses: list[Any] = []
        self.memory = ctypes.create_string_buffer(0)

    def fill_responses(self, ids: list[int], answers: Sequence[bytes]) -> list[Any]:
        """Return responses for these answers; valid until the next call."""
        sizes, count = list(map(len, answers)), len(ids)
        if sizes == self.sizes[:count]:
            deque(map(self.set_id, self.responses, ids), maxlen=0)
        else:
            self.sizes, self.memory = sizes, ctypes.create_string_buffer(sum(sizes))
            self.responses = list(
                map(
                    self.response,
                    ids,
                    accumulate(sizes, initial=ctypes.addressof(self.memory)),
                    sizes,
                )
            )
        content = b"".join(answers)
        ctypes.memmove(self.memory, content, len(content))
        return self.responses[:count]


class WorkerThreads:
    """Worker threads, each with its own predictor."""

    def __init__(
        self,
        lg: Any,
        inference: Inference,
        batching: BatchingSettings,
        gatherer: QueryGatherer,
        abort: Abort,
    ) -> None:
        self.respond, self.response = lg.QuerySamplesComplete, lg.QuerySampleResponse
        self.inference, self.batching, self.gatherer, self.abort = (
            inference,
            batching,
            gatherer,
            abort,
        )
        self.tallies = [BatchTally() for _ in range(batching.workers)]
        self.completions = [WorkerCompletions() for _ in range(batching.workers)]
        self.warm = threading.Barrier(batching.workers + 1)
        self.threads = [
            threading.Thread(target=self.run_worker, args=(number,), daemon=True)
            for number in range(batching.workers)
        ]

    @property
    def issue(self) -> Callable[[list[int], list[int]], None]:
        """The function that enqueues one query."""
        return self.gatherer.issue

    @property
    def issued(self) -> "array[int]":
        """When each query was issued (monotonic ns), in the order of issue."""
        return self.gatherer.issued

    @property
    def token_rows(self) -> None:
        """Answers of batches are not measured token by token."""

    @property
    def starts(self) -> None:
        """Nor when their prompts began."""

    def start(self) -> None:
        """Start the threads and wait until all are warmed up, before LoadGen's clock starts."""
        for thread in self.threads:
            thread.start()
        self.warm.wait()

    def stop(self) -> None:
        """End the threads."""
        self.gatherer.close()
        for thread in self.threads:
            thread.join()

    def run_worker(self, number: int) -> None:
        """Run one worker; any exception ends the process."""
        try:
            predictor = open_warm_predictor(self.inference, number, self.batching.max_batch)
            self.warm.wait()
            envelope = ResponseEnvelope(self.response)
            while (batch := self.gatherer.take_batch()) is not None:
                self.process_batch(
                    predictor, batch, envelope, self.tallies[number], self.completions[number]
                )
        except BaseException as error:
            self.abort(error)

    def process_batch(
        self,
        predictor: Predictor,
        batch: NumberedBatch,
        envelope: ResponseEnvelope,
        tally: BatchTally,
        completions: WorkerCompletions,
    ) -> None:
        """Answer one batch; the envelope owns the answers' memory, which LoadGen has copied when
        `respond` returns.
        """
        ids, indexes, first, queries, number = batch
        answers = predictor(indexes)
        if len(answers) != len(ids):
            raise JudgedError(
                f"the system under test gave {len(answers)} answers to {len(ids)} samples"
            )
        for start in range(0, len(ids), COMPLETION_CHUNK_SIZE):
            responses = envelope.fill_responses(
                ids[start : start + COMPLETION_CHUNK_SIZE],
                answers[start : start + COMPLETION_CHUNK_SIZE],
            )
            done = monotonic_ns()  # LoadGen reads its own clock as soon as it is called
            self.respond(responses)
            completions.add_completion(
                done,
                number,
                *((first, 1) if queries == 1 else (first + start, len(responses))),
                len(responses),
            )
        tally.batches += 1
        tally.samples += len(ids)
