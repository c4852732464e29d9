"""`podium ...`, which fails if that loads anything heavy."""

import sys
from collections.abc import Sequence

from suite.cli import main

HEAVY = ("torch", "numpy", "jsonschema", "mlperf_loadgen", "rich")


def launch(words: Sequence[str]) -> None:
    """Be `podium WORDS`."""
    sys.argv = ["podium", *words]
    try:
        main()
    finally:
        found = [name for name in HEAVY if name in sys.modules]
        assert not found, found
