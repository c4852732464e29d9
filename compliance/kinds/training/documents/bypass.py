"""Find the options with which a submitter skips a test of a set in the official package checker.

Source: mlcommons/logging, package_checker.py, check_training_result_files: `package_checker_params`
in the folder of a set or of its system.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.kinds.training.documents.log import PublishedSet
from suite.files.untrusted_files import open_regular_file

CHECKER_PARAMS_FILE: Final = "package_checker_params"
POINTS_BYPASS_OPTION: Final = "rcp-bypass"
"""Option that skips the test against reference convergence points."""
SEEDS_BYPASS_OPTION: Final = "seed-checker-bypass"
"""Option that skips the test of seeds."""
MAX_PARAMS_BYTES: Final = 1 << 16


def find_checker_bypass(group: PublishedSet, option: str) -> str | None:
    """Return where a set's submitter uses an option, as `<file> with <option>`; None if nowhere, or
    before v1.0, whose checker had no options.
    """
    if group.counts_progress:
        for path in iterate_checker_params_files(group):
            if option in read_checker_params_lines(path):
                return f"{path.relative_to(group.folder.parent.parent)} with {option}"
    return None


def iterate_checker_params_files(group: PublishedSet) -> Iterator[Path]:
    """Yield the files that may contain the options of a set: in its folder, and in its system's."""
    yield group.folder / CHECKER_PARAMS_FILE
    if group.place and group.place.benchmark:
        yield group.folder.parent / CHECKER_PARAMS_FILE


def read_checker_params_lines(path: Path) -> list[str]:
    """Read a file's lines; none if it cannot be read."""
    try:
        with open_regular_file(path) as stream:
            return [
                line.strip()
                for line in stream.read(MAX_PARAMS_BYTES).decode("latin-1").splitlines()
            ]
    except (OSError, ValueError):
        return []
