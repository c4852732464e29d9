"""`podium publish`: verifies every bundle, makes the site beside its place, and puts it there when it is whole."""

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from submissions.publish import site
from submissions.publish.rows import SIGNED_BY_NOBODY, Row, published_row, rows_of
from submissions.publish.site import MARKER, Entry
from submissions.published_rows import bundled, load
from submissions.report import build
from submissions.report.command import FULL
from submissions.report.document import Document, Tone
from submissions.report.sections.orientation import legend
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import PARTIAL, file_sha256, sync

DATA: Final = "data"
BUNDLES: Final = "bundles"
SUMS: Final = "data/SHA256SUMS"


def publish(paths: Sequence[Path], target: Path, *, title: str, published: bool, copied: bool) -> None:
    """Make a site of bundles; JudgedError at the end where one was left out, which the site names too."""
    check(target)
    entries = list(entries_of(dict.fromkeys(paths)))
    repeated(entries)
    rows = [published_row(row) for name in bundled() for row in load(name)] if published else []
    partial = target.with_name(target.name + PARTIAL)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        write(partial, site.pages(title, entries, rows, copied, legend(published)))
        if copied:
            copy(partial, [(path, entry) for path, entry in zip(dict.fromkeys(paths), entries, strict=False) if not entry.problems])
        put(partial, target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        kind = MissingError if error.errno in FULL else RequestError
        raise kind(f"{target}: not written: {error.strerror or error}") from error
    click.echo(f"site: {target / 'index.html'}")
    if left := [f"{entry.name}: {'; '.join(entry.problems)}" for entry in entries if entry.problems]:
        raise JudgedError("\n  ".join(["some bundles were left out:", *left]))


def check(target: Path) -> None:
    """Refuse a place that is no site of podium's, before anything is read."""
    if target.exists() and not target.is_dir():
        raise RequestError(f"-o {target}: is a file; a site is a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / MARKER).is_file():
        raise RequestError(f"-o {target}: holds files that podium publish did not make; name another folder, or an empty one")
    if not target.absolute().parent.is_dir():
        raise RequestError(f"-o {target}: there is no folder {target.parent}")


def entries_of(paths: Iterable[Path]) -> Iterator[Entry]:
    """Read each bundle once, whatever it is called; one that does not count is an entry with its reasons."""
    seen: set[str] = set()
    for path in paths:
        try:
            made, problems = build.document([path], published=False)
        except JudgedError as error:
            yield Entry(name=path.name, report=EMPTY, rows=(), problems=(str(error),))
            continue
        part = made.parts[0]
        if not part.seal:
            problems = [f"{path}: not a sealed bundle; podium pack makes one"]
        if part.seal and part.seal in seen:
            continue
        seen.add(part.seal)
        reasons = () if not problems else (part.summary,) if part.seal and part.tone is not Tone.GOOD else tuple(problems)
        yield Entry(name=path.name, report=made, rows=() if problems else tuple(rows_of(part, SIGNED_BY_NOBODY)), problems=reasons)


EMPTY: Final = Document(title="", parts=(), sections=(), legend=(), version="")
"""Report of what cannot be read at all."""
