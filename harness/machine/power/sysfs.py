"""Reads single values from files of the kernel, below a root that tests and rehearsals may choose."""

import time
from pathlib import Path

from suite.power import PowerReading

LONGEST: int = 256
"""Bytes of a value; a line of sysfs has a page at most."""


def text(path: Path) -> str | None:
    """Read a line; None where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return stream.read(LONGEST).decode("utf-8", "replace").strip()
    except OSError:
        return None


def number(path: Path) -> int:
    """Read a whole number; OSError where there is none."""
    with path.open("rb") as stream:
        content = stream.read(LONGEST)
    try:
        return int(content)
    except ValueError as error:
        raise OSError(f"{path}: no number: {content[:40]!r}") from error


def number_or_none(path: Path) -> int | None:
    """Read a whole number; None where there is none."""
    try:
        return number(path)
    except OSError:
        return None


def stamped(*paths: Path, per: int = 1) -> PowerReading:
    """Read one value, the product of the numbers in some files divided by `per`; OSError where one cannot be read."""
    start, value = time.monotonic_ns(), 1
    for path in paths:
        value *= number(path)
    return PowerReading(t_ns=(start + time.monotonic_ns()) // 2, value=value // per)


def shown(path: Path, root: Path) -> str:
    """Spell a path as it lies on a machine, whatever the root."""
    return "/" + path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
