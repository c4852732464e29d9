"""Selects the files of a bundle and writes its manifest."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.bundle.manifest import Manifest, Sealed, environment
from submissions.result_index import Result, checkpoint_record
from submissions.score import log_values
from suite import __version__
from suite.errors import JudgedError
from suite.events import CHECKPOINT, COMMAND_LINE, NONCE, PROFILE, ROUND, SEED
from suite.files.layout import PARTIAL, file_sha256, own_results
from suite.ledger.book import Ledger
from suite.ledger.steps import head, sealed_part

SHA256: Final = re.compile(r"[0-9a-f]{64}")
"""Name of a checkpoint's folder; anything else in a log might be a path elsewhere."""
WITHOUT_LEDGER: Final = 1
"""Manifest format of results from before ledgers were kept."""
FORMAT: Final = 2
"""Format of the manifest and of the archive around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Identity of one run: what its logs say it belongs to."""

    result: Result
    round: str
    profile: str
    nonce: str
    checkpoint: str
    command: tuple[str, ...]
    seed: int | None


def stamps(results: Iterable[Result]) -> Iterator[Stamp]:
    """Read the stamps of every run."""
    for result in results:
        yield from (trained(result, log) for log in result.logs)
        for folder in (result.accuracy, *result.performance) if result.scenario else ():
            yield served(result, folder)


def trained(result: Result, log: Path) -> Stamp:
    """Read the stamps of a training run."""
    found = log_values.training(log).stamps
    return Stamp(
        result=result,
        round=str(found.get(ROUND)),
        profile=str(found.get(PROFILE)),
        nonce=str(found.get(NONCE)),
        checkpoint=str(found.get(CHECKPOINT) or ""),
        command=tuple(map(str, found.get(COMMAND_LINE) or ())),
        seed=found.get(SEED),
    )


def served(result: Result, folder: Path) -> Stamp:
    """Read the stamps of a LoadGen run."""
    run = log_values.served(folder)
    return Stamp(
        result=result,
        round=run.round,
        profile=run.profile,
        nonce=run.nonce,
        checkpoint=run.checkpoint_sha256,
        command=run.command,
        seed=None,
    )


def collect(results: list[Result]) -> tuple[Manifest, dict[str, Path | bytes]]:
    """Build the manifest of some results, and map its files to paths or bytes; JudgedError if the
    results do not belong together.
    """
    found = list(stamps(results))
    tree = results[0].root
    paths: dict[str, Path | bytes] = {
        path.relative_to(tree).as_posix(): path for path in files(results, found)
    }
    books = ledgers(results)
    paths |= books
    systems = {result.system: result.system_file for result in results}
    return (
        Manifest(
            format=FORMAT if books else WITHOUT_LEDGER,
            round=one("rounds", {stamp.round for stamp in found}),
            profile=one("profiles", {stamp.profile for stamp in found}),
            workloads=tuple(sorted({result.workload for result in results})),
            nonce={
                name: one(f"campaigns of {name}", nonces)
                for name, nonces in grouped(found, "nonce")
            },
            checkpoints={
                name: one(f"served checkpoints of {name}", hashes)
                for name, hashes in grouped(served_first(found), "checkpoint")
            },
            files={name: sealed(path) for name, path in sorted(paths.items())},
            environment={name: environment(path) for name, path in sorted(systems.items())},
            commands=log_values.unique([list(stamp.command) for stamp in found if stamp.command]),
            seeds=tuple(stamp.seed for stamp in found if stamp.seed is not None),
            version=__version__,
            ledger={name: head(text) for name, text in sorted(books.items())},
        ),
        paths,
    )


def sealed(source: Path | bytes) -> Sealed:
    """Hash and measure a file or bytes."""
    if isinstance(source, bytes):
        return Sealed(sha256=hashlib.sha256(source).hexdigest(), size=len(source))
    return Sealed(sha256=file_sha256(source), size=source.stat().st_size)


def ledgers(results: list[Result]) -> dict[str, bytes]:
    """Read the ledgers of results, by their paths in the bundle; for staged results, the ledgers of
    the folder that they belong to.
    """
    found: dict[str, bytes] = {}
    for result in results:
        home = own_results(result.root) / result.tree.relative_to(result.root)
        book = Ledger(results=own_results(result.root), home=home, workload=result.workload)
        if text := sealed_part(book.text()):
            found[book.path.relative_to(book.results).as_posix()] = text
    return found


def one(what: str, values: set[str]) -> str:
    """Return the only value; JudgedError if there are several."""
    if len(values) != 1:
        raise JudgedError(
            f"a bundle contains one, found {len(values)} {what}: {', '.join(sorted(values))};"
            " choose with --workload and --system"
        )
    return next(iter(values))


def grouped(found: Iterable[Stamp], field: str) -> Iterator[tuple[str, set[str]]]:
    """Yield (workload, all its values of a field)."""
    groups: dict[str, set[str]] = {}
    for stamp in found:
        groups.setdefault(stamp.result.workload, set()).add(getattr(stamp, field))
    yield from sorted(groups.items())


def served_first(found: Iterable[Stamp]) -> Iterator[Stamp]:
    """Yield each workload's served runs or, if nothing was served, its first training run with a
    checkpoint.
    """
    groups: dict[str, list[Stamp]] = {}
    for stamp in found:
        groups.setdefault(stamp.result.workload, []).append(stamp)
    for group in groups.values():
        yield from [stamp for stamp in group if stamp.result.scenario] or [
            stamp for stamp in group if stamp.checkpoint
        ][:1]


def files(results: list[Result], found: Iterable[Stamp]) -> Iterator[Path]:
    """Yield every file that goes into a bundle; JudgedError for a link or anything else that is not
    a regular file.
    """
    tree = results[0].root
    folders = {
        folder
        for result in results
        if result.scenario
        for folder in (result.folder, result.measurements, *result.audits)
    }
    folders |= {result.truth for result in results}
    for folder in sorted(folders):
        yield from plain(sorted(folder.rglob("*")))
    for result in results:
        yield from plain([result.system_file, *result.logs, *result.telemetry])
    records = {
        checkpoint_record(tree, stamp.result.workload, stamp.checkpoint)
        for stamp in found
        if SHA256.fullmatch(stamp.checkpoint)
    }
    yield from plain(sorted(path for path in records if path.is_file()))


def plain(paths: Iterable[Path]) -> Iterator[Path]:
    """Keep finished files."""
    for path in paths:
        if any(part.endswith(PARTIAL) for part in path.parts):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise JudgedError(f"{path}: not a regular file; a bundle contains only regular files")
        if path.is_file():
            yield path
