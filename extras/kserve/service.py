"""Answers payloads on the server's side: queue, batches and worker threads, whatever protocol
brings the payloads.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol, TypeAlias

from harness.serving.loadgen.batching import BatchingSettings, QueryGatherer
from harness.serving.network.failure_lines import FailureLines, describe_call_failure
from suite.errors import RequestError
from suite.workload import Inference, PayloadPredictor

FinishCallback: TypeAlias = "Callable[[Sequence[FinishedCall]], None]"


@dataclass(slots=True)
class PendingCall:
    """One payload that waits for its answer."""

    payload: bytes
    finish: FinishCallback
    """Gets all finished calls of a batch at once, on the worker's thread."""
    caller: object
    is_cancelled: bool = False
    """Nobody waits for the answer any more."""


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call and its answer; or why there is none."""

    caller: object
    answer: bytes
    problem: str = ""


class ServicePredictor(PayloadPredictor, Protocol):
    """A predictor of a server's worker."""

    def warm_up(self) -> None:
        """Run before any load."""


class PayloadService:
    """Workers that answer payloads in batches, as `podium infer` batches samples."""

    def __init__(self, inference: Inference, batching: BatchingSettings) -> None:
        self.inference, self.batching = inference, batching
        self.gatherer = QueryGatherer(
            batching, lambda: None, keeps_times=False
        )  # each query is one payload: none is split; a server may run for months
        self.waiting: dict[int, PendingCall] = {}
        self.tickets = count()
        self.answered = 0
        self.failures = FailureLines()
        self.threads: list[threading.Thread] = []

    def start(self) -> None:
        """Open and warm up all predictors, then start; RequestError where the workload cannot
        answer payloads.
        """
        predictors = [self.open_predictor(number) for number in range(self.batching.workers)]
        self.threads = [
            threading.Thread(target=self.run_worker, args=(predictor,), daemon=True)
            for predictor in predictors
        ]
        for thread in self.threads:
            thread.start()

    def open_predictor(self, number: int) -> ServicePredictor:
        """Open and warm up one worker's predictor."""
        predictor = self.inference.open(number, self.batching.max_batch)
        if not isinstance(predictor, PayloadPredictor):
            raise RequestError(
                f"{type(predictor).__name__} has no method `answer`: it cannot be served over a"
                " network (podium help your-workload)"
            )
        predictor.warm_up()
        return predictor

    def submit_call(self, call: PendingCall) -> None:
        """Queue a payload."""
        ticket = next(self.tickets)
        self.waiting[ticket] = call
        self.gatherer.issue([ticket], [ticket])

    def stop(self) -> None:
        """Answer what is queued, then end the workers."""
        self.gatherer.close()
        for thread in self.threads:
            thread.join()

    def run_worker(self, predictor: ServicePredictor) -> None:
        """Run one worker."""
        while (batch := self.gatherer.take_batch()) is not None:
            calls = [self.waiting.pop(ticket) for ticket in batch[0]]
            calls = [call for call in calls if not call.is_cancelled]
            if not calls:
                continue
            done = process_calls(predictor, calls, self.failures)
            self.answered += sum(not each.problem for each in done)
            for finish in dict.fromkeys(call.finish for call in calls):
                finish(
                    [each for call, each in zip(calls, done, strict=True) if call.finish == finish]
                )


def process_calls(
    predictor: ServicePredictor, calls: Sequence[PendingCall], failures: FailureLines
) -> list[FinishedCall]:
    """Answer one batch; a failure is reported to all of its callers, and the server continues."""
    try:
        answers = predictor.answer([call.payload for call in calls])
        if len(answers) != len(calls):
            raise ValueError(f"{len(answers)} answers to {len(calls)} payloads")
    except Exception as error:
        problem = describe_call_failure(error)
        failures.print_failure(f"a batch of {len(calls)}", error)
        return [FinishedCall(call.caller, b"", problem) for call in calls]
    return [
        FinishedCall(call.caller, bytes(answer))
        for call, answer in zip(calls, answers, strict=True)
    ]
