"""What a benchmark compares podium with, and podium does not need: a script that lacks it says so
and ends with MISSING_CODE, as podium's commands do.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

MISSING_CODE: Final = 3


def end_without(name: str, advice: str) -> NoReturn:
    """Say what is not installed, and end."""
    script = Path(sys.argv[0]).name
    print(f"{script}: {name} is not installed: {advice}", file=sys.stderr)
    sys.exit(MISSING_CODE)


def import_needed(name: str, advice: str) -> ModuleType:
    """Import a module that somebody has to install for this script."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        end_without(error.name, advice)
