"""The training log: one `:::MLLOG` line per event, in the dialect of MLPerf training v0.7.

A log is written under a `.partial` name and gets its own when its last line stands, so what was cut short never reads
as a result. Every line is one unbuffered write: it is in the kernel's hands when `point`, `start` or `stop` return.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Final, Self

from suite.errors import JudgedError
from suite.events import TOKEN
from suite.files.layout import PARTIAL, sync

POINT_IN_TIME: Final = "POINT_IN_TIME"
INTERVAL_START: Final = "INTERVAL_START"
INTERVAL_END: Final = "INTERVAL_END"


class LogError(JudgedError):
    """The log cannot be written any more: the run does not count."""


class Log:
    """Appends events; with path None it is silent, as on all ranks but the first. Threads may share it."""

    def __init__(self, path: Path | None) -> None:
        """Continue `<path>.partial`, or begin it; a last line that is not whole is cut off. LogError where that fails."""
        self.path = path
        self.offset = 0
        """Bytes written so far."""
        self.time_ms = 0
        """Of the last event."""
        self._lock = threading.Lock()
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self.partial.open("ab", buffering=0)
            self.truncate(whole_lines(self.partial))
        except OSError as error:
            raise LogError(f"cannot write the log {self.partial}: {error.strerror}") from error

    @property
    def partial(self) -> Path:
        """Where the log lies until it is finished."""
        assert self.path is not None
        return self.path.with_name(self.path.name + PARTIAL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def point(self, key: str, value: object = None, **metadata: object) -> None:
        """Log something that is so."""
        self._write(POINT_IN_TIME, key, value, metadata)

    def start(self, key: str, **metadata: object) -> None:
        """Log that something begins."""
        self._write(INTERVAL_START, key, None, metadata)

    def stop(self, key: str, **metadata: object) -> None:
        """Log that something ends."""
        self._write(INTERVAL_END, key, None, metadata)

    def _write(self, event_type: str, key: str, value: object, metadata: dict[str, object]) -> None:
        caller = sys._getframe(2)
        place = {"file": "/".join(Path(caller.f_code.co_filename).parts[-2:]), "lineno": caller.f_lineno}
        with self._lock:
            self.time_ms = max(self.time_ms, time.time_ns() // 1_000_000)  # a clock that is set back must not disorder the log
            event = {"namespace": "", "time_ms": self.time_ms, "event_type": event_type, "key": key, "value": value, "metadata": {**metadata, **place}}
            self._append(TOKEN + json.dumps(event, allow_nan=False) + "\n")

    def _append(self, line: str) -> None:
        if self.path is None:
            return
        rest = line.encode()
        try:
            while rest:  # a full disk takes a part of the line first
                rest = rest[self._stream.write(rest) :]
        except (OSError, ValueError) as error:
            raise LogError(f"cannot write the log {self.partial}: {getattr(error, 'strerror', error)}; this run does not count") from error
        self.offset += len(line.encode())

    def truncate(self, offset: int) -> None:
        """Forget what was written behind a byte offset."""
        if self.path is not None:
            self._stream.truncate(offset)
            self.offset = offset

    def sync(self) -> None:
        """Bring the log to the disk."""
        if self.path is not None:
            sync(self.partial)

    def close(self) -> None:
        """Leave the log as it is; under its `.partial` name it may be continued."""
        if self.path is not None:
            self._stream.close()

    def finish(self) -> None:
        """Say that the last line stands: sync the log and give it its name."""
        if self.path is None:
            return
        try:
            self.sync()
            self._stream.close()
            self.partial.replace(self.path)
            sync(self.path.parent)
        except OSError as error:
            raise LogError(f"cannot finish the log {self.partial}: {error.strerror}") from error


def whole_lines(path: Path) -> int:
    """Count the bytes up to the end of the last whole line."""
    return path.read_bytes().rfind(b"\n") + 1
