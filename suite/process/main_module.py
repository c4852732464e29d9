"""Keeps spawned children from importing the command line: `multiprocessing` has each import its
parent's main module again.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

COMMAND_LINE_MODULES: Final = ("suite.cli", "harness.__main__")
SCRIPT_NAME: Final = "podium"
"""What the packaging tools name the script after; it only imports `main` of `suite.cli`."""


@contextmanager
def hide_main_module() -> Iterator[None]:
    """Start children without a main module if it is podium's command line, to which no job refers;
    one of another program may define what is sent.
    """
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
    """Recognise `python -m suite.cli`, `python -m harness` and the script `podium`."""
    if main.__spec__ is not None:
        return main.__spec__.name in COMMAND_LINE_MODULES
    return Path(getattr(main, "__file__", None) or "").stem == SCRIPT_NAME and hasattr(main, "main")
