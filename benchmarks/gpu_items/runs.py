"""Runs of podium's own trainings on invented or generated data, by the workload's own code."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import count, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from gpu_shared.timing import measure_steps, read_settled_clock
from gpu_shared.workbench import Workbench

from suite import registry
from suite.measurement.data_waiting import DATA_WAITING
from suite.rounds import HyperValue, Profile
from suite.rounds.settings import resolve_settings
from suite.terms import Precision
from suite.workload import PreparedTraining, Run
from workloads.common.inputs.device_copies import map_batch_tensors

B = TypeVar("B")


class ResidentBatches(Generic[B]):
    """Reads one batch again and again, which lies on the device: a step without its loader."""

    def __init__(self, batch: B, device: str) -> None:
        self.batch = map_batch_tensors(batch, lambda tensor: tensor.to(device))

    def read(self, planned: Sequence[Sequence[Any]]) -> Iterator[B]:
        """Yield the batch as often as batches are planned."""
        return repeat(self.batch, len(planned))


def build_run(
    bench: Workbench,
    workload: str,
    chosen: Mapping[str, HyperValue],
    found: Mapping[str, Any] | None,
    *,
    data: Path | None = None,
    serving: bool = False,
) -> Run:
    """Build a run of `full` with the settings of a variant: bf16 on a GPU."""
    round = registry.load_round()
    settings = {"data.workers": 0, **chosen}
    return Run(
        round=round,
        profile=Profile.FULL,
        seed=1,
        data=data or bench.data,
        cache=bench.data / "cache",
        framework="torch",
        input="default",
        device=bench.device,
        precision=Precision.BF16 if bench.on_gpu else Precision.FP32,
        threads=8 if bench.on_gpu else 1,
        settings=resolve_settings(round, workload, Profile.FULL, settings, serving=serving),
        found=found,
    )


def describe_pictures(count: int) -> dict[str, Any]:
    """Return the survey of a split without a broken image."""
    return {"count": count, "broken": (), "named": ()}


def iterate_steps(training: Any) -> Generator[int, None, None]:
    """Take steps for ever, epoch after epoch; close the iterator to end."""
    for epoch in count(1):
        with closing(training.train_epoch(epoch)) as steps:
            yield from steps


def tell_resident_steps(bench: Workbench, variant: str, training: Any, unit: str) -> None:
    """Measure a training on data that lie on its device."""
    prepared = prepare_steps(training)
    with closing(iterate_steps(training)) as steps:
        tell_steps(bench, variant, steps, unit, prepared)


def prepare_steps(training: Any) -> dict[str, float]:
    """Compile and record what the settings ask for, as a run does before its clock; the seconds of
    each. RuntimeError if it fails: the steps would be those of another variant.
    """
    done = training.prepare_steps() if isinstance(training, PreparedTraining) else ()
    for each in done:
        if each.problem:
            raise RuntimeError(f"{each.setting}: {each.problem}")
    return {f"{each.setting} s": each.seconds for each in done}


def tell_steps(
    bench: Workbench,
    variant: str,
    steps: Iterator[int],
    unit: str,
    more: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Measure steps of ours or of a peer."""
    sizes = bench.sizes
    times = measure_steps(steps, bench.device, count=sizes.steps, warm_up=sizes.warm_up)
    bench.tell(variant, times.rate, unit, waits=times.waits, details={**times.describe(), **more})


def tell_steps_from_files(bench: Workbench, variant: str, training: Any, unit: str) -> None:
    """Measure a training that reads files: all steps together, and the share of waiting."""
    sizes = bench.sizes
    steps = iterate_steps(training)
    for _ in range(sizes.few_warm_up):
        next(steps)
    waited_s, began_s = DATA_WAITING.waited_s, read_settled_clock(bench.device)
    samples = sum(next(steps) for _ in range(sizes.few_steps))
    passed_s = read_settled_clock(bench.device) - began_s
    waited = (DATA_WAITING.waited_s - waited_s) / passed_s
    bench.tell(
        variant, samples / passed_s, unit, details={"waited": waited, "steps": sizes.few_steps}
    )
    steps.close()
