"""Answers prompts of a network's clients token by token: one thread, which gives waiting prompts
the free slots of a generator between two of its steps (continuous batching).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeAlias

from harness.serving.network.failure_lines import FailureLines
from suite.errors import JudgedError, RequestError
from suite.workload import LikelihoodGenerator, PromptGenerator, TokenGenerator

NO_TOKEN: Final = -1
"""Stands in place of a token in the last event of a call that failed."""


class FinishReason(StrEnum):
    """Why an answer ended, as the API names it."""

    STOP = "stop"
    """Its last token ends answers."""
    LENGTH = "length"
    """It has as many tokens as were asked for, or as the generator has room for."""


@dataclass(slots=True, eq=False)
class TokenCall:
    """One prompt that waits for its answer, or is being answered."""

    prompt: Sequence[int]
    max_tokens: int
    caller: Any
    """Whom the tokens are for; the service only passes it on."""
    ignores_ends: bool = False
    """A token that ends answers is one like others."""
    wants_log_probabilities: bool = False
    """Each token is to come with the logarithm of its probability."""
    count: int = 0
    """Tokens of the answer so far."""
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """A new token of a call; or why there is none."""

    call: TokenCall
    token: int
    finish: FinishReason | None
    """None: more tokens follow."""
    problem: Exception | None = None
    """RequestError: the prompt was refused. Another: the generator failed on it."""
    log_probability: float | None = None
    """Natural logarithm; None unless the call wants it."""

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.finish is not None or self.problem is not None


TokenReceiver: TypeAlias = Callable[[Sequence[TokenEvent]], None]
"""Gets all tokens of a step at once, on the service's thread."""


class TokenService:
    """A thread with a generator.

    Args:
        open_generator: called on the thread.
        ends: tokens that end an answer.
    """

    def __init__(self, open_generator: Callable[[], TokenGenerator], ends: Iterable[int]) -> None:
        self.open_generator, self.ends = open_generator, frozenset(ends)
        self.deliver: TokenReceiver = discard_events
        self.arrivals: SimpleQueue[TokenCall | None] = SimpleQueue()
        self.waiting: deque[TokenCall] = deque()
        self.live: dict[int, TokenCall] = {}
        self.free: list[int] = []
        self.has_cancelled = self.is_ending = False
        self.answered = 0
        self.failures = FailureLines()
        self.failure: Exception | None = None
        """Why the thread ended, if it was not told to."""
        self.warm, self.ended = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run_thread, daemon=True)
        self.generator: PromptGenerator | None = None

    def start_service(self) -> PromptGenerator:
        """Open and warm up the generator, and start answering; return the generator, whose limits
        may be read. RequestError where it cannot answer anybody's prompts.
        """
        self.thread.start()
        self.warm.wait()
        if self.failure is not None:
            raise self.failure
        assert self.generator is not None  # the thread has set it, or failed
        return self.generator

    def submit_prompt(self, call: TokenCall) -> None:
        """Queue a prompt."""
        self.arrivals.put(call)

    def cancel_call(self, call: TokenCall) -> None:
        """Free a call's slot before the next step; nothing more of it is delivered, but for what
        the thread has generated already.
        """
        call.is_cancelled = True
        self.has_cancelled = True  # behind the call's own: the thread clears it, then looks

    def stop_service(self) -> None:
        """Answer what is queued, then end the thread."""
        self.arrivals.put(None)
        self.thread.join()

    def run_thread(self) -> None:
        """Run the thread until it is stopped."""
        try:
            self.generator = generator = require_prompt_generator(self.open_generator())
            generator.warm_up()
            self.free = list(range(generator.slots))
            self.warm.set()
            while self.take_arrivals() or self.live or self.waiting:
                if self.has_cancelled:
                    self.release_cancelled(generator)
                self.deliver([*self.admit_waiting(generator), *self.run_step(generator)])
        except Exception as error:
            self.failure = error
        self.warm.set()
        self.ended.set()

    def take_arrivals(self) -> bool:
        """Take the prompts that have arrived; wait for one if there is nothing else to do. Return
        False when there are no more.
        """
        is_idle = not self.live and not self.waiting
        while not self.is_ending:
            try:
                call = self.arrivals.get(block=is_idle)
            except Empty:
                break
            if call is None:
                self.is_ending = True
                break
            if not call.is_cancelled:  # one cancelled later is among the waiting ones by then
                self.waiting.append(call)
                is_idle = False
        return not self.is_ending

    def release_cancelled(self, generator: TokenGenerator) -> None:
        """Forget the calls that were cancelled."""
        self.has_cancelled = False
        self.waiting = deque(call for call in self.waiting if not call.is_cancelled)
        for slot in [slot for slot, call in self.live.items() if call.is_cancelled]:
            self.release_slot(generator, slot)

    def release_slot(self, generator: TokenGenerator, slot: int) -> None:
        """Free a slot."""
        generator.release(slot)
        del self.live[slot]
        self.free.append(slot)

    def admit_waiting(self, generator: PromptGenerator) -> list[TokenEvent]:
        """Give free slots to what waits; return who was refused."""
        refused = []
        while self.free and self.waiting:
            slot, call = self.free.pop(), self.waiting.popleft()
            try:
                generator.admit(slot, call.prompt, call.max_tokens, ignores_ends=call.ignores_ends)
            except Exception as error:
                self.free.append(slot)
                refused.append(TokenEvent(call, NO_TOKEN, None, error))
            else:
                self.live[slot] = call
        return refused

    def run_step(self, generator: TokenGenerator) -> list[TokenEvent]:
        """Generate one token for each live slot; a failure is reported to all live calls, and the
        service continues.
        """
        if not self.live:
            return []
        try:
            generated = generator.step()
        except Exception as error:
            return self.drop_live_calls(generator, error)
        values: Sequence[float | None] = [None] * len(generated)
        if any(call.wants_log_probabilities for call in self.live.values()):
            values = require_likelihoods(generator).compute_log_probabilities()
        return [
            self.add_token(generator, *each, value)
            for each, value in zip(generated, values, strict=True)
        ]

    def add_token(
        self,
        generator: TokenGenerator,
        slot: int,
        token: int,
        is_end: bool,
        log_probability: float | None,
    ) -> TokenEvent:
        """Count a token; the slot is free again if it was the last."""
        call = self.live.get(slot)
        if call is None:
            raise JudgedError(f"the generator gave a token to slot {slot}, which is free")
        call.count += 1
        finish = None
        if is_end or call.count == call.max_tokens:
            is_stopped = token in self.ends and not call.ignores_ends
            finish = FinishReason.STOP if is_stopped else FinishReason.LENGTH
            self.release_slot(generator, slot)
            self.answered += 1
        return TokenEvent(call, token, finish, log_probability=log_probability)

    def drop_live_calls(self, generator: TokenGenerator, error: Exception) -> list[TokenEvent]:
        """Free all slots after a failed step."""
        calls = list(self.live.values())
        self.failures.print_failure(f"a step with {len(calls)} answers", error)
        for slot in list(self.live):
            self.release_slot(generator, slot)
        return [TokenEvent(call, NO_TOKEN, None, error) for call in calls]


def discard_events(_: Sequence[TokenEvent]) -> None:
    """Drop tokens that nobody receives."""


def require_likelihoods(generator: TokenGenerator) -> LikelihoodGenerator:
    """Return a generator that tells how likely its tokens are; RequestError for another, whose
    calls the server refuses before they wait.
    """
    if isinstance(generator, LikelihoodGenerator):
        return generator
    raise RequestError(f"{type(generator).__name__} does not tell how likely its tokens are")


def require_prompt_generator(generator: TokenGenerator) -> PromptGenerator:
    """Return a generator that tells its limits; RequestError for another."""
    if isinstance(generator, PromptGenerator):
        return generator
    raise RequestError(
        f"{type(generator).__name__} does not tell its limits (suite.workload.PromptGenerator): it"
        " cannot be served by --api openai"
    )
