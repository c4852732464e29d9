"""`podium publish`: verifies every bundle, builds the site in a temporary folder, and moves it into place when complete."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from compliance.bundle import trailer
from submissions.publish import site
from submissions.publish.rows import SIGNED_BY_NOBODY, published_row, rows_of
from submissions.publish.site import BUNDLES, MARKER, Entry
from submissions.published_rows import bundled, load
from submissions.report import build
from submissions.report.command import FULL
from submissions.report.sections.orientation import legend
from submissions.signatures import bundled as bundled_signatures
from submissions.signatures.ssh_keygen import Checked, Signers, Standing
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import PARTIAL, file_sha256, sync

SUMS: Final = "data/SHA256SUMS"


def publish(paths: Sequence[Path], target: Path, *, title: str, published: bool, copied: bool, signers: Path | None) -> None:
    """Build a site from bundles; JudgedError at the end if one was left out, which the site lists too."""
    check(target)
    if signers is not None and not signers.is_file():
        raise RequestError(f"--signers {signers}: no such file")
    entries = one_of_a_kind(list(entries_of(dict.fromkeys(paths), Signers(allowed=signers))))
    own = {row.workload for entry in entries for row in entry.rows}
    rows = [published_row(row) for name in bundled() for row in load(name) if row.workload in own] if published else []
    partial = target.with_name(target.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    try:
        write(partial, site.pages(title, entries, rows, copied, legend(published)))
        if copied:
            copy(partial, entries)
        sums(partial)
        put(partial, target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        kind = MissingError if error.errno in FULL else RequestError
        raise kind(f"{target}: not written: {error.strerror or error}") from error
    click.echo(f"site: {target / 'index.html'}")
    if left := [f"{entry.name}: {'; '.join(entry.problems)}" for entry in entries if entry.problems]:
        raise JudgedError("\n  ".join(["some bundles were left out:", *left]))


def check(target: Path) -> None:
    """Reject a target that is not a podium site, before anything is read."""
    if target.exists() and not target.is_dir():
        raise RequestError(f"-o {target}: is a file; a site is a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / MARKER).is_file():
        raise RequestError(f"-o {target}: holds files that podium publish did not make; name another folder, or an empty one")
    if not target.absolute().parent.is_dir():
        raise RequestError(f"-o {target}: there is no folder {target.parent}")


def entries_of(paths: Iterable[Path], signers: Signers) -> Iterator[Entry]:
    """Read each bundle once, even if given under several names; one that does not count becomes an entry with the reasons."""
    seen: set[str] = set()
    for path in paths:
        try:
            made, problems = build.document([path], published=False)
        except JudgedError as error:
            yield Entry(name=path.name, path=path, problems=(str(error),))
            continue
        part = made.parts[0]
        if part.seal and part.seal in seen:
            continue
        seen.add(part.seal)
        bad = [] if part.seal else [f"{path}: is no sealed bundle; podium pack makes one"]
        bad += [part.summary] if problems and part.seal else []
        signed = whose(path, signers) if not bad else []
        bad += [each.sentence for each in signed if each.standing is Standing.BAD]
        yield Entry(name=path.name, path=path, report=made, rows=() if bad else tuple(rows_of(part, told(signed))), problems=tuple(bad))


def whose(bundle: Path, signers: Signers) -> list[Checked]:
    """Check each signature of an undamaged bundle."""
    return list(bundled_signatures.checked(bundle, trailer.read(bundle), signers))


def told(signed: Sequence[Checked]) -> str:
    """Describe who signed: names of trusted signers, that nobody signed, or that a signature is by no trusted signer."""
    names = [each.signer for each in signed if each.standing is Standing.GOOD and each.signer]
    if names:
        return ", ".join(dict.fromkeys(names))
    return "signed, not checked" if signed else SIGNED_BY_NOBODY


def one_of_a_kind(entries: Sequence[Entry]) -> list[Entry]:
    """Leave out different bundles of one campaign: two seals with one nonce report the same runs twice."""
    nonces: dict[str, list[str]] = {}
    for entry in entries:
        for nonce in entry.nonces:
            nonces.setdefault(nonce, []).append(entry.name)
    twice = {name: names for names in nonces.values() if len(names) > 1 for name in names}
    return [marked(entry, others(entry.name, twice[entry.name])) if entry.name in twice else entry for entry in entries]


def marked(entry: Entry, beside: str) -> Entry:
    """Mark an entry as left out."""
    return replace(entry, rows=(), problems=(*entry.problems, f"shares its campaign's nonce with {beside}"))


def others(name: str, names: Sequence[str]) -> str:
    """Format the other names."""
    return ", ".join(each for each in names if each != name) or "another of the same name"


def write(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write the files into a new folder."""
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def copy(folder: Path, entries: Sequence[Entry]) -> None:
    """Copy the bundles that count, under names made unique by their seals."""
    (folder / BUNDLES).mkdir()
    for entry in entries:
        if not entry.problems:
            shutil.copyfile(entry.path, folder / entry.copied)


def sums(folder: Path) -> None:
    """Write the hashes of all other files of the site."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    (folder / SUMS).write_text("".join(f"{file_sha256(folder / name)}  {name}\n" for name in files), "utf-8")


def put(partial: Path, target: Path) -> None:
    """Move a complete site into place; the earlier one is deleted last."""
    old = target.with_name(f"{target.name}.old{PARTIAL}")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.replace(old)
    partial.replace(target)
    sync(target.absolute().parent)
    shutil.rmtree(old, ignore_errors=True)
