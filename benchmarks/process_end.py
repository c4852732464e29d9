"""Measures the CPU seconds of a process that loads PyTorch and exits, with podium's garbage
collection and with Python's default.

python benchmarks/process_end.py [--pairs 6] [--format json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from common.tiny import add_tiny_option, choose_size

LOAD = "import torch"
SIDES = {
    "seldom": f"from suite.process import garbage; garbage.reduce_garbage_collection(); {LOAD}",
    "usual": f"from suite.process import garbage; {LOAD}",
}


def seconds(code: str) -> float:
    """Run code in a new interpreter; user and system time."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=choose_size(6, 1))
    add_tiny_option(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    asked = parser.parse_args()
    seconds(LOAD)  # files are read from the disk once
    taken: dict[str, list[float]] = {name: [] for name in SIDES}
    for _ in range(asked.pairs):
        for name, code in SIDES.items():
            taken[name].append(seconds(code))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    told = {
        "python": sys.version.split()[0],
        "pairs": asked.pairs,
        "cpu_s": medians,
        "ratio": medians["seldom"] / medians["usual"],
    }
    if asked.format == "json":
        print(json.dumps(told))
    else:
        print(f"Python {told['python']}, n = {asked.pairs} pairs, medians")
        print(
            f"{medians['seldom']:.2f} s; with the usual looks {medians['usual']:.2f} s; ratio"
            f" {told['ratio']:.2f}"
        )


if __name__ == "__main__":
    main()
