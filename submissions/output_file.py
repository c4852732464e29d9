"""Where an output option may write: a file that is not there yet, or a regular one that is none of
the inputs.
"""

from collections.abc import Iterable
from pathlib import Path

from suite.errors import RequestError


def check_output_target(option: str, target: Path, inputs: Iterable[Path]) -> None:
    """RequestError for a folder, a device, a file in a missing folder, and one of the inputs,
    before anything is read.
    """
    try:
        if target.is_dir():
            raise RequestError(f"{option} {target}: is a folder; name a file in it")
        if not target.parent.is_dir():
            raise RequestError(f"{option} {target}: there is no folder {target.parent}")
        if target.exists() and not target.is_file():
            raise RequestError(f"{option} {target}: is no regular file")
        if target.exists() and any(path.exists() and target.samefile(path) for path in inputs):
            raise RequestError(f"{option} {target}: is what is read here; name another file")
    except OSError as error:
        raise RequestError(f"{option} {target}: {error.strerror or error}") from error
