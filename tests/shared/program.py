"""A program of a few lines, in a fork of an interpreter that has loaded what it would load first."""

import threading
from collections.abc import Sequence
from typing import Final

THREADS: Final = threading.active_count()
"""With those of all that was loaded before: a fork does not see them."""


def launch(words: Sequence[str]) -> None:
    """Run the program that the only word is."""
    (program,) = words
    exec(program, {"__name__": "__main__"})
