"""Says which kinds the judge misses: in tests/compliance, `PYTHONPATH=../shared python -m mutants
[training|inference] [MOST]`, with at most so many bases per kind.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from corpus import CORPUS

from .families import Inference, Training
from .judging import Outcome, Tally


def said(title: str, tally: Tally) -> None:
    """Print a family."""
    print(f"== {title}", *tally.lines(), sep="\n")


def alarmed(title: str, outcomes: Iterable[Outcome]) -> None:
    """Print what ought not to be broken."""
    print(
        f"== {title}",
        *(
            f"{outcome.kind} | {outcome.base} | {outcome.verdict} | {outcome.told}"
            for outcome in outcomes
        ),
        sep="\n",
    )


def main(family: str, most: int) -> None:
    """Judge one family, or both."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        if family != "inference":
            training = Training.of(CORPUS, Path(folder) / "training", most)
            alarmed("unchanged training results called broken", training.alarms())
            said("training logs", training.logs())
            said("run sets", training.sets())
            alarmed("harmless variants of training logs called broken", training.harmless())
        if family != "training":
            inference = Inference.of(CORPUS, Path(folder) / "inference", most)
            alarmed("unchanged inference entries called broken", inference.alarms())
            said("inference entries", inference.entries())
            alarmed("harmless variants of inference entries called broken", inference.harmless())


if __name__ == "__main__":
    arguments = [*sys.argv[1:], "both", "2"][:2] if len(sys.argv) < 2 else [*sys.argv[1:], "2"][:2]
    main(arguments[0], int(arguments[1]))
