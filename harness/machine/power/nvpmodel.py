"""Power mode of a Jetson: its clocks and cores are limited to a budget, so a board in two modes is
two systems.

Source: Jetson Linux Developer Guide, Power Mode Controls: `nvpmodel -q` prints `NV Power Mode:
MAXN` and the mode's number.
"""

import re
import shutil
import subprocess
from functools import cache
from typing import Final

PROGRAM: Final = "nvpmodel"
MODE: Final = re.compile(r"^NV Power Mode:\s*([A-Za-z0-9_. -]{1,40}?)\s*$", re.MULTILINE)
WAIT_S: Final = 5.0


@cache
def power_mode() -> str | None:
    """Return the power mode (MAXN, MODE_30W, MAXQ); None on other machines, or if the program does
    not tell.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        return None
    try:
        told = subprocess.run(
            [program, "-q"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WAIT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = MODE.search(told)
    return found[1] if found else None
