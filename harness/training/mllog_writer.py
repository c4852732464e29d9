"""The training log: one `:::MLLOG` line per event, in the dialect of MLPerf training v0.7.

A log is written under a `.partial` name and renamed after its last line, so a truncated log never
reads
as a result. Every line is one unbuffered write: it has reached the kernel when `point`, `start` or
`stop` return. Times are UTC as the writer began it, and go on with a clock that nobody sets: a run
takes as long as it takes, whatever happens to the machine's date meanwhile.
"""

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Final, Self

from suite.errors import MachineError
from suite.events import TOKEN
from suite.files.layout import PARTIAL_SUFFIX, sync_to_disk
from suite.units import NS_PER_MS

POINT_IN_TIME: Final = "POINT_IN_TIME"
INTERVAL_START: Final = "INTERVAL_START"
INTERVAL_END: Final = "INTERVAL_END"
LOGGED_TIME: Final = re.compile(rb'"time_ms": (\d+), "event_type"')


class LogError(MachineError):
    """The log cannot be written: the run does not count."""


class MllogWriter:
    """Appends events; silent if path is None, as on all ranks but the first. Thread-safe."""

    def __init__(self, path: Path | None) -> None:
        """Continue `<path>.partial`, or begin it; truncate an incomplete last line. LogError if
        that fails.
        """
        self.path = path
        self.offset = 0
        """Bytes written so far."""
        self.time_ms = 0
        """Timestamp of the last event."""
        self._lead_ns = time.time_ns() - read_steady_ns()
        self._lock = threading.Lock()
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self.partial.open("ab", buffering=0)
            self.truncate_log(count_whole_line_bytes(self.partial))
            self.follow_last_event()
        except OSError as error:
            raise LogError(f"cannot write the log {self.partial}: {error.strerror}") from error

    def follow_last_event(self) -> None:
        """Go on behind the last event of a log that is continued, if the machine's clock was set
        back since.
        """
        last_ms = read_last_time_ms(self.partial)
        self._lead_ns = max(self._lead_ns, last_ms * NS_PER_MS - read_steady_ns())

    @property
    def partial(self) -> Path:
        """Return the path of the unfinished log."""
        assert self.path is not None
        return self.path.with_name(self.path.name + PARTIAL_SUFFIX)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log_point(self, key: str, value: object = None, **metadata: object) -> None:
        """Log a point event."""
        self._write_event(POINT_IN_TIME, key, value, metadata)

    def log_start(self, key: str, **metadata: object) -> None:
        """Log the start of an interval."""
        self._write_event(INTERVAL_START, key, None, metadata)

    def log_stop(self, key: str, **metadata: object) -> None:
        """Log the end of an interval."""
        self._write_event(INTERVAL_END, key, None, metadata)

    def _write_event(
        self, event_type: str, key: str, value: object, metadata: dict[str, object]
    ) -> None:
        caller = sys._getframe(2)
        caller_location = {
            "file": "/".join(Path(caller.f_code.co_filename).parts[-2:]),
            "lineno": caller.f_lineno,
        }
        with self._lock:
            self.time_ms = (read_steady_ns() + self._lead_ns) // NS_PER_MS
            event = {
                "namespace": "",
                "time_ms": self.time_ms,
                "event_type": event_type,
                "key": key,
                "value": value,
                "metadata": {**metadata, **caller_location},
            }
            self._append_line(TOKEN + json.dumps(event, allow_nan=False) + "\n")

    def _append_line(self, line: str) -> None:
        if self.path is None:
            return
        unwritten = line.encode()
        try:
            while unwritten:  # a full disk may accept only part of the line
                unwritten = unwritten[self._stream.write(unwritten) :]
        except (OSError, ValueError) as error:
            raise LogError(
                f"cannot write the log {self.partial}: {getattr(error, 'strerror', error)}; this"
                " run does not count"
            ) from error
        self.offset += len(line.encode())

    def truncate_log(self, offset: int) -> None:
        """Truncate the log at a byte offset."""
        if self.path is not None:
            self._stream.truncate(offset)
            self.offset = offset

    def sync_log(self) -> None:
        """Sync the log to disk."""
        if self.path is not None:
            sync_to_disk(self.partial)

    def close(self) -> None:
        """Close the log without finishing it; under its `.partial` name it may be continued."""
        if self.path is not None:
            self._stream.close()

    def finish(self) -> None:
        """Sync the complete log and give it its final name."""
        if self.path is None:
            return
        try:
            self.sync_log()
            self._stream.close()
            self.partial.replace(self.path)
            sync_to_disk(self.path.parent)
        except OSError as error:
            raise LogError(f"cannot finish the log {self.partial}: {error.strerror}") from error


def read_steady_ns() -> int:
    """Read a clock that nobody sets; on Linux it goes on while the machine sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock)


def read_last_time_ms(path: Path) -> int:
    """Read the latest time of a log's events; 0 if it has none."""
    found = LOGGED_TIME.findall(path.read_bytes())
    return max(map(int, found), default=0)


def count_whole_line_bytes(path: Path) -> int:
    """Count the bytes up to the end of the last complete line."""
    return path.read_bytes().rfind(b"\n") + 1
