"""Measures how often `podium history check` sees a change that is none, and how soon it sees one
of 5 %, beside apache-otava (Hunter's algorithm, with its defaults) on the same series.

Noise: series of 1,000 commits without a change. Steps: a series that loses 5 % after 10 to 40
commits; found if a change is shown within 2 commits of it as soon as the new level has 5 results.
The ratio is podium's false changes / apache-otava's. Needs a Python with apache-otava, which pins
other packages than podium:

    python -m venv otava && otava/bin/pip install apache-otava
    PODIUM_OTAVA=otava/bin/python python benchmarks/history.py
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from common.figures import hardware
from common.needed import end_without
from common.tiny import add_tiny_option, choose_size

from suite.history.changes import find_changes
from suite.measurement.shares import format_share_interval

SEED: Final = 65
COMMITS: Final = 1000
STEP: Final = 0.95
FIRST_STEPS: Final = (10, 40)
WITHIN: Final = 5
MISPLACED: Final = 2
HEAVY_DOF: Final = 4
PYTHON_VARIABLE: Final = "PODIUM_OTAVA"
ADVICE: Final = (
    "pip install it into a virtual environment, and name its Python in " + PYTHON_VARIABLE
)
OTAVA_SCRIPT: Final = """
import json, sys
from otava.analysis import compute_change_points
changes = [compute_change_points(one)[0] for one in json.load(sys.stdin)]
json.dump([[int(each.index) for each in found] for found in changes], sys.stdout)
"""
Series = list[float]
Finder = Callable[[Sequence[Series]], list[list[int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How results of one level scatter."""

    name: str
    share: float
    is_heavy: bool = False
    """Student's t with 4 degrees instead of the normal distribution."""

    def draw_value(self, generator: random.Random) -> float:
        """Draw a result of a level of 100."""
        value = generator.gauss(0.0, 1.0)
        if self.is_heavy:
            squares = sum(generator.gauss(0.0, 1.0) ** 2 for _ in range(HEAVY_DOF))
            value *= math.sqrt(HEAVY_DOF / squares) / math.sqrt(2)
        return 100 * math.exp(self.share * value)


NOISES: Final = (
    Noise(name="normal, 1 %", share=0.01),
    Noise(name="normal, 1.5 %", share=0.015),
    Noise(name="normal, 2 %", share=0.02),
    Noise(name="heavy tails, 1 %", share=0.01, is_heavy=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What one finder showed of one kind of noise."""

    finder: str
    noise: str
    commits: int
    false_changes: int
    steps: int
    found: int
    seconds: float


def find_with_podium(series: Sequence[Series]) -> list[list[int]]:
    """Return the changes of each series."""
    return [[each.index for each in find_changes(one)] for one in series]


def find_with_otava(series: Sequence[Series]) -> list[list[int]]:
    """Return those of apache-otava."""
    done = subprocess.run(
        [os.environ[PYTHON_VARIABLE], "-c", OTAVA_SCRIPT],
        input=json.dumps(series),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[list[int]] = json.loads(done.stdout)
    return found


def draw_step(noise: Noise, generator: random.Random) -> tuple[Series, int]:
    """Draw a series that ends WITHIN commits after its step, and the step's place."""
    place = generator.randint(*FIRST_STEPS)
    values = [noise.draw_value(generator) for _ in range(place + WITHIN)]
    return [value * (STEP if at >= place else 1) for at, value in enumerate(values)], place


def count_changes(
    name: str, finder: Finder, noise: Noise, series: int, commits: int, steps: int
) -> Counted:
    """Count false changes and steps that are found, on series that are the same for each finder."""
    generator = random.Random(SEED)
    flat = [[noise.draw_value(generator) for _ in range(commits)] for _ in range(series)]
    drawn = [draw_step(noise, generator) for _ in range(steps)]
    seconds = time.perf_counter()
    shown = finder([*flat, *(values for values, _ in drawn)])
    seconds = time.perf_counter() - seconds
    hits = [
        any(abs(index - place) <= MISPLACED for index in found)
        for found, (_, place) in zip(shown[series:], drawn, strict=True)
    ]
    return Counted(
        finder=name,
        noise=noise.name,
        commits=series * commits,
        false_changes=sum(map(len, shown[:series])),
        steps=steps,
        found=sum(hits),
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=10, help="series of 1,000 commits")
    parser.add_argument("--steps", type=int, default=200, help="series with a step")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_tiny_option(parser)
    options = parser.parse_args()
    if not Path(os.environ.get(PYTHON_VARIABLE, "")).is_file():
        end_without("apache-otava", ADVICE)
    sizes = (
        choose_size(options.series, 1),
        choose_size(COMMITS, 60),
        choose_size(options.steps, 3),
    )
    finders = (("podium", find_with_podium), ("apache-otava", find_with_otava))
    found = []
    for noise in choose_size(NOISES, NOISES[:1]):
        for name, finder in finders:
            found.append(count_changes(name, finder, noise, *sizes))
            if options.format == "text":
                print_counts(found[-1])
    if options.format == "text":
        ours, theirs = (
            sum(each.false_changes for each in found if each.finder == name) for name, _ in finders
        )
        print(f"ratio of false changes {ours / max(1, theirs):.2f}; {hardware()}")
        return
    json.dump({"hardware": hardware(), "cases": [asdict(each) for each in found]}, sys.stdout)
    print()


def print_counts(one: Counted) -> None:
    """Print one finder's counts."""
    print(
        f"{one.noise}, {one.finder}: {one.false_changes} false changes in {one.commits:,} commits"
        f" ({1000 * one.false_changes / one.commits:.2f} in 1,000); 5 % found within {WITHIN}"
        f" commits: {format_share_interval(one.found, one.steps)}; {one.seconds:.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
