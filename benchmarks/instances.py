"""Measures the efficiency of several instances behind one LoadGen. Each instance is a process that
waits as long as a device would take.

A T4 answers ResNet-50 at about 5,600 samples/s (MLPerf Inference v0.5, Offline: 44,977.8 on eight).
One instance and several are measured in turns in
Offline; the ratio is the rate of the most instances over as many times one's, medians of n. The
bar: 0.95; the goal: 0.98.

Then two instances, each pinned to one core, beside one process of two threads, in turns: ResNet-50
at smoke size with random weights, in Offline.

    python benchmarks/instances.py [--runs 3] --format json

Each of the `--runs` turns takes a minute or two.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common.figures import hardware
from common.sleeping_device import SleepingWorkload
from common.tiny import add_tiny_option, choose_size

from harness.children.process import run_in_child
from harness.engines.null import NULL_ANSWER, NullPredictor
from harness.serving.harness_ceiling import (
    build_null_schedule,
    build_null_system,
    compute_ceiling_rate,
    place_null_instances,
)
from harness.serving.loadgen.session import LoadGenJob, run_loadgen
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario

BATCH: Final = 112
BATCH_S: Final = 0.02
"""5,600 samples/s, a T4's rate: MLPerf Inference v0.5, Closed, Alibaba, T4 x1: 5,540."""
LASTS_S: Final = choose_size(2.0, 0.1)
COUNTS: Final = choose_size((1, 2, 4, 8), (1, 2))
BAR: Final = 0.95
SERVE_S: Final = 600.0
"""Time limit in seconds of one command, which takes half a minute on two free cores."""
SERVE: Final = (
    "infer",
    choose_size("resnet50", "minigo"),
    "--weights",
    "random",
    "--scenario",
    "offline",
    "--device",
    "cpu",
    "--threads",
    "2",
    *choose_size((), ("--engine", "torch", "--set", "loadgen.min_duration_ms=100")),
)


class Sleeping(NullPredictor):
    """Takes as long for a batch as a T4 does."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Wait in proportion to the batch."""
        time.sleep(BATCH_S * len(samples) / BATCH)
        return [NULL_ANSWER] * len(samples)


def measured(instances: int) -> float:
    """Run Offline once; samples/s."""
    batches = round(LASTS_S / BATCH_S) * instances
    schedule = replace(
        build_null_schedule(Scenario.OFFLINE), min_duration_ms=1, min_queries=batches * BATCH
    )
    with TemporaryDirectory(prefix="podium-instances-") as folder:
        system = replace(
            place_null_instances(build_null_system(Path(folder), BATCH), instances),
            workload=SleepingWorkload(Sleeping),
        )
        run_in_child(run_loadgen, LoadGenJob(system=system, schedule=schedule, folder=Path(folder)))
        return compute_ceiling_rate(Scenario.OFFLINE, read_detail_log(Path(folder)))


def on_cores(instances: int, cache: Path) -> float:
    """Serve ResNet-50 with this many pinned processes, or 0 for LoadGen's own process with two
    threads; return samples/s.
    """
    # where others use the cores, instances would not be pinned; without any, the setting is refused
    asked = ["--set", f"sut.instances={instances}", "--set", "sut.pin=on"] if instances else []
    with TemporaryDirectory(prefix="podium-instances-") as folder:
        command = [
            sys.executable,
            "-m",
            "suite.cli",
            *SERVE,
            *asked,
            "--results",
            folder,
        ]
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PODIUM_CACHE": str(cache)},
            timeout=SERVE_S,
        )
        (record,) = Path(folder).glob("studies/*/*/offline/run.json")
        detail_log = read_detail_log(record.parent)
        return detail_log.require_headline(Scenario.OFFLINE).value


def beside(runs: int) -> dict[str, float]:
    """Measure both kinds of processes in turns, with one cache, so that harness ceilings are
    measured once; medians in samples/s.
    """
    with TemporaryDirectory(prefix="podium-cache-") as cache:
        apart, alone = zip(
            *((on_cores(2, Path(cache)), on_cores(0, Path(cache))) for _ in range(runs)),
            strict=True,
        )
    return {
        "two_instances": statistics.median(apart),
        "one_process_of_two_threads": statistics.median(alone),
    }


def main() -> int:
    """Measure all counts alternately."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=choose_size(3, 1))
    add_tiny_option(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    options = parser.parse_args()
    turns = [{count: measured(count) for count in COUNTS} for _ in range(options.runs)]
    rates = {count: statistics.median(turn[count] for turn in turns) for count in COUNTS}
    shares = {str(count): rates[count] / (count * rates[1]) for count in COUNTS}
    cpu = beside(options.runs)
    found = {
        "hardware": hardware(),
        "n": options.runs,
        "samples_per_second": {str(count): value for count, value in rates.items()},
        "efficiency": shares,
        "ratio": shares[str(COUNTS[-1])],
        "bar": BAR,
        "resnet50_samples_per_second": cpu,
        "resnet50_ratio": cpu["two_instances"] / cpu["one_process_of_two_threads"],
    }
    if options.form == "json":
        print(json.dumps(found, indent=2))
    else:
        print(
            "\n".join(
                f"{count} instances: {rates[count]:,.0f} samples/s, efficiency"
                f" {shares[str(count)]:.3f}"
                for count in COUNTS
            )
        )
        print(
            f"ResNet-50: {cpu['two_instances']:,.1f} samples/s by two instances,"
            f" {cpu['one_process_of_two_threads']:,.1f} by one process of two threads"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
