"""What LoadGen's library holds lies in the host's memory (inference_rules.adoc); the way to the
device is inside the clock: for every workload.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from testbed import GENERATING, SETTINGS, a_run

from suite import registry
from suite.engine import Network, Plan, Precision
from workloads.common.pictures.in_memory import copy_sample_to_host
from workloads.common.served_samples import LoadedSamples

DEVICE = "meta"
"""A device that is not the host: what is there has a place, and no values."""


class Arrived(Exception):
    """The first call of a network."""


class Asking:
    """An engine that looks where the inputs of the first call lie."""

    name, accepts = "asking", frozenset({"torch"})

    def __init__(self) -> None:
        self.places: set[str] = set()

    def missing(self, device: str, precision: Precision) -> None:
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> "Asking":
        return self

    def open(self) -> "Asking":
        return self

    def describe(self) -> dict[str, Any]:
        return {}

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.places |= {tensor.device.type for tensor in inputs}
        raise Arrived


def held(system: Any) -> Iterator[Any]:
    """Give what a system holds of samples 0 and 1, wherever it keeps it."""
    for kept in vars(system).values():
        samples = kept._samples if isinstance(kept, LoadedSamples) else kept
        if isinstance(samples, dict) and set(samples) == {0, 1}:
            yield from samples.values()


@pytest.mark.slow
@pytest.mark.parametrize("workload", sorted(SETTINGS.keys() - GENERATING))
def test_loaded_samples_are_the_host_s_and_calls_are_the_device_s(
    workload: str, small: Path
) -> None:
    """Pictures that start on the device would be served without their way there."""
    run = a_run(workload, None, small / "cache", SETTINGS[workload], serving=True)
    (small / "weights").mkdir()
    made = registry.load_workload(workload)
    made.build_training(
        replace(run, settings=a_run(workload, None, small / "cache", SETTINGS[workload]).settings)
    ).export(small / "weights")
    engine = Asking()
    system: Any = made.build_inference(replace(run, device=DEVICE), small / "weights", engine)
    system.load([0, 1])
    samples = list(held(system))
    assert len(samples) == 2
    parts = [
        part for sample in samples for part in (sample if isinstance(sample, tuple) else (sample,))
    ]
    assert all(isinstance(part, np.ndarray) or part.device.type == "cpu" for part in parts)
    with pytest.raises(Arrived):
        system.open(0, 2)([0, 1])
    assert engine.places == {DEVICE}


class Sample:
    """A tensor that notes what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def cpu(self) -> "Sample":
        self.done.append("host")
        return self

    def pin_memory(self) -> "Sample":
        self.done.append("pinned")
        return self


@pytest.mark.parametrize(("device", "done"), [("cuda:1", ["host", "pinned"]), ("cpu", ["host"])])
def test_memory_is_pinned_for_a_gpu(device: str, done: list[str]) -> None:
    """Else each copy would wait for another one inside the host."""
    sample: Any = Sample()
    assert copy_sample_to_host(sample, device) is sample and sample.done == done
