"""Stands for several instances in LoadGen's process: samples are loaded by all of them, a worker's
batch is answered by its own.

Only sample numbers and answers travel. Workers pull batches, so that a fast instance takes more
than a slow one. In Offline each instance has two
workers: while it answers one's batch, the other's lies in its pipe. Elsewhere a query would wait
there while another instance is idle.
"""

import multiprocessing
import threading
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from harness.children.process import Abort, ChildFailure, describe_process_end
from harness.children.starting import block_interrupts
from harness.machine.placement import InstancePlacement
from harness.serving.instances.instance import InstanceReport, SystemBuilder, run_instance_process
from suite.errors import JudgedError
from suite.process import main_module
from suite.process.devices import format_number_list
from suite.workload import Inference, Predictor

INSTANCE_EXIT_TIMEOUT_S = 10.0
"""House rule: an instance that has closed its system ends at once; one that does not is killed."""


class InstanceProcess:
    """One instance's process and the pipe to it; several workers may ask, and are answered in their
    order.
    """

    def __init__(self, number: int, placement: InstancePlacement, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.number, self.place, self.turn, self.ended = (
            number,
            placement,
            threading.Lock(),
            threading.Lock(),
        )
        self.asked, self.answered, self.next = 0, 0, threading.Condition()
        pipe, theirs = context.Pipe()
        self.pipe: Connection = pipe
        self.process = context.Process(
            target=run_instance_process, args=(number, placement, threads, theirs), daemon=True
        )
        with block_interrupts(), main_module.hide_main_module():
            self.process.start()
        theirs.close()

    @property
    def name(self) -> str:
        """Name the instance, its GPU and its cores."""
        gpu = "" if self.place.device == "cpu" else f"{self.place.device}, "
        return (
            f"instance {self.number} ({gpu}cores"
            f" {format_number_list(self.place.cores) or 'not pinned'})"
        )

    def build_ended_error(self) -> JudgedError:
        """Describe its end."""
        with self.ended:  # the first thread that waits for a process gets its status
            self.process.join()
        return JudgedError(
            f"{self.name} {describe_process_end(self.process.exitcode)}; nothing of that run counts"
        )

    def send_message(self, message: object) -> None:
        """Send a message; JudgedError if the instance has ended."""
        try:
            self.pipe.send(message)
        except OSError as error:
            raise self.build_ended_error() from error

    def wait_for_answer(self) -> Any:
        """Wait for the answer; the instance's own error if it failed, JudgedError if it ended."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self.build_ended_error() from error
        if isinstance(answer, ChildFailure):
            raise self.add_instance_name(answer).build_error()
        return answer

    def add_instance_name(self, failure: ChildFailure) -> ChildFailure:
        """Report which GPU's process failed."""
        if self.place.device == "cpu":
            return failure
        return replace(failure, sentence=f"{self.name}: {failure.sentence}")

    def request_answer(self, verb: str, argument: object = None) -> Any:
        """Send a request and wait for its answer, behind those that were sent before."""
        with self.turn:
            self.send_message((verb, argument))
            mine, self.asked = self.asked, self.asked + 1
        with self.next:
            self.next.wait_for(lambda: self.answered == mine)
            try:
                return self.wait_for_answer()
            finally:
                self.answered += 1
                self.next.notify_all()


class InstancePredictor:
    """The predictor of one worker thread: its instance, which the first of its workers opens."""

    def __init__(self, lane: InstanceProcess, max_batch: int, *, first: bool) -> None:
        self.lane, self.max_batch, self.first = lane, max_batch, first

    def warm_up(self) -> None:
        """Create and warm up the instance's predictor, once."""
        if self.first:
            self.lane.request_answer("open", self.max_batch)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Send sample numbers, wait for the answers; other threads run meanwhile."""
        return cast("list[bytes]", self.lane.request_answer("answer", list(samples)))


class InstancePool:
    """An `Inference` that is served by processes."""

    def __init__(
        self, placement: Sequence[InstancePlacement], threads: int, builds: Sequence[SystemBuilder]
    ) -> None:
        self.closing = False
        self.lanes = [
            InstanceProcess(number, place, threads) for number, place in enumerate(placement)
        ]
        for lane, build in zip(self.lanes, builds, strict=True):
            lane.send_message(build)
        self.facts: InstanceReport = self.request_from_all("facts")[0]
        self.built, self.calibrated = self.facts.built, self.facts.calibrated
        self.lengths: dict[int, int] = {}

    @property
    def sample_count(self) -> int:
        """Samples of the accuracy set."""
        return self.facts.sample_count

    @property
    def performance_sample_count(self) -> int:
        """Samples that each instance may keep in memory."""
        return self.facts.performance_sample_count

    def request_from_all(self, verb: str, argument: object = None) -> list[Any]:
        """Query all instances at the same time."""
        for lane in self.lanes:
            lane.send_message((verb, argument))
        return [lane.wait_for_answer() for lane in self.lanes]

    def load(self, samples: Sequence[int]) -> None:
        """Load samples in each instance."""
        lengths: list[int] = self.request_from_all("load", tuple(samples))[0]
        self.lengths.update(zip(samples, lengths, strict=True))

    def unload(self, samples: Sequence[int]) -> None:
        """Release samples in each instance."""
        self.request_from_all("unload", tuple(samples))

    def length(self, sample: int) -> int:
        """Return the length that the first instance gave."""
        return self.lengths[sample]

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Return the predictor of one instance; the workers take the instances in turns."""
        return InstancePredictor(
            self.lanes[worker % len(self.lanes)], max_batch, first=worker < len(self.lanes)
        )

    def truth(self, folder: Path) -> None:
        """Let the first instance write the ground truth."""
        self.lanes[0].request_answer("truth", folder)

    def close(self) -> None:
        """Close all systems and end their processes."""
        self.closing = True
        self.request_from_all("close")
        for lane in self.lanes:
            lane.pipe.close()
            lane.process.join(INSTANCE_EXIT_TIMEOUT_S)
            lane.process.kill()

    def start_watching(self, abort: Abort) -> None:
        """End the run when an instance ends, also one that was waiting for work."""
        threading.Thread(target=self.wait_for_first_end, args=(abort,), daemon=True).start()

    def wait_for_first_end(self, abort: Abort) -> None:
        """Wait for the first process that ends."""
        ended = wait([lane.process.sentinel for lane in self.lanes])
        if self.closing:
            return
        lane = next(lane for lane in self.lanes if lane.process.sentinel in ended)
        abort(lane.build_ended_error())


def watch_instances(inference: Inference, abort: Abort) -> None:
    """Watch the processes of a system that has some."""
    if isinstance(inference, InstancePool):
        inference.start_watching(abort)
