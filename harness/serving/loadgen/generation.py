"""Answers that are generated token by token: one thread admits queries to free slots of a generator
and hands LoadGen each first token and each finished answer (continuous batching).

The path of one query: LoadGen's thread puts (response ids, sample indexes, time of issue) into a
queue; between two steps of the generator the thread admits what waits, as far as slots are free.
Offline's one query is admitted from its longest prompt to its shortest, so that prompts of similar
length are read together.
"""

import ctypes
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import monotonic_ns
from typing import Any

from harness.children.process import Abort
from harness.serving.loadgen.batching import BatchTally, IssuedQuery
from harness.serving.loadgen.query_times import WorkerCompletions
from suite.errors import JudgedError
from suite.loadgen.logprob_record import MAX_KEPT_SAMPLES, SaidAnswer
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.token_record import TOKEN_BYTES, TOKEN_RECORD_FIELDS
from suite.workload import GeneratingInference, LikelihoodGenerator, TokenGenerator


@dataclass(frozen=True, slots=True)
class WaitingSample:
    """A sample of an issued query that has no slot yet."""

    response_id: int
    sample: int
    query: int
    """Number of its query, from 0, in the order of issue."""


@dataclass(slots=True)
class LiveAnswer:
    """An answer in a slot."""

    waiting: WaitingSample
    start_ns: int
    tokens: "array[int]" = field(default_factory=lambda: array("i"))
    log_probabilities: "array[float]" = field(default_factory=lambda: array("f"))
    first_ns: int = 0


class GenerationThread:
    """Answers LoadGen's queries with one generator."""

    def __init__(
        self,
        lg: Any,
        inference: GeneratingInference,
        sort_key: Callable[[], Callable[[int], int] | None],
        abort: Abort,
        *,
        keeps_likelihoods: bool = False,
    ) -> None:
        self.kept_answers: dict[int, SaidAnswer] | None = {} if keeps_likelihoods else None
        """Log-probabilities of the tokens of each answer, by sample; None: they are not kept."""
        self.first_token_complete, self.complete = lg.FirstTokenComplete, lg.QuerySamplesComplete
        self.response = lg.QuerySampleResponse
        self.inference, self.sort_key, self.abort = inference, sort_key, abort
        self.queue: SimpleQueue[IssuedQuery | None] = SimpleQueue()
        self.issued = array("q")
        """When each query was issued (monotonic ns), in the order of issue."""
        self.waiting: deque[WaitingSample] = deque()
        self.live: dict[int, LiveAnswer] = {}
        self.ending = False
        self.tallies = [BatchTally()]
        self.completions = [WorkerCompletions()]
        self.token_rows = array("q")
        """TOKEN_RECORD_FIELDS of each answer, in the order of completion."""
        self.starts = array("q")
        """When each answer's prompt got its slot, in the same order."""
        self.warm = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def issue(self, ids: list[int], indexes: list[int]) -> None:
        """Enqueue one query; LoadGen's thread calls it inside its clock."""
        self.queue.put((ids, indexes, monotonic_ns()))

    def start(self) -> None:
        """Start the thread, and wait until its generator is warmed up."""
        self.thread.start()
        self.warm.wait()

    def stop(self) -> None:
        """End the thread when all issued queries are answered."""
        self.queue.put(None)
        self.thread.join()

    def run(self) -> None:
        """Answer queries until there are no more; any exception ends the process."""
        try:
            generator = self.inference.open_generator()
            generator.warm_up()
            self.tallies[0].slots = generator.slots
            free = list(range(generator.slots))
            self.warm.set()
            while self.take_queries() or self.live or self.waiting:
                self.admit_waiting(generator, free)
                self.hand_over_step(generator, free)
        except BaseException as error:
            self.abort(error)

    def take_queries(self) -> bool:
        """Take the queries that have been issued; wait for one if there is nothing else to do.
        Return False when there are no more.
        """
        idle = not self.live and not self.waiting
        while not self.ending:
            try:
                query = self.queue.get(block=idle)
            except Empty:
                break
            if query is None:
                self.ending = True
                break
            self.add_query(*query)
            idle = False
        return not self.ending

    def add_query(self, ids: list[int], indexes: list[int], issued_ns: int) -> None:
        """Let a query's samples wait for slots: the longest first, if it has several."""
        number, key = len(self.issued), self.sort_key()
        self.issued.append(issued_ns)
        samples = [
            WaitingSample(response_id, sample, number)
            for response_id, sample in zip(ids, indexes, strict=True)
        ]
        if len(samples) > 1 and key is not None:
            samples.sort(key=lambda each: -key(each.sample))
        self.waiting.extend(samples)

    def admit_waiting(self, generator: TokenGenerator, free: list[int]) -> None:
        """Give free slots to what waits."""
        while free and self.waiting:
            slot, waiting = free.pop(), self.waiting.popleft()
            answer = LiveAnswer(waiting, monotonic_ns())
            generator.admit(slot, self.inference.prompt(waiting.sample))
            self.live[slot] = answer

    def _keep_log_probabilities(
        self, generator: LikelihoodGenerator, generated: Sequence[int]
    ) -> None:
        kept = {
            slot: answer.log_probabilities
            for slot, answer in self.live.items()
            if answer.waiting.sample < MAX_KEPT_SAMPLES
        }
        if not kept:
            return
        for slot, value in zip(generated, generator.compute_log_probabilities(), strict=True):
            if slot in kept:
                kept[slot].append(value)

    def hand_over_step(self, generator: TokenGenerator, free: list[int]) -> None:
        """Generate one token for each live slot; hand over first tokens, then whole answers."""
        if not self.live:
            return
        begun, ended = list[LiveAnswer](), list[LiveAnswer]()
        generated = generator.step()
        self.tallies[0].generated += len(generated)
        if self.kept_answers is not None and isinstance(generator, LikelihoodGenerator):
            self._keep_log_probabilities(generator, [slot for slot, _, _ in generated])
        for slot, token, last in generated:
            answer = self.live.get(slot)
            if answer is None:
                raise JudgedError(f"the generator gave a token to slot {slot}, which is free")
            answer.tokens.append(token)
            if len(answer.tokens) == 1:
                begun.append(answer)
            if last:
                ended.append(answer)
                generator.release(slot)
                del self.live[slot]
                free.append(slot)
        if begun:
            self.hand_over_first_tokens(begun)
        if ended:
            self.hand_over_answers(ended)
        self.tallies[0].batches += 1

    def hand_over_first_tokens(self, answers: Sequence[LiveAnswer]) -> None:
        """Tell LoadGen the first token of each answer."""
        content = b"".join(each.tokens[:1].tobytes() for each in answers)
        memory = ctypes.create_string_buffer(content, len(content))
        address = ctypes.addressof(memory)
        responses = [
            self.response(each.waiting.response_id, address + place * TOKEN_BYTES, TOKEN_BYTES)
            for place, each in enumerate(answers)
        ]
        now = monotonic_ns()
        self.first_token_complete(responses)
        for each in answers:
            each.first_ns = now

    def hand_over_answers(self, answers: Sequence[LiveAnswer]) -> None:
        """Tell LoadGen whole answers, with their numbers of tokens."""
        parts = [each.tokens.tobytes() for each in answers]
        content = b"".join(parts)
        memory = ctypes.create_string_buffer(content, len(content))
        address, responses = ctypes.addressof(memory), []
        for each, part in zip(answers, parts, strict=True):
            responses.append(
                self.response(each.waiting.response_id, address, len(part), len(each.tokens))
            )
            address += len(part)
        now = monotonic_ns()  # LoadGen reads its own clock as soon as it is called
        self.complete(responses)
        for each in answers:
            if self.kept_answers is not None and each.log_probabilities:
                said = SaidAnswer(values=each.log_probabilities)
                self.kept_answers[each.waiting.sample] = said
            self.completions[0].add_completion(
                now, self.tallies[0].batches, each.waiting.query, 1, 1
            )
            if len(self.token_rows) < len(TOKEN_RECORD_FIELDS) * MAX_QUERY_RECORD_ROWS:
                self.token_rows.extend((each.waiting.sample, each.first_ns, now, len(each.tokens)))
                self.starts.append(each.start_ns)
        self.tallies[0].samples += len(answers)
