"""A program of a few lines, in a fork of an interpreter that has loaded what it would load
first.
"""

from collections.abc import Sequence


def launch(words: Sequence[str]) -> None:
    """Run the program that the only word is."""
    (program,) = words
    exec(program, {"__name__": "__main__"})
