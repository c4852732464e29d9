"""A server's management controller (BMC), queried with ipmitool for its DCMI power reading.

Source: DCMI 1.5, section 6.6.1, Get Power Reading; ipmitool(1), `dcmi power reading`. MLPerf
Training allows IPMI from 1 Hz and 5 % on.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Final

from suite.errors import MissingError

IPMI_READING: Final = re.compile(r"Instantaneous power reading:\s+(\d+) Watts")
IPMITOOL_LIMIT_S: Final = 10


def open_ipmi_meter(options: Sequence[str]) -> tuple[str, Callable[[], float]]:
    """Return its traits and its read function; `options` are ipmitool's own, such as -H HOST.
    MissingError without ipmitool.
    """
    if shutil.which("ipmitool") is None:
        raise MissingError("ipmitool is not installed")
    return "name=bmc scope=system", lambda: read_ipmi_watts(options)


def read_ipmi_watts(options: Sequence[str]) -> float:
    """Read once; OSError if the controller does not report power."""
    try:
        done = subprocess.run(
            ["ipmitool", *options, "dcmi", "power", "reading"],
            capture_output=True,
            text=True,
            timeout=IPMITOOL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"ipmitool did not answer within {IPMITOOL_LIMIT_S} s") from error
    match = IPMI_READING.search(done.stdout)
    if done.returncode or match is None:
        raise OSError(f"ipmitool has no reading: {(done.stderr or done.stdout).strip()[:100]}")
    return float(match[1])
