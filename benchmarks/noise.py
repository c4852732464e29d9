"""Counts how often each noise rule of the judge fires, in short runs on this host as it is and with
a busy loop on one of two cores.

Each run is a LoadGen run (SingleStream, a system that does nothing) with its records, judged by the
round's rules. This process and all it starts keep to two cores. On a quiet machine the runs without
the loop should carry no warning; with it, all should carry noise.others.

Usage: python benchmarks/noise.py [--runs N] [--seconds S] [--beside both|nothing|busy] [--format
text|json]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

from compliance.kinds.podium.documents.conditions import build_serving_conditions
from compliance.kinds.podium.documents.inference import read_loadgen_run
from compliance.kinds.podium.rules import noise
from compliance.rules import iterate_module_rules
from harness.serving.harness_ceiling import build_null_schedule, build_null_system
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from suite import registry
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

CORES: Final = 2
BATCH: Final = 1
LOOP: Final = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
STARTER: Final = """import subprocess, sys
quiet = subprocess.DEVNULL
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=quiet, stderr=quiet).pid)"""


@contextmanager
def beside(what: str) -> Iterator[None]:
    """Keep one of the cores busy, or nothing, while the block runs."""
    # started by a process that ends at once: a child of ours would count as our own work
    command = [sys.executable, "-c", STARTER, LOOP]
    loop = (
        int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if what == "busy"
        else None
    )
    try:
        yield
    finally:
        if loop:
            os.kill(loop, signal.SIGKILL)


def warned(seconds: float) -> set[str]:
    """Do one run; name the noise rules that fire."""
    with TemporaryDirectory(prefix="podium-benchmark-") as name:
        folder = Path(name)
        schedule = replace(
            build_null_schedule(Scenario.SINGLE_STREAM),
            min_duration_ms=int(1000 * seconds),
            expected_latency_ns=100_000,
        )
        with run_loadgen_in_child(
            LoadGenJob(
                system=build_null_system(folder, BATCH), schedule=schedule, folder=folder / "run_1"
            )
        ) as (_, outcome):
            assert not outcome.lost, outcome.lost
        conditions = build_serving_conditions(
            read_loadgen_run(
                folder / "run_1", Mode.PERFORMANCE, Scenario.SINGLE_STREAM, registry.load_round()
            )
        )
        assert conditions is not None
        return {
            finding.rule for each in iterate_module_rules(noise) for finding in each(conditions)
        }


def main() -> None:
    """Count what fires."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=choose_size(10, 1))
    add_tiny_option(parser)
    parser.add_argument("--seconds", type=float, default=choose_size(5.0, 0.2), help="of each run")
    parser.add_argument("--beside", choices=["both", "nothing", "busy"], default="both")
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    given = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    found: dict[str, dict[str, int]] = {}
    for what in ("nothing", "busy") if given.beside == "both" else (given.beside,):
        fired: Counter[str] = Counter()
        with beside(what):
            for _ in range(given.runs):
                fired.update(warned(given.seconds))
        found[what] = {each.id: fired[each.id] for each in iterate_module_rules(noise)}
    if given.form == "json":
        print(
            json.dumps(
                {
                    "runs": given.runs,
                    "seconds": given.seconds,
                    "hardware": hardware(),
                    "fired": found,
                }
            )
        )
        return
    print(f"noise rules that fired in {given.runs} runs of {given.seconds:g} s each; {hardware()}")
    for what, counts in found.items():
        print(f"  beside {what}: " + ", ".join(f"{rule} {count}" for rule, count in counts.items()))


if __name__ == "__main__":
    main()
