"""`podium publish`: verifies every bundle, builds the site in a temporary folder, and moves it into
place when complete.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import click

from compliance.bundle import trailer
from compliance.verdict import Severity
from submissions.publish import site
from submissions.publish.rows import SIGNED_BY_NOBODY, published_row, rows_of
from submissions.publish.site import BUNDLES, MARKER, Entry
from submissions.published_rows import bundled, load
from submissions.report import build
from submissions.report.document import Part, visible
from submissions.report.sections.findings import COLUMNS, DAMAGED, FINDINGS, TITLES
from submissions.report.sections.orientation import legend
from submissions.signatures import bundled as bundled_signatures
from submissions.signatures.bundled import detached
from submissions.signatures.ssh_keygen import Checked, Signers, Standing
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import FULL, PARTIAL, file_sha256, sync

SUMS: Final = "data/SHA256SUMS"


class Bundles(StrEnum):
    """How a site holds its bundles."""

    COPY = "copy"
    LINK = "link"
    NONE = "none"


def publish(
    paths: Sequence[Path],
    target: Path,
    *,
    title: str,
    published: bool,
    bundles: Bundles,
    signers: Path | None,
) -> None:
    """Build a site from bundles; JudgedError at the end if one was left out, which the site lists
    too.
    """
    if not visible(title).strip():
        raise RequestError("--title: a site needs one")
    check(target)
    if signers is not None and not signers.is_file():
        raise RequestError(f"--signers {signers}: no such file")
    entries = one_of_a_kind(entries_of(dict.fromkeys(paths), Signers(allowed=signers)))
    own = {row.workload for entry in entries for row in entry.rows}
    rows = (
        [published_row(row) for name in bundled() for row in load(name) if row.workload in own]
        if published
        else []
    )
    if bundles is Bundles.LINK:
        check_linkable(target, entries)
    place = target.resolve()  # so that `.` has a name, and a link stays one
    partial = place.with_name(place.name + PARTIAL)
    remove(partial)
    try:
        write(
            partial,
            site.pages(title, entries, rows, bundles is not Bundles.NONE, legend(published)),
        )
        if bundles is not Bundles.NONE:
            place_bundles(partial, entries, bundles)
        sums(partial)
        keep(place, partial)
        put(partial, place)
    except BaseException as error:
        shutil.rmtree(partial, ignore_errors=True)
        if not isinstance(error, OSError):
            raise
        kind = MissingError if error.errno in FULL else RequestError
        raise kind(f"{target}: not written: {error.strerror or error}") from error
    click.echo(f"site: {target / 'index.html'}")
    if left := [
        f"{entry.name}: {'; '.join(entry.problems)}" for entry in entries if entry.problems
    ]:
        raise JudgedError("\n  ".join(["some bundles were left out:", *left]))


def check(target: Path) -> None:
    """Reject a target that is not a podium site, before anything is read."""
    try:
        check_site(target)
    except OSError as error:
        raise RequestError(f"-o {target}: {error.strerror or error}") from error


def check_site(target: Path) -> None:
    """Reject a file, a folder of others, and a site whose list of podium's own files is gone."""
    if target.exists() and not target.is_dir():
        raise RequestError(f"-o {target}: is a file; a site is a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / MARKER).is_file():
        raise RequestError(
            f"-o {target}: holds files that podium publish did not make; name another folder, or an"
            " empty one"
        )
    if target.is_dir() and (target / MARKER).is_file() and not (target / SUMS).is_file():
        raise RequestError(
            f"-o {target}: its {SUMS} is gone, which tells podium's files from others; name another"
            " folder"
        )
    if not target.absolute().parent.is_dir():
        raise RequestError(f"-o {target}: there is no folder {target.parent}")


def check_linkable(target: Path, entries: Iterable[Entry]) -> None:
    """Reject bundles of another file system, to which no hard link leads."""
    device = target.absolute().parent.stat().st_dev
    for entry in entries:
        if not entry.problems and entry.path.stat().st_dev != device:
            raise RequestError(
                f"--bundles link: {entry.path} is on another file system than {target}; --bundles"
                " copy copies it"
            )


def entries_of(paths: Iterable[Path], signers: Signers) -> list[Entry]:
    """Read each bundle; of sound copies with one seal, the first whose signers are trusted stands
    for all, or the first.
    """
    found = [entry_of(path, signers) for path in paths]
    chosen: dict[str, Entry] = {}
    for _, entry in sorted(found, key=lambda pair: not pair[0]):
        if entry.part and not entry.problems:
            chosen.setdefault(entry.part.seal, entry)
    return [entry for _, entry in found if entry.problems or entry in chosen.values()]


def entry_of(path: Path, signers: Signers) -> tuple[bool, Entry]:
    """Read one bundle, and whether a trusted signer stands behind it; one that does not count
    becomes an entry with the reasons.
    """
    try:
        made, problems = build.document([path], published=False)
    except JudgedError as error:
        return False, Entry(name=path.name, path=path, problems=(str(error),))
    part = made.parts[0]
    signed = whose(path, signers) if part.seal else []
    bad = (
        []
        if part.seal
        else [
            (
                part.summary
                if part.verdict == DAMAGED
                else f"{path}: is no sealed bundle; podium pack makes one"
            )
        ]
    )
    bad += [each.sentence for each in signed if each.standing is Standing.BAD]
    bad += [reason(part)] if problems and part.seal and not bad else []
    rows = () if bad else tuple(rows_of(part, told(signed, signers)))
    trusted = any(each.standing is Standing.GOOD for each in signed)
    return trusted, Entry(name=path.name, path=path, report=made, rows=rows, problems=tuple(bad))


def reason(part: Part) -> str:
    """Say why a bundle does not count: the verdict with its first error, or what the verdict covers
    where there is none.
    """
    tables = [
        table
        for section in part.sections
        if section.id == FINDINGS
        for table in section.tables
        if table.columns == COLUMNS
    ]
    if not tables or not tables[0].title.startswith(TITLES[Severity.ERROR]):
        return part.summary
    rule, _, found, required, advice, _ = tables[0].rows[0]
    return f"{part.verdict}: {rule}: found {found}; expected {required}; {advice}"


def whose(bundle: Path, signers: Signers) -> list[Checked]:
    """Check each signature of a bundle; none if what follows its seal is damaged."""
    try:
        return list(bundled_signatures.checked(bundle, trailer.read(bundle), signers))
    except JudgedError:
        return []


def told(signed: Sequence[Checked], signers: Signers) -> str:
    """Describe who signed: names of trusted signers, that nobody signed, or that a signature is by
    no trusted signer.
    """
    names = [each.signer for each in signed if each.standing is Standing.GOOD and each.signer]
    if names:
        return ", ".join(dict.fromkeys(names))
    if not signed:
        return SIGNED_BY_NOBODY
    if signers.allowed and all(each.standing is Standing.UNKNOWN for each in signed):
        return f"a key that {signers.allowed.name} does not have"
    return "signed, not checked"


def one_of_a_kind(entries: Sequence[Entry]) -> list[Entry]:
    """Leave out different bundles of one campaign: two seals with one nonce report the same runs
    twice.
    """
    nonces: dict[str, list[str]] = {}
    for entry in entries:
        for nonce in () if entry.problems else entry.nonces:
            nonces.setdefault(nonce, []).append(entry.name)
    twice = {name: names for names in nonces.values() if len(names) > 1 for name in names}
    return [
        (
            marked(entry, others(entry.name, twice[entry.name]))
            if entry.name in twice and not entry.problems
            else entry
        )
        for entry in entries
    ]


def marked(entry: Entry, beside: str) -> Entry:
    """Mark an entry as left out."""
    return replace(
        entry, rows=(), problems=(*entry.problems, f"shares its campaign's nonce with {beside}")
    )


def others(name: str, names: Sequence[str]) -> str:
    """Format the other names."""
    return ", ".join(each for each in names if each != name) or "another of the same name"


def remove(folder: Path) -> None:
    """Delete what an interrupted `podium publish` left; RequestError for a folder that it did not
    make.
    """
    if (
        folder.exists()
        and not (folder / MARKER).is_file()
        and not (folder.is_dir() and not any(folder.iterdir()))
    ):
        raise RequestError(
            f"{folder}: in the way, and podium publish did not make it; move it elsewhere"
        )
    shutil.rmtree(folder, ignore_errors=True)


def write(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write the files into a new folder, the marker first."""
    folder.mkdir()
    (folder / MARKER).touch()
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def place_bundles(folder: Path, entries: Sequence[Entry], how: Bundles) -> None:
    """Copy or link the bundles that count, under names made unique by their seals."""
    (folder / BUNDLES).mkdir()  # with their detached signatures
    for entry in entries:
        if entry.problems:
            continue
        place = link if how is Bundles.LINK else shutil.copyfile
        place(entry.path, folder / entry.copied)
        for file, beside in zip(detached(entry.path), detached(folder / entry.copied), strict=True):
            if file.is_file():
                place(file, beside)


def link(bundle: Path, name: Path) -> None:
    """Give a bundle a second name in the site, a hard link: no second copy, and a plain file for
    whoever serves or packs the site.
    """
    name.hardlink_to(bundle.resolve())


def sums(folder: Path) -> None:
    """Write the hashes of all other files of the site."""
    files = sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    (folder / SUMS).write_text(
        "".join(f"{file_sha256(folder / name)}  {name}\n" for name in files), "utf-8"
    )


def keep(old: Path, new: Path) -> None:
    """Carry over what others put into the earlier site, such as a host's CNAME; what podium made
    there stands in its list of hashes.
    """
    if not (old / SUMS).is_file():
        return
    made = {
        line.partition("  ")[2] for line in (old / SUMS).read_text("utf-8", "replace").splitlines()
    } | {SUMS}
    for path in sorted(old.rglob("*")):
        copied = new / path.relative_to(old)
        if (
            (path.is_file() or path.is_symlink())
            and path.relative_to(old).as_posix() not in made
            and not copied.exists()
        ):
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copied, follow_symlinks=False)


def put(partial: Path, target: Path) -> None:
    """Move a complete site into place; the earlier one is deleted last, and put back if that
    fails.
    """
    old = target.with_name(f"{target.name}.old{PARTIAL}")
    remove(old)
    standing = target.exists()
    if standing:
        target.replace(old)
    try:
        partial.replace(target)
    except OSError:
        if standing:
            old.replace(target)
        raise
    sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)
