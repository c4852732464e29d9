"""Measures the cost of other work on the same cores: training steps and serving of each workload,
on an idle machine and next to busy loops.

Serving answers one sample at a time, which has the smallest kernels. "Before" is OpenMP with its
defaults, on all cores. "After" uses the environment and the number of threads that podium chooses.
Each side is a separate process with its own environment, warmed up before the measurement; quiet
and busy, before and after alternate. `later` is the rate next to loops that start after podium has
chosen its threads. Next to as many loops as cores, half of the quiet rate is a fair share.

Usage: python benchmarks/busy.py [--workload NAME]... [--half training|serving] [--pairs N]
[--seconds S] [--loops N] [--format text|json]
"""

import argparse
import gc
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Generator, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count, cycle
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fakes"))

from common.figures import hardware, options  # noqa: E402
from common.tiny import add_tiny_option, choose_size  # noqa: E402
from podium_fakes.busy import loops  # noqa: E402

from harness.machine import cpus  # noqa: E402
from suite import registry  # noqa: E402
from suite.cli import RunOptions  # noqa: E402
from suite.process import openmp
from suite.terms import Precision  # noqa: E402

WARM_S: Final = choose_size(1.0, 0.1)
LOOP_LIMIT_S: Final = choose_size(300.0, 0.1)
"""Seconds after which a loop ends by itself, even if this script is gone."""
SAMPLES: Final = 32
"""Samples in memory while serving."""
HALVES: Final = ("training", "serving")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One half of one workload; rates in samples/s, each the median of n."""

    workload: str
    half: str
    quiet_before: float
    quiet_after: float
    busy_before: float
    busy_after: float
    busy_later: float
    ratio_before: float
    """Ratio of busy to quiet."""
    ratio_after: float
    ratio_later: float
    quiet_ratio: float
    """Ratio of after to before, quiet."""
    threads_busy: int
    """Number of threads that podium chooses next to the loops."""
    load_average: float
    """Load over the last minute at the end of the row; includes the loops and this script."""


def asked(folder: Path) -> RunOptions:
    """Ask for smoke in fp32 on the CPU."""
    return replace(options(folder, 0), precision=Precision.FP32)


def training(workload: str, folder: Path) -> Generator[int, None, None]:
    """Take optimizer steps endlessly; yield the samples of each."""
    built = build(workload, folder)
    for epoch in count(1):
        yield from built.train_epoch(epoch)


def build(workload: str, folder: Path) -> Any:
    """Build one rank's model, data and optimizer."""
    from harness.request import resolve_request
    from harness.training import seeds

    request = resolve_request(asked(folder), workload)
    seeds.seed_generators(1, 0, "torch")
    return request.workload.build_training(request.build_run(1, Precision.FP32))


def serving(workload: str, folder: Path) -> Generator[int, None, None]:
    """Answer one sample after another endlessly, as in SingleStream, with untrained weights; yield
    the samples of each answer.
    """
    from harness.request import resolve_request

    (folder / "checkpoint").mkdir()
    build(workload, folder).export(folder / "checkpoint")
    request = resolve_request(asked(folder), workload, serving=True)
    system = request.workload.build_inference(
        request.build_run(1, Precision.FP32), folder / "checkpoint", registry.load_engine("torch")
    )
    predictor, held = (
        system.open(0, 1),
        range(min(system.sample_count, system.performance_sample_count, SAMPLES)),
    )
    system.load(held)
    for number in cycle(held):
        yield len(predictor([number]))


def side(half: str, workload: str, pipe: Connection) -> None:
    """Work for the requested time on the requested number of threads; reply with samples per
    second.
    """
    import torch

    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        steps = {"training": training, "serving": serving}[half](workload, Path(folder))
        while asked := pipe.recv():
            seconds, threads = asked
            # what was begun before is over, and the number of threads is the workload's own
            # until here
            next(steps)
            torch.set_num_threads(threads)
            pipe.send(rate(steps, seconds))
        steps.close()
        end_workers()


def end_workers() -> None:
    """Wait for the processes of a training that is over: a pool that ends while its process does
    may wait for ever.
    """
    gc.collect()
    for worker in multiprocessing.active_children():
        worker.join()


def rate(steps: Iterator[int], seconds: float) -> float:
    """Return samples per second over whole steps."""
    began, samples, passed = time.perf_counter(), 0, 0.0
    while passed < seconds:
        samples += next(steps)
        passed = time.perf_counter() - began
    return samples / passed


class Side:
    """One side in its own process, with its environment."""

    def __init__(self, half: str, workload: str, *, spins_briefly: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, far = context.Pipe()
        self.process = context.Process(
            target=side, args=(half, workload, far)
        )  # no daemon: a loader has workers of its own
        with environment(spins_briefly=spins_briefly):
            self.process.start()
        far.close()

    def rate(self, seconds: float, threads: int) -> float:
        """Samples per second."""
        self.pipe.send((seconds, threads))
        return float(self.pipe.recv())

    def end(self) -> None:
        """End the process."""
        self.pipe.send(None)
        self.process.join()


@contextmanager
def environment(*, spins_briefly: bool) -> Iterator[MutableMapping[str, str]]:
    """Set the environment for child processes within this context."""
    before = dict(os.environ)
    for name in openmp.USER_SPIN_VARIABLES:
        os.environ.pop(name, None)
    if spins_briefly:
        openmp.limit_openmp_spinning(os.environ)
    try:
        yield os.environ
    finally:
        os.environ.clear()
        os.environ.update(before)


def measured(workload: str, half: str, given: argparse.Namespace) -> Row:
    """Measure one half of one workload."""
    before, after = (Side(half, workload, spins_briefly=brief) for brief in (False, True))
    # threads that wait for each other next to other work may take minutes: not in a tiny run
    every = choose_size(cpus.count_available_cores(), 1)
    for one in (before, after):
        one.rate(WARM_S, every)
    quiet, busy, chosen = [], [], every
    for _ in range(given.pairs):
        quiet.append((before.rate(given.seconds, every), after.rate(given.seconds, every)))
        with loops([LOOP_LIMIT_S] * given.loops):
            chosen = cpus.choose_core_count(
                cpus.measure_busy_share(),
                large_kernels=half == "training"
                and registry.load_workload(workload).has_large_kernels,
            )
            busy.append(
                (
                    before.rate(given.seconds, every),
                    after.rate(given.seconds, chosen),
                    after.rate(given.seconds, every),
                )
            )
    for one in (before, after):
        one.end()
    return row(workload, half, quiet, busy, chosen)


def row(
    workload: str,
    half: str,
    quiet: Sequence[tuple[float, float]],
    busy: Sequence[tuple[float, float, float]],
    chosen: int,
) -> Row:
    """Compute medians and their ratios."""
    quiet_before, quiet_after = map(statistics.median, zip(*quiet, strict=True))
    busy_before, busy_after, busy_later = map(statistics.median, zip(*busy, strict=True))
    return Row(
        workload=workload,
        half=half,
        quiet_before=quiet_before,
        quiet_after=quiet_after,
        busy_before=busy_before,
        busy_after=busy_after,
        busy_later=busy_later,
        ratio_before=busy_before / quiet_before,
        ratio_after=busy_after / quiet_after,
        ratio_later=busy_later / quiet_after,
        quiet_ratio=quiet_after / quiet_before,
        threads_busy=chosen,
        load_average=os.getloadavg()[0],
    )


def arguments() -> argparse.Namespace:
    """Read the options."""
    names = sorted(
        name
        for name, point in registry.map_entry_points(registry.WORKLOAD_GROUP).items()
        if point.value.startswith("workloads.")
    )  # the fakes are on the path
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workload", action="append", choices=names, help="repeatable (default: all)"
    )
    parser.add_argument("--half", choices=HALVES, help="default: both")
    parser.add_argument(
        "--pairs", type=int, default=choose_size(5, 1), help="measurements of each kind"
    )
    parser.add_argument(
        "--seconds", type=float, default=choose_size(4.0, 0.1), help="seconds per measurement"
    )
    parser.add_argument("--loops", type=int, default=2, help="busy loops")
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    add_tiny_option(parser)
    given = parser.parse_args()
    given.workload = given.workload or choose_size(names, ["minigo"])
    return given


def main() -> None:
    given = arguments()
    rows = []
    if given.form == "text":
        print(
            f"{given.pairs} measurements of {given.seconds:g} s, {given.loops} busy loops,"
            f" {hardware()}\n{HEAD}"
        )
    for half in (given.half,) if given.half else HALVES:
        for workload in given.workload:
            rows.append(measured(workload, half, given))
            if given.form == "text":
                print(line(rows[-1]), flush=True)
    if given.form == "json":
        facts = {
            "n": given.pairs,
            "seconds": given.seconds,
            "loops": given.loops,
            "hardware": hardware(),
            "unit": "samples/s",
        }
        print(json.dumps({**facts, "rows": [asdict(row) for row in rows]}))


HEAD: Final = (
    "workload      half       quiet: before    after  ratio   busy: before (ratio)   after (ratio,"
    " threads)   later (ratio)   load"
)


def line(row: Row) -> str:
    """Format one row."""
    quiet = f"{row.quiet_before:13.1f} {row.quiet_after:8.1f} {row.quiet_ratio:6.2f}"
    busy = (
        f"{row.busy_before:13.1f} ({row.ratio_before:.2f}) {row.busy_after:8.1f}"
        f" ({row.ratio_after:.2f}, {row.threads_busy})"
    )
    return (
        f"{row.workload:<13} {row.half:<9} {quiet} {busy} {row.busy_later:14.1f}"
        f" ({row.ratio_later:.2f}) {row.load_average:8.1f}"
    )


if __name__ == "__main__":
    main()
