"""Writes the ledger of a workload: one line per step, appended and synced before the step's files
get their final names.

So every result file has its line, no matter when the process is killed. The next command (`settle`)
closes lines whose files never got
their final names, and attempts that began and did not end.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from suite.errors import JudgedError
from suite.files.layout import (
    CHECKPOINT_RECORD,
    CHECKPOINTS,
    Entry,
    file_sha256,
    ledger_file,
    own_results,
    staged_places,
    state_folder,
    stays_inside,
    sync,
)
from suite.files.untrusted_files import UnreadableError, opened, read
from suite.ledger.history import Files, standing, unended, units
from suite.ledger.steps import (
    SIZE_LIMIT,
    Step,
    StepKind,
    What,
    encode,
    line_sha256,
    parse_all,
    whole_lines,
)
from suite.rounds import Benchmark

KNOWN_HASHES: Final = 16_384
"""Number of files whose hash a process caches while they do not change."""


class LedgerError(JudgedError):
    """A ledger that cannot be read or written; without it no result counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One workload's ledger in one organisation's folder."""

    results: Path
    """The results folder that it belongs to, never a staging folder."""
    home: Path
    """`<results>/<division>/<org>`."""
    workload: str
    names: tuple[str, ...] = ()
    """Folders of the workload's results, below a system's folder; files that predate the ledger are
    recorded in its first line.
    """

    @property
    def path(self) -> Path:
        """Path of the ledger."""
        return ledger_file(self.home, self.workload)

    def text(self) -> bytes:
        """Read the ledger, empty if there is none; LedgerError if it cannot be read."""
        try:
            return read(self.path, bytes, SIZE_LIMIT)
        except UnreadableError as error:
            if error.missing:
                return b""
            raise LedgerError(f"{error}; the ledger of all attempts has to be readable") from error

    def steps(self) -> list[Step]:
        """Return all readable steps."""
        return list(parse_all(self.text()))

    def append(self, step: StepKind, files: Mapping[str, str] | None = None, **told: Any) -> None:
        """Append and sync one line, after removing a partial line left by a kill. LedgerError if it
        cannot be written.
        """
        text = self.text()
        lines = whole_lines(text)
        link = line_sha256(lines[-1]) if lines else ""
        line = encode(
            Step(n=len(lines), step=step, utc=now(), files=dict(files or {}), previous=link, **told)
        )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_at(self.path, sum(map(len, lines)) + len(lines), line)
            if not text:
                sync(self.path.parent)
        except OSError as error:
            raise LedgerError(
                f"{self.path}: {error.strerror}; no attempt counts without its line"
            ) from error

    def begin(self, what: What, of: str, nonce: str, **told: Any) -> None:
        """Record the begin of a training set or a LoadGen run; the first line lists the results
        that predate the ledger.
        """
        files = (
            {}
            if self.text()
            else {
                path.relative_to(self.results).as_posix(): sha256_of(path) for path in self.before()
            }
        )
        self.append(StepKind.BEGIN, files, what=what, of=of, nonce=nonce, **told)

    def before(self) -> Iterator[Path]:
        """Yield the existing result files of this workload."""
        for name in self.names:
            yield from sorted(self.home.glob(f"results/*/{name}/result_*.txt"))
            for pattern in ("accuracy", "performance/run_*"):
                yield from sorted(
                    path
                    for path in self.home.glob(f"results/*/{name}/*/{pattern}/*")
                    if path.is_file()
                )
        yield from sorted(
            (self.results / CHECKPOINTS / self.workload).glob(f"*/{CHECKPOINT_RECORD}")
        )

    def settle(self) -> None:
        """Record what happened since the last step: files that are no longer in place, and attempts
        that began and are no longer running.

        Call it only while no other process uses the results folder and no LoadGen run is active.
        """
        steps = self.steps()
        nonces = {step.n: step.nonce for step in steps}
        for number, files in standing(steps).items():
            for unit in units(files):
                if not any(
                    stands(place, unit) for place in staged_places(self.results, self.workload)
                ):
                    self.append(StepKind.SUPERSEDED, unit, made=number, nonce=nonces[number])
        going_on = set(nonces_of_sets(self.results, self.workload))
        for each in unended(steps):
            if each.what != What.TRAINING or each.nonce not in going_on:
                self.append(StepKind.ABORTED, what=each.what, of=each.of, nonce=each.nonce)


def ledger_of(entry: Entry, workload: str, row: Benchmark) -> Ledger:
    """Return the ledger that an attempt is recorded in."""
    results = own_results(entry.results)
    names = tuple(dict.fromkeys((row.training_name, row.inference_name)))
    return Ledger(
        results=results, home=results / entry.division / entry.org, workload=workload, names=names
    )


def write_at(path: Path, offset: int, line: bytes) -> None:
    """Write a line after the last complete one, truncate what follows, and sync."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stands(place: Path, files: Files) -> bool:
    """Return whether all of these files are in a results folder, unchanged."""
    try:
        return all(
            stays_inside(name) and sha256_of(place / name) == sha256
            for name, sha256 in files.items()
        )
    except (OSError, ValueError):  # a name in an untrusted ledger may not be a valid file name
        return False


def sha256_of(path: Path) -> str:
    """Hash a regular file, cached while it does not change; OSError if there is none."""
    with opened(path) as stream:
        found = os.fstat(stream.fileno())
    return known_sha256(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=KNOWN_HASHES)
def known_sha256(path: Path, inode: int, size: int, changed_ns: int) -> str:
    """Hash a file identified by these attributes."""
    return file_sha256(path)


def files_in(folder: Path, target: Path, results: Path) -> dict[str, str]:
    """Hash the files of a folder under the names that they will have in a results folder, below
    `target`.
    """
    return {
        (target / path.name).relative_to(results).as_posix(): file_sha256(path)
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


def nonces_of_sets(results: Path, workload: str) -> Iterable[str]:
    """Yield the nonces of training sets that are in progress or complete, from the state that
    `podium train` keeps.
    """
    for place in staged_places(results, workload):
        try:
            state = read(state_folder(place, workload) / "campaign.json", json.loads)
        except UnreadableError:
            continue
        if isinstance(state, dict) and isinstance(state.get("nonce"), str):
            yield state["nonce"]


def json_sha256(document: Mapping[str, Any]) -> str:
    """Hash a document in its written form: sorted keys, indented by two."""
    return line_sha256(
        (json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()
    )
