"""Results that make room for new ones: moved aside, never deleted and never mixed with the new."""

from collections.abc import Iterable
from itertools import count
from pathlib import Path

import click

from suite.layout import STATE


def supersede(results: Path, paths: Iterable[Path]) -> Path | None:
    """Move what exists of `paths` to `<results>/.podium/superseded/<n>/<path in results>`, say so, and return that folder."""
    found = [path for path in dict.fromkeys(paths) if path.exists()]
    if not found:
        return None
    folder = next(folder for folder in (results / STATE / "superseded" / str(n) for n in count(1)) if not folder.exists())
    for path in found:
        target = folder / path.relative_to(results)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
    click.echo(f"earlier results moved to {folder}")
    return folder
