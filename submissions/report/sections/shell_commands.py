"""Format recorded commands so that a reader can repeat them."""

import shlex
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

PROGRAM_FILES: Final = ("podium", "__main__.py")
"""File names of podium's program: as a script, and run as a module."""


def format_repeatable_command(words: Sequence[object]) -> str:
    """Format a command for a shell. podium's program has its name instead of its path, which is the
    recording machine's alone.
    """
    program, *arguments = map(str, words) if words else ("",)
    if PurePath(program).name in PROGRAM_FILES:
        program = "podium"
    return shlex.join((program, *arguments))
