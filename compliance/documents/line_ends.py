"""Tell files whose line ends somebody changed: git does so on checkout, and hashes differ then."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from suite.files.untrusted_files import open_regular_file

SEARCHED_BYTES: Final = 1 << 16
WINDOWS_LINE_END: Final = b"\r\n"
LINE_ENDS_ADVICE: Final = (
    "the line ends were changed to CR LF, as git does with core.autocrlf: check the files out again"
    " with `git -c core.autocrlf=false checkout -f`, or with `* -text` in .gitattributes. podium"
    " writes LF, and its hashes are of that."
)


def advise_on_line_ends(paths: Iterable[Path]) -> str | None:
    """Return what to do about line ends that were changed in one of several files; None if they
    were not.
    """
    if any(map(has_windows_line_ends, paths)):
        return LINE_ENDS_ADVICE
    return None


def has_windows_line_ends(path: Path) -> bool:
    """Return whether the first lines of a file end in CR LF."""
    try:
        with open_regular_file(path) as stream:
            content: bytes = stream.read(SEARCHED_BYTES)
    except (OSError, ValueError):
        return False
    return WINDOWS_LINE_END in content
