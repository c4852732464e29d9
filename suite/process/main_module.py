"""Keeps spawned children from importing the command line: `multiprocessing` has each import its parent's main module again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

COMMAND_LINE: Final = "suite.cli"


@contextmanager
def kept_back() -> Iterator[None]:
    """Start children without a main module if it is podium's command line, to which no job refers; one of another program may define what is sent."""
    main = sys.modules["__main__"]
    if not is_command_line(main):
        yield
        return
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def is_command_line(main: ModuleType) -> bool:
    """Recognise `python -m suite.cli`, and the script `podium`, which imports its `main`."""
    command = getattr(sys.modules.get(COMMAND_LINE), "main", None)
    return getattr(main.__spec__, "name", None) == COMMAND_LINE or (command is not None and getattr(main, "main", None) is command)
