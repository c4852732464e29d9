"""Third-party packages: what they offer, whether it fits its contract, and that a broken one causes
one warning, and everything else continues without it.
"""

import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from pathlib import Path
from typing import Final

from suite.contracts import Misfit
from suite.errors import MissingError
from suite.process.installation import DISTRIBUTION_NAME

GROUP_PREFIX: Final = "podium."
WARNED_PACKAGES: Final[set[str]] = set()
"""Packages already warned about in this process."""


class MisfitError(MissingError):
    """What another package offers does not fit its contract, in one part or several."""

    def __init__(self, sentence: str, misfits: Sequence[Misfit]) -> None:
        super().__init__(sentence)
        self.misfits = misfits


def require_fit(point: EntryPoint, kind: str, misfits: Iterable[Misfit]) -> None:
    """Raise MisfitError if another package's object does not fit its contract, TypeError if
    podium's own does not.
    """
    found = list(misfits)
    if not found:
        return
    sentence = (
        f"{kind} '{point.name}' ({point.group}) of package {describe_package(point)} does not fit:"
        f" {'; '.join(map(str, found))}"
    )
    if is_own_entry_point(point):
        raise TypeError(sentence)
    raise MisfitError(sentence, found)


@lru_cache(maxsize=1)
def read_entry_points(path: tuple[str, ...]) -> Callable[..., Iterable[EntryPoint]]:
    """Return what selects among all entry points, read once per import path: a look opens a file of
    every installed package.
    """
    return entry_points().select


def list_unknown_points(known: Iterable[str]) -> Sequence[EntryPoint]:
    """List the entry points of groups of podium's that nothing reads: a misspelt group is silent
    otherwise.
    """
    groups = {point.group for each in distributions() for point in each.entry_points}
    unknown = {each for each in groups if each.startswith(GROUP_PREFIX)} - {*known}
    return tuple(point for group in sorted(unknown) for point in select_entry_points(group))


def select_entry_points(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group; two packages may use one name."""
    return tuple(read_entry_points(tuple(sys.path))(group=group))


def is_own_entry_point(point: EntryPoint) -> bool:
    """Return whether an entry point is podium's."""
    return point.dist is not None and read_distribution_name(point.dist)[0] == DISTRIBUTION_NAME


def describe_package(point: EntryPoint) -> str:
    """Return the distribution of an entry point with its version, or the module if the distribution
    is unknown.
    """
    if point.dist:
        return " ".join(read_distribution_name(point.dist))
    return point.value.partition(":")[0]


@cache
def read_distribution_name(distribution: Distribution) -> tuple[str, str]:
    """Return a distribution's name and version, parsed once: a package has dozens of entry
    points.
    """
    return distribution.name, distribution.version


def describe_broken_package(point: EntryPoint, error: BaseException) -> str:
    """Describe what is wrong with another package, and in which file."""
    return (
        f"package {describe_package(point)}: {type(error).__name__}: {' '.join(str(error).split())}"
        f" ({locate_package_failure(point, error)})"
    )


def locate_package_failure(point: EntryPoint, error: BaseException) -> str:
    """Return the file and line in the package that failed; the entry point if none was reached."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    top = point.value.partition(":")[0].partition(".")[0]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if top in (*Path(frame.filename).parent.parts, Path(frame.filename).stem)
    ]
    if frames:
        return f"{frames[-1].filename}:{frames[-1].lineno}"
    return f"entry point {point.name} = {point.value}"


def warn_about_package(point: EntryPoint, sentence: str) -> None:
    """Warn on stderr about a broken package, once per package, since further errors usually follow
    from the first.
    """
    if describe_package(point) not in WARNED_PACKAGES:
        WARNED_PACKAGES.add(describe_package(point))
        print(f"podium: warning: {sentence}; podium continues without it", file=sys.stderr)
