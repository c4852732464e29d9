"""Short names of the paths that a command reads: letters in their order, or the names that
`--label A=NAME` gives them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase
from types import MappingProxyType
from typing import Final

from suite.errors import RequestError
from suite.files.untrusted_files import replace_unprintable

LABEL_OPTION: Final = "--label"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLabels:
    """The names of the paths of a command."""

    letters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Path, as it was given -> its letter."""
    given: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Path -> the name that the user gave it; without those that have none."""

    def name_path(self, path: str) -> str:
        """Return the given name of a path, or its letter; the path itself without either."""
        return self.given.get(path) or self.letters.get(path, path)


def format_letter(place: int) -> str:
    """Format the letter of a place from 0 on: A to Z, then AA, AB and so on."""
    first, last = divmod(place, len(ascii_uppercase))
    if first == 0:
        return ascii_uppercase[last]
    return format_letter(first - 1) + ascii_uppercase[last]


def assign_letters(paths: Sequence[str]) -> dict[str, str]:
    """Return the letter of each path, in their order."""
    return {path: format_letter(place) for place, path in enumerate(dict.fromkeys(paths))}


def parse_path_labels(paths: Sequence[Path], texts: Sequence[str]) -> PathLabels:
    """Parse the values of `--label`; RequestError for one that is no LETTER=NAME, for a letter that
    no path has, and for a name or a letter that is given twice.
    """
    letters = assign_letters([*map(str, paths)])
    paths_of_letters = {letter: path for path, letter in letters.items()}
    given: dict[str, str] = {}
    for text in texts:
        letter, equals, name = text.partition("=")
        shown = f"{LABEL_OPTION} {replace_unprintable(text)}"
        if not equals or not name.strip():
            raise RequestError(f"{shown}: give a letter and a name, as in {LABEL_OPTION} A=fp32")
        path = paths_of_letters.get(letter)
        if path is None:
            known = ", ".join(
                f"{each} is {replace_unprintable(path)}" for path, each in letters.items()
            )
            raise RequestError(f"{shown}: no path has this letter; {known}")
        if path in given:
            raise RequestError(f"{shown}: {letter} has a name already, {given[path]}")
        given[path] = name
    labels = PathLabels(letters=letters, given=given)
    names = [labels.name_path(path) for path in letters]
    if repeated := [name for name in given.values() if names.count(name) > 1]:
        raise RequestError(
            f"{LABEL_OPTION}: two paths are named {replace_unprintable(repeated[0])}"
        )
    return labels
