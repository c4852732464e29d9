"""The process of one instance: it builds the system under test, loads its own samples, and answers
sample numbers that arrive by pipe.

It takes its cores and its GPU before anything loads a framework, and ends when LoadGen's process
does.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from harness.children.process import describe_child_failure
from harness.children.starting import end_with_parent
from harness.machine.placement import InstancePlacement
from suite.process import garbage
from suite.process.devices import build_visibility_variable
from suite.workload import Inference, Predictor

SystemBuilder: TypeAlias = Callable[[], tuple[Inference, Any]]
"""Builds the system and the recorder of what the engine made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceReport:
    """What LoadGen's process has to know of an instance."""

    sample_count: int
    performance_sample_count: int
    built: dict[str, Any]
    calibrated: dict[str, Any]


class Instance:
    """Answers requests one by one."""

    predictor: Predictor

    def __init__(self, number: int, build: SystemBuilder) -> None:
        self.number = number
        self.inference, self.recorder = build()

    def facts(self, _: object) -> InstanceReport:
        """Describe the system."""
        inference = self.inference
        return InstanceReport(
            sample_count=inference.sample_count,
            performance_sample_count=inference.performance_sample_count,
            built=self.recorder.built,
            calibrated=self.recorder.calibrated,
        )

    def load(self, samples: tuple[int, ...]) -> list[int]:
        """Load samples; return their lengths."""
        self.inference.load(samples)
        return [self.inference.length(sample) for sample in samples]

    def unload(self, samples: tuple[int, ...]) -> None:
        """Release samples."""
        self.inference.unload(samples)

    def open(self, max_batch: int) -> None:
        """Create the predictor and warm it up."""
        self.predictor = self.inference.open(self.number, max_batch)
        self.predictor.warm_up()
        garbage.freeze_loaded_objects()

    def truth(self, folder: Any) -> None:
        """Write the ground truth."""
        self.inference.truth(folder)

    def close(self, _: object) -> None:
        """Release all resources."""
        self.inference.close()

    def answer(self, samples: list[int]) -> list[bytes]:
        """Answer a batch, inside LoadGen's clock."""
        return list(self.predictor(samples))


def run_instance_process(
    number: int, placement: InstancePlacement, threads: int, pipe: Connection
) -> None:
    """Serve until LoadGen's process closes the pipe."""
    if placement.cores:
        os.sched_setaffinity(0, placement.cores)
    os.environ.update(build_visibility_variable(placement.device, os.environ))
    os.environ["OMP_NUM_THREADS"] = str(
        threads
    )  # read when a framework is loaded, which the first message does
    threading.Thread(target=end_with_parent, daemon=True).start()
    garbage.reduce_garbage_collection()
    try:
        instance = Instance(number, pipe.recv())
        while True:
            verb, argument = pipe.recv()
            pipe.send(getattr(instance, verb)(argument))
    except EOFError:
        return
    except BaseException as error:
        pipe.send(describe_child_failure(error))
        with suppress(EOFError):
            pipe.recv()  # LoadGen's process ends this one when it has read the cause
