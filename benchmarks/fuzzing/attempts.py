"""One input at a time: what a reader may do with it, and for how long."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fuzzing.reading import Reader
from suite.errors import PodiumError

CPU_LIMIT_S: Final = 5.0
"""Processor time for one input; the slowest good ones, whole trees, take 0.5 s."""
WALL_LIMIT_S: Final = 120.0
"""For an input that waits; a machine may be busy."""
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGING: Final = {
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rmdir": 1,
    "os.rename": 2,
    "os.truncate": 1,
    "os.chmod": 1,
    "os.utime": 1,
    "shutil.rmtree": 1,
}
"""Audit event -> how many of its arguments are paths that must lie inside."""
NEVER: Final = (
    "os.link",
    "os.symlink",
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.connect",
    "pickle.find_class",
)
"""Audit events that no reader has a reason for."""


class HangError(BaseException):
    """An input took longer than any may."""


class EscapeError(BaseException):
    """A reader did something outside the folder that it works in."""


class Guard:
    """Watches what a reader does, by Python's audit events."""

    def __init__(self, inside: Path) -> None:
        self.inside, self.on = f"{inside}{os.sep}", False
        sys.addaudithook(self.look)

    def look(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse a write outside, and whatever no reader may do."""
        if not self.on:
            return
        if event == "open":
            path, mode, flags = arguments
            if (isinstance(flags, int) and flags & WRITING) or (
                isinstance(mode, str) and set(mode) & set("wax+")
            ):
                self.must_be_inside(event, path, -1)
        elif event in CHANGING:
            for path in arguments[: CHANGING[event]]:
                self.must_be_inside(event, path, arguments[-1])
        elif event in NEVER:
            self.on = False
            raise EscapeError(f"{event} {arguments!r}")

    def must_be_inside(self, event: str, path: object, folder: object) -> None:
        """Refuse any path but one below the folder; a descriptor was opened before, and looked at
        then. A path may be relative to a descriptor.
        """
        if isinstance(path, int):
            return
        base = (
            Path(f"/proc/self/fd/{folder}").readlink()
            if isinstance(folder, int) and folder >= 0
            else Path.cwd()
        )
        # Path.resolve follows links
        absolute = os.path.abspath(base / os.fsdecode(path))  # type: ignore[arg-type]  # noqa: PTH100
        if not f"{absolute}{os.sep}".startswith(self.inside):
            self.on = False
            raise EscapeError(f"{event} {absolute}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while a reader is at work, and end it where it takes too long."""
        signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
        signal.setitimer(signal.ITIMER_REAL, WALL_LIMIT_S)
        self.on = True
        try:
            yield
        finally:
            self.on = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)


def too_long(number: int, frame: object) -> None:
    """End an input that takes too long."""
    raise HangError("processor time" if number == signal.SIGPROF else "time")


def put(path: Path, content: bytes) -> None:
    """Write a file over what it held. One that is emptied first, ext4 writes to the disk as it is
    closed: 0.19 ms of processor time, against 0.01 ms.
    """
    # of a descriptor
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o666), "wb") as file:  # noqa: PTH123
        file.write(content)
        file.truncate()


def attempt(reader: Reader, content: bytes, guard: Guard) -> BaseException | None:
    """Let a reader read an input; what went wrong. The file is put back, for the other readers of
    its folder.
    """
    put(reader.file, content)
    try:
        with guard.watching():
            reader.read(reader.file)
    except (PodiumError, *reader.raises):
        return None
    except (Exception, SystemExit, HangError, EscapeError) as error:
        return error
    finally:
        put(reader.file, reader.seeds[0])
    return None
