"""Output whose reader has gone (`podium train resnet50 | head -3`): the command goes on quietly.

A line of progress must not end a run that took hours.
"""

import io
import os
import stat
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class UnreadPipe(io.FileIO):
    """A pipe or socket to write to; once nobody reads it, what is written is dropped."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of the bytes and return how many, as FileIO does; all of them without a
        reader.
        """
        try:
            return super().write(data)
        except (BrokenPipeError, ConnectionResetError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # child processes get it, too
            os.close(nowhere)
            return memoryview(data).nbytes


def drop_unread_output() -> None:
    """Let standard output and error drop what nobody reads any more, where they are pipes."""
    sys.stdout = wrap_piped_stream(sys.stdout)
    sys.stderr = wrap_piped_stream(sys.stderr)


def wrap_piped_stream(stream: TextIO) -> TextIO:
    """Return a stream to the same pipe that outlives its reader; any other stream as it is."""
    if not isinstance(stream, io.TextIOWrapper) or not is_piped(stream):
        return stream
    stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(UnreadPipe(stream.fileno(), "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def is_piped(stream: TextIO) -> bool:
    """Return whether a stream is a pipe or a socket."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # closed, or no file at all
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
