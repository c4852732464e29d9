"""Sizes of a benchmark's tiny run, `--tiny`: the same path in seconds. It shows that the script
works, and nothing about speed.
"""

import argparse
import os
import sys
from typing import Final, TypeVar

TINY_OPTION: Final = "--tiny"
TINY_VARIABLE: Final = "PODIUM_BENCHMARK_TINY"
"""Set for the processes that a tiny run starts."""
T = TypeVar("T")

if TINY_OPTION in sys.argv:
    os.environ[TINY_VARIABLE] = "1"
TINY: Final = bool(os.environ.get(TINY_VARIABLE))


def choose_size(usual: T, tiny: T) -> T:
    """Return a size of the usual run, or of the tiny one."""
    return tiny if TINY else usual


def add_tiny_option(parser: argparse.ArgumentParser) -> None:
    """Add `--tiny`, which is read where a script is loaded."""
    parser.add_argument(
        TINY_OPTION,
        action="store_true",
        help="smallest sizes, in seconds: shows that the script works, nothing about speed",
    )
