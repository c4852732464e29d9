"""Reads single values from kernel files, below a root that tests and rehearsals may replace."""

import re
import time
from pathlib import Path
from typing import Final

from suite.power import PowerReading

SYSFS_NUMBER: Final = re.compile(rb"[0-9]{1,19}")
MAX_SYSFS_BYTES: Final = 256
"""Maximum bytes of a value; a sysfs attribute has at most a page."""


def read_sysfs_text(path: Path) -> str | None:
    """Read a line; None if it is unreadable."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_SYSFS_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return None


def read_sysfs_number(path: Path) -> int:
    """Read a whole number of at most 63 bits, as the kernel writes it; OSError if there is none."""
    with path.open("rb") as stream:
        content = stream.read(MAX_SYSFS_BYTES).strip()
    if not SYSFS_NUMBER.fullmatch(content) or int(content) >= 1 << 63:
        raise OSError(f"{path}: no number: {content[:40]!r}")
    return int(content)


def find_sysfs_number(path: Path) -> int | None:
    """Read an integer; None if there is none."""
    try:
        return read_sysfs_number(path)
    except OSError:
        return None


def read_stamped_value(*paths: Path, per: int = 1) -> PowerReading:
    """Read one value, the product of the integers in some files divided by `per`; OSError if one is
    unreadable.
    """
    start, value = time.monotonic_ns(), 1
    for path in paths:
        value *= read_sysfs_number(path)
    return PowerReading(t_ns=(start + time.monotonic_ns()) // 2, value=value // per)


def format_kernel_path(path: Path, root: Path) -> str:
    """Return a path as on a real machine, without the replaced root."""
    if path.is_relative_to(root):
        return "/" + path.relative_to(root).as_posix()
    return str(path)
