"""Output of all benchmarks: both sides of one run and their ratio, as a table or as one JSON
object.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from common.tiny import add_tiny_option, choose_size
from harness.machine import cpus
from harness.machine.system_description import read_cpu_model
from suite.cli import RunOptions
from suite.terms import Precision, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One comparison, measured in one run."""

    ratio: float
    unit: str
    ours: float
    theirs: float
    n: int
    """Pairs of measurements; each number is a median over them."""
    hardware: str


def compare(ours: Sequence[float], theirs: Sequence[float], unit: str) -> Figure:
    """Take medians; the ratio is the median of the pairs' ratios, since both sides of a pair saw
    the same machine.
    """
    ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return Figure(
        ratio=statistics.median(ratios),
        unit=unit,
        ours=statistics.median(ours),
        theirs=statistics.median(theirs),
        n=len(ratios),
        hardware=hardware(),
    )


def hardware() -> str:
    """Describe the processor and the available cores."""
    return f"{read_cpu_model()}, {cpus.count_available_cores()} cores"


def show(title: str, figure: Figure, form: str, notes: Mapping[str, object]) -> None:
    """Print the figure; in JSON, notes are additional fields of the object."""
    if form == "json":
        print(
            json.dumps(
                {
                    **asdict(figure),
                    **{key.lower().replace(" ", "_"): value for key, value in notes.items()},
                }
            )
        )
        return
    print(title)
    rows = {
        "ours": f"{figure.ours:.6g} {figure.unit}",
        "theirs": f"{figure.theirs:.6g} {figure.unit}",
        "ratio": f"{figure.ratio:.4f}",
    }
    for key, value in {
        **rows,
        "n": f"{figure.n} pairs",
        "hardware": figure.hardware,
        **notes,
    }.items():
        print(f"  {key:<14} {value}")


def arguments(
    about: str,
    pairs: int,
    steps: int = 0,
    precision: bool = False,
    pictures: int = 0,
    tokens: bool = False,
) -> argparse.Namespace:
    """Read the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=about)
    add_tiny_option(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument(
        "--pairs", type=int, default=choose_size(pairs, 1), help="pairs of measurements"
    )
    if steps:
        parser.add_argument(
            "--steps",
            type=int,
            default=choose_size(steps, 1),
            help="optimizer steps per measurement",
        )
    if pictures:
        parser.add_argument(
            "--pictures", type=int, default=pictures, help="number of files to survey"
        )
    if tokens:
        parser.add_argument("--tokens", action="store_true", help="LoadGen measures tokens")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: all cores")
    if precision:
        parser.add_argument(
            "--precision",
            choices=["auto", "fp32", "bf16"],
            default="auto",
            help="precision of our side",
        )
    return parser.parse_args()


def options(results: Path, threads: int, *assignments: str) -> RunOptions:
    """Build the options for smoke's ResNet-50 on the CPU, on the embedded data."""
    return RunOptions(
        profile=Profile.SMOKE,
        framework="torch",
        engine="torch",
        input="default",
        data=None,
        results=results,
        device="cpu",
        precision=Precision.BF16,
        threads=threads,
        config=None,
        assignments=assignments,
        org="benchmarks",
        system="benchmarks",
    )
