"""Results that make room for new ones: moved aside, never deleted and never mixed with the new."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import click

from suite.layout import STATE


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What was moved aside: (where it lay, where it lies now)."""

    pairs: tuple[tuple[Path, Path], ...] = ()

    def undo(self) -> None:
        """Put everything back: what should have come in its place was refused."""
        for origin, target in self.pairs:
            if origin.is_dir():
                shutil.rmtree(origin)
            target.replace(origin)
        if self.pairs:
            click.echo("earlier results put back")


def supersede(results: Path, paths: Iterable[Path]) -> Moved:
    """Move what exists of `paths` to `<results>/.podium/superseded/<n>/<path in results>`, and say so."""
    found = [path for path in dict.fromkeys(paths) if path.exists()]
    if not found:
        return Moved()
    folder = next(folder for folder in (results / STATE / "superseded" / str(n) for n in count(1)) if not folder.exists())
    pairs = tuple((path, folder / path.relative_to(results)) for path in found)
    for path, target in pairs:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    click.echo(f"earlier results moved to {folder}")
    return Moved(pairs=pairs)
