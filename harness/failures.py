"""Reports a failure: one sentence for the user, the traceback in a file."""

import traceback
from pathlib import Path

from suite.errors import PodiumError


def describe_exception(error: BaseException) -> str:
    """Describe an exception in one line."""
    return (
        str(error)
        if isinstance(error, PodiumError)
        else f"{type(error).__name__}: {' '.join(str(error).split())}"
    )


def write_traceback(folder: Path, rank: int, error: BaseException) -> str:
    """Write the traceback to a file for debugging; return a sentence that names the file."""
    path = folder / f"traceback-{rank}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)), "utf-8")
    except OSError as problem:
        return f"the traceback could not be kept ({problem.strerror})"
    return f"traceback in {path}"
