"""Checks and writes the target of an output option: a new file, or a regular file that is not one
of the inputs.
"""

from collections.abc import Iterable
from pathlib import Path

from suite.errors import RequestError
from suite.files.layout import build_write_error, replace_atomically


def check_output_target(option: str, target: Path, inputs: Iterable[Path]) -> None:
    """Raise RequestError for a folder, a device, a file in a missing folder, or one of the inputs,
    before anything is read.
    """
    try:
        if target.is_dir():
            raise RequestError(f"{option} {target}: is a folder; specify a file in it")
        if not target.parent.is_dir():
            raise RequestError(f"{option} {target}: folder {target.parent} does not exist")
        if target.exists() and not target.is_file():
            raise RequestError(f"{option} {target}: is not a regular file")
        if target.exists() and any(path.exists() and target.samefile(path) for path in inputs):
            raise RequestError(f"{option} {target}: is one of the inputs; specify another file")
    except OSError as error:
        raise RequestError(f"{option} {target}: {error.strerror or error}") from error


def write_report_file(target: Path, content: bytes) -> None:
    """Write a file atomically; MissingError if the disk is full, RequestError if writing is not
    permitted.
    """
    try:
        with replace_atomically(target) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise build_write_error(target, error) from error
