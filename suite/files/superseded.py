"""Moves replaced results aside; they are never deleted and never mixed with new ones."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from suite.files.layout import STATE_FOLDER

SUPERSEDED_FOLDER: Final = "superseded"
"""Folder below `.podium` with the results that were moved aside, in numbered folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededFiles:
    """What was moved aside: (old path, new path)."""

    pairs: tuple[tuple[Path, Path], ...] = ()
    has_results: bool = False
    """Results are included, not only the state of unfinished runs, so the user is informed."""

    def move_back(self) -> None:
        """Move everything back after its replacement was rejected."""
        for origin, target in self.pairs:
            if origin.is_dir():
                shutil.rmtree(origin)
            target.replace(origin)
        if self.has_results:
            print("earlier results put back")


def move_to_superseded(
    paths: Iterable[Path], *, results: Path, relative_to: Path | None = None
) -> SupersededFiles:
    """Move what exists of `paths` to `<results>/.podium/superseded/<n>/<path below relative_to>`,
    and print where results went; `relative_to` defaults to `results`.
    """
    root = relative_to or results
    found = [path for path in dict.fromkeys(paths) if path.exists()]
    if not found:
        return SupersededFiles()
    folder = next(
        folder
        for folder in (results / STATE_FOLDER / SUPERSEDED_FOLDER / str(n) for n in count(1))
        if not folder.exists()
    )
    pairs = tuple((path, folder / path.relative_to(root)) for path in found)
    for path, target in pairs:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    moved = SupersededFiles(
        pairs=pairs,
        has_results=any(STATE_FOLDER not in path.relative_to(root).parts for path in found),
    )
    if moved.has_results:
        print(f"earlier results moved to {folder}")
    return moved
