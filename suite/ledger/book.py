"""Writes the ledger of a workload: one line per step, appended and synced before the step's files
get their final names.

So every result file has its line, no matter when the process is killed. The next command (`settle`)
closes lines whose files never got their final names, and attempts that began and did not end.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from suite.errors import JudgedError, MissingError
from suite.files.layout import (
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    ResultsEntry,
    compute_file_sha256,
    find_owning_results,
    is_inside_folder,
    iterate_staging_folders,
    locate_ledger_file,
    locate_state_folder,
    sync_to_disk,
)
from suite.files.untrusted_files import UnreadableError, open_regular_file, read_untrusted_file
from suite.ledger.history import (
    FileHashes,
    collect_standing_files,
    find_unended_attempts,
    group_superseded_units,
)
from suite.ledger.steps import (
    MAX_LEDGER_FILE_BYTES,
    RESULT_STEPS,
    AttemptKind,
    LedgerStep,
    StepKind,
    compute_line_sha256,
    encode_ledger_step,
    parse_ledger,
    split_ledger_lines,
)
from suite.rounds import Benchmark

MAX_CACHED_HASHES: Final = 16_384
"""Number of files whose hash a process caches while they do not change."""


class LedgerError(JudgedError):
    """A ledger that cannot be read or written; without it no result counts."""


class UnwritableLedgerError(LedgerError):
    """A ledger that this machine cannot write."""

    exit_code = MissingError.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """One workload's ledger in one organisation's folder."""

    results: Path
    """The results folder that it belongs to, never a staging folder."""
    organisation_folder: Path
    """`<results>/<division>/<org>`."""
    workload: str
    names: tuple[str, ...] = ()
    """Folders of the workload's results, below a system's folder; files that predate the ledger are
    recorded in its first line.
    """

    @property
    def path(self) -> Path:
        """Path of the ledger."""
        return locate_ledger_file(self.organisation_folder, self.workload)

    def read_bytes(self) -> bytes:
        """Read the ledger, empty if there is none; LedgerError if it cannot be read."""
        try:
            return read_untrusted_file(self.path, bytes, MAX_LEDGER_FILE_BYTES)
        except UnreadableError as error:
            if error.missing:
                return b""
            raise LedgerError(f"{error}; the ledger of all attempts must be readable") from error

    def read_steps(self) -> list[LedgerStep]:
        """Return all readable steps."""
        return list(parse_ledger(self.read_bytes()))

    def append(
        self,
        step: StepKind,
        files: Mapping[str, str] | None = None,
        *,
        utc: str | None = None,
        **step_fields: Any,
    ) -> None:
        """Append and sync one line, after removing a partial line left by a kill. `utc`: when the
        step took place; None: now. LedgerError if it cannot be written.
        """
        text = self.read_bytes()
        lines = split_ledger_lines(text)
        previous_sha256 = compute_line_sha256(lines[-1]) if lines else ""
        line = encode_ledger_step(
            LedgerStep(
                n=len(lines),
                step=step,
                utc=utc or format_utc_now(),
                files=dict(files or {}),
                previous=previous_sha256,
                **step_fields,
            )
        )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_ledger_line(self.path, sum(map(len, lines)) + len(lines), line)
            if not text:
                sync_to_disk(self.path.parent)
        except OSError as error:
            raise UnwritableLedgerError(
                f"{self.path}: {error.strerror}; no attempt counts without its line"
            ) from error

    def begin(self, what: AttemptKind, of: str, nonce: str, **step_fields: Any) -> None:
        """Record the begin of a run set or a LoadGen run; the first line lists the results
        that predate the ledger.
        """
        if not self.read_bytes():
            files = {
                path.relative_to(self.results).as_posix(): compute_cached_sha256(path)
                for path in self.iterate_earlier_results()
            }
        else:
            files = {}
        self.append(StepKind.BEGIN, files, what=what, of=of, nonce=nonce, **step_fields)

    def iterate_earlier_results(self) -> Iterator[Path]:
        """Yield the existing result files of this workload."""
        for name in self.names:
            for pattern in ("result_*.txt", "telemetry_*.jsonl"):
                yield from sorted(self.organisation_folder.glob(f"results/*/{name}/{pattern}"))
            for pattern in ("accuracy", "performance/run_*"):
                yield from sorted(
                    path
                    for path in self.organisation_folder.glob(f"results/*/{name}/*/{pattern}/*")
                    if path.is_file()
                )
        yield from sorted(
            (self.results / CHECKPOINTS_FOLDER / self.workload).glob(f"*/{CHECKPOINT_RECORD}")
        )

    def settle(self) -> None:
        """Record what happened since the last step: files that are no longer in place, and attempts
        that began and are no longer running.

        Call it only while no other process uses the results folder and no LoadGen run is active.
        """
        steps = self.read_steps()
        nonces = {step.n: step.nonce for step in steps}
        for number, files in collect_standing_files(steps).items():
            for unit in group_superseded_units(files):
                if not any(
                    has_unchanged_files(folder, unit)
                    for folder in iterate_staging_folders(self.results, self.workload)
                ):
                    self.append(StepKind.SUPERSEDED, unit, made=number, nonce=nonces[number])
        going_on = set(iterate_set_nonces(self.results, self.workload))
        for each in find_unended_attempts(steps):
            if each.what != AttemptKind.TRAINING or each.nonce not in going_on:
                self.append(StepKind.ABORTED, what=each.what, of=each.of, nonce=each.nonce)

    def record_restored(self) -> None:
        """Record superseded files that are in place again, unchanged; call it as `settle`."""
        steps = self.read_steps()
        standing = collect_standing_files(steps)
        for step in steps:
            if step.step not in RESULT_STEPS:
                continue
            superseded = {
                name: sha256
                for name, sha256 in step.files.items()
                if name not in standing.get(step.n, {})
            }
            for unit in group_superseded_units(superseded):
                if has_unchanged_files(self.results, unit):
                    self.append(StepKind.RESTORED, unit, made=step.n, nonce=step.nonce)


def build_ledger(entry: ResultsEntry, workload: str, row: Benchmark) -> Ledger:
    """Return the ledger that an attempt is recorded in."""
    results = find_owning_results(entry.results)
    names = tuple(dict.fromkeys((row.training_name, row.inference_name)))
    return Ledger(
        results=results,
        organisation_folder=results / entry.division / entry.org,
        workload=workload,
        names=names,
    )


def write_ledger_line(path: Path, offset: int, line: bytes) -> None:
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


def format_utc_now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def has_unchanged_files(results: Path, files: FileHashes) -> bool:
    """Return whether all of these files are in a results folder, unchanged."""
    try:
        return all(
            is_inside_folder(name) and compute_cached_sha256(results / name) == sha256
            for name, sha256 in files.items()
        )
    except (OSError, ValueError):  # a name in an untrusted ledger may not be a valid file name
        return False


def compute_cached_sha256(path: Path) -> str:
    """Hash a regular file, cached while it does not change; OSError if there is none."""
    with open_regular_file(path) as stream:
        status = os.fstat(stream.fileno())
    return compute_unchanged_sha256(path, status.st_ino, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=MAX_CACHED_HASHES)
def compute_unchanged_sha256(path: Path, inode: int, size: int, changed_ns: int) -> str:
    """Hash a file identified by these attributes."""
    return compute_file_sha256(path)


def compute_target_hashes(folder: Path, target: Path, results: Path) -> dict[str, str]:
    """Hash the files of a folder under the names that they will have in a results folder, below
    `target`.
    """
    return {
        (target / path.name).relative_to(results).as_posix(): compute_file_sha256(path)
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


def iterate_set_nonces(results: Path, workload: str) -> Iterable[str]:
    """Yield the nonces of run sets that are in progress or complete, from the state that
    `podium train` keeps.
    """
    for folder in iterate_staging_folders(results, workload):
        try:
            state = read_untrusted_file(
                locate_state_folder(folder, workload) / "campaign.json", json.loads
            )
        except UnreadableError:
            continue
        if isinstance(state, dict) and isinstance(state.get("nonce"), str):
            yield state["nonce"]


def compute_json_sha256(document: Mapping[str, Any]) -> str:
    """Hash a document in its written form: sorted keys, indented by two."""
    return compute_line_sha256(
        (json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()
    )
