"""Commands for which the modes of files hold, whoever runs the tests."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

POWERS: Final = "-dac_override,-dac_read_search"
"""The capabilities by which root reads what no mode allows."""


def run_without_powers(*words: str | Path) -> "subprocess.CompletedProcess[str]":
    """Run podium so that a mode without read permission refuses root, too."""
    without = ("setpriv", f"--bounding-set={POWERS}", f"--inh-caps={POWERS}")
    return subprocess.run(
        [
            *(without if os.geteuid() == 0 else ()),
            sys.executable,
            "-m",
            "podium",
            *map(str, words),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
