"""Measures SingleStream of ResNet-50 at smoke size under LoadGen: PyTorch eager against the engine
that `--engine auto` takes, in turns.

    python benchmarks/automatic_engine.py --pairs 3 --threads 1

The weights are random: the time of an answer does not depend on them. Each run is `podium infer
--weights`, a LoadGen run of at least five seconds. The ratio is that of the 90th percentiles.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common.tiny import add_tiny_option, choose_size

from suite.files.layout import RUN_RECORD
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.headline import select_headline_metric
from suite.loadgen.scenario import Scenario
from suite.records import read_served_run
from suite.terms import AUTOMATIC_ENGINE
from suite.units import NS_PER_MS

EAGER: Final = "torch"


def main(words: Sequence[str] | None = None) -> None:
    """Measure in turns, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=choose_size(3, 1), help="runs of each engine")
    add_tiny_option(parser)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workload", default=choose_size("resnet50", "minigo"))
    options = parser.parse_args(words)
    latencies: dict[str, list[float]] = {EAGER: [], AUTOMATIC_ENGINE: []}
    with TemporaryDirectory() as folder:
        taken = EAGER
        for _ in range(options.pairs):
            for engine, measured in latencies.items():
                run = measure_engine(options, engine, Path(folder) / engine)
                _, key = select_headline_metric(Scenario.SINGLE_STREAM, measures_tokens=False)
                measured.append(read_detail_log(run).require_number(key) / NS_PER_MS)
                taken = read_served_run(run).system.engine
    for engine, measured in latencies.items():
        shown = ", ".join(f"{value:.2f}" for value in measured)
        print(f"{engine}: p90 {statistics.median(measured):.2f} ms ({shown})")
    ratio = statistics.median(latencies[EAGER]) / statistics.median(latencies[AUTOMATIC_ENGINE])
    print(
        f"{AUTOMATIC_ENGINE} takes {taken}: {ratio:.2f} times as fast,"
        f" n = {options.pairs} pairs, {options.threads} threads"
    )


def measure_engine(options: argparse.Namespace, engine: str, results: Path) -> Path:
    """Run LoadGen once, and return the run's folder."""
    command = [
        *(sys.executable, "-m", "podium", "infer", options.workload),
        *("--weights", "random", "--scenario", "single-stream", "--mode", "performance"),
        *("--engine", engine, "--threads", str(options.threads), "--results", str(results)),
        *choose_size((), ("--set", "loadgen.min_duration_ms=200")),
    ]
    subprocess.run(command, check=True, capture_output=True)
    newest = max(results.rglob(RUN_RECORD), key=lambda path: path.stat().st_mtime_ns)
    return newest.parent


if __name__ == "__main__":
    main()
