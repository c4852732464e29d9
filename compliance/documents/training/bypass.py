"""Options with which a submitter asks the official package checker to pass over a test of a set.

Source: mlcommons/logging, package_checker.py, check_training_result_files: `package_checker_params`
in the folder of a set or of its system.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.documents.training.log import PublishedSet
from suite.files.untrusted_files import opened

PARAMS: Final = "package_checker_params"
POINTS: Final = "rcp-bypass"
"""Option that passes over the test against reference convergence points."""
SEEDS: Final = "seed-checker-bypass"
"""Option that passes over the test of seeds."""
MOST_BYTES: Final = 1 << 16


def bypassed(group: PublishedSet, option: str) -> str | None:
    """Return where a set's submitter asks for an option, as `<file> with <option>`; None if
    nowhere, or before v1.0, whose checker had no options.
    """
    for path in files_of(group) if group.counts_progress else ():
        if option in lines_of(path):
            return f"{path.relative_to(group.folder.parent.parent)} with {option}"
    return None


def files_of(group: PublishedSet) -> Iterator[Path]:
    """Yield where the options of a set may lie: in its folder, and in its system's."""
    yield group.folder / PARAMS
    if group.place and group.place.benchmark:
        yield group.folder.parent / PARAMS


def lines_of(path: Path) -> list[str]:
    """Read a file's lines; none if it cannot be read."""
    try:
        with opened(path) as stream:
            return [line.strip() for line in stream.read(MOST_BYTES).decode("latin-1").splitlines()]
    except (OSError, ValueError):
        return []
