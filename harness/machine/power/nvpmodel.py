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

NVPMODEL_PROGRAM: Final = "nvpmodel"
POWER_MODE_LINE: Final = re.compile(r"^NV Power Mode:\s*([A-Za-z0-9_. -]{1,40}?)\s*$", re.MULTILINE)
NVPMODEL_LIMIT_S: Final = 5.0


@cache
def read_power_mode() -> str | None:
    """Return the power mode (MAXN, MODE_30W, MAXQ); None on other machines, or if the program does
    not tell.
    """
    program = shutil.which(NVPMODEL_PROGRAM)
    if program is None:
        return None
    try:
        output = subprocess.run(
            [program, "-q"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=NVPMODEL_LIMIT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = POWER_MODE_LINE.search(output)
    return found[1] if found else None
