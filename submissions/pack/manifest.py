"""Selects the files of a bundle and writes its manifest."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.bundle.manifest import (
    BUNDLE_FORMAT,
    Manifest,
    SealedFile,
    read_run_environment,
)
from compliance.kinds.podium.results import log_values
from compliance.results.indexed_result import IndexedResult
from submissions.result_index import locate_checkpoint_record
from suite import __version__
from suite.errors import JudgedError
from suite.events import CHECKPOINT, COMMAND_LINE, NONCE, PROFILE, ROUND, SEED
from suite.files.layout import PARTIAL_SUFFIX, compute_file_sha256, find_owning_results
from suite.ledger.book import Ledger
from suite.ledger.steps import compute_ledger_head, strip_packed_lines

SHA256_PATTERN: Final = re.compile(r"[0-9a-f]{64}")
"""Name of a checkpoint's folder; anything else in a log might be a path elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStamp:
    """Identity of one run, as recorded in its logs."""

    result: IndexedResult
    folder: Path
    """Folder of its logs."""
    round: str
    profile: str
    nonce: str
    checkpoint: str
    command: tuple[str, ...]
    seed: int | None


def iterate_run_stamps(results: Iterable[IndexedResult]) -> Iterator[RunStamp]:
    """Yield the stamp of every run."""
    for result in results:
        yield from (read_training_stamp(result, log) for log in result.training_logs)
        if result.scenario:
            for folder in (result.accuracy_folder, *result.performance_folders):
                yield read_loadgen_stamp(result, folder)


def read_training_stamp(result: IndexedResult, log: Path) -> RunStamp:
    found = log_values.read_training_values(log).stamps
    return RunStamp(
        result=result,
        folder=log.parent,
        round=str(found.get(ROUND)),
        profile=str(found.get(PROFILE)),
        nonce=str(found.get(NONCE)),
        checkpoint=str(found.get(CHECKPOINT) or ""),
        command=tuple(map(str, found.get(COMMAND_LINE) or ())),
        seed=found.get(SEED),
    )


def read_loadgen_stamp(result: IndexedResult, folder: Path) -> RunStamp:
    run = log_values.read_loadgen_run_record(folder)
    system = run.system
    return RunStamp(
        result=result,
        folder=folder,
        round=system.round,
        profile=system.profile,
        nonce=system.nonce,
        checkpoint=system.checkpoint_sha256,
        command=run.command,
        seed=None,
    )


def build_bundle_manifest(results: list[IndexedResult]) -> tuple[Manifest, dict[str, Path | bytes]]:
    """Build the manifest of some results, and a map from its files to their paths or bytes;
    JudgedError if the results do not belong together.
    """
    found = list(iterate_run_stamps(results))
    tree = results[0].results_root
    paths: dict[str, Path | bytes] = {
        path.relative_to(tree).as_posix(): path for path in iterate_bundle_files(results, found)
    }
    ledger_texts = read_bundle_ledgers(results)
    paths |= ledger_texts
    systems = {result.system: result.system_file for result in results}
    return (
        Manifest(
            format=BUNDLE_FORMAT,
            round=require_single_value("rounds", {stamp.round for stamp in found}),
            profile=require_single_value("profiles", {stamp.profile for stamp in found}),
            workloads=tuple(sorted({result.workload for result in results})),
            nonce={
                name: require_single_value(f"campaigns of {name}", nonces)
                for name, nonces in group_stamp_values(found, "nonce")
            },
            checkpoints={
                name: require_single_value(f"served checkpoints of {name}", hashes)
                for name, hashes in group_stamp_values(
                    select_checkpoint_stamps(found), "checkpoint"
                )
            },
            files={name: build_sealed_entry(path) for name, path in sorted(paths.items())},
            environment={
                name: read_run_environment(path) for name, path in sorted(systems.items())
            },
            commands=log_values.filter_duplicate_values(
                [list(stamp.command) for stamp in found if stamp.command]
            ),
            seeds=tuple(stamp.seed for stamp in found if stamp.seed is not None),
            version=__version__,
            ledger={name: compute_ledger_head(text) for name, text in sorted(ledger_texts.items())},
        ),
        paths,
    )


def build_sealed_entry(source: Path | bytes) -> SealedFile:
    """Hash and measure a file or bytes."""
    if isinstance(source, bytes):
        return SealedFile(sha256=hashlib.sha256(source).hexdigest(), size=len(source))
    return SealedFile(sha256=compute_file_sha256(source), size=source.stat().st_size)


def read_bundle_ledgers(results: list[IndexedResult]) -> dict[str, bytes]:
    """Read the ledgers of results, by their paths in the bundle; for staged results, the ledgers of
    the folder that they belong to.
    """
    found: dict[str, bytes] = {}
    for result in results:
        organisation_folder = find_owning_results(
            result.results_root
        ) / result.known_organisation_folder.relative_to(result.results_root)
        ledger = Ledger(
            results=find_owning_results(result.results_root),
            organisation_folder=organisation_folder,
            workload=result.workload,
        )
        if text := strip_packed_lines(ledger.read_bytes()):
            found[ledger.path.relative_to(ledger.results).as_posix()] = text
    return found


def require_single_value(what: str, values: set[str]) -> str:
    """Return the only value; JudgedError if there are several."""
    if len(values) != 1:
        raise JudgedError(
            f"a bundle can contain only one, found {len(values)} {what}: "
            f"{', '.join(sorted(values))}; choose with --workload and --system"
        )
    return next(iter(values))


def group_stamp_values(found: Iterable[RunStamp], field: str) -> Iterator[tuple[str, set[str]]]:
    """Yield (workload, all its values of a field)."""
    groups: dict[str, set[str]] = {}
    for stamp in found:
        groups.setdefault(stamp.result.workload, set()).add(getattr(stamp, field))
    yield from sorted(groups.items())


def select_checkpoint_stamps(found: Iterable[RunStamp]) -> Iterator[RunStamp]:
    """Yield each workload's served runs or, if nothing was served, its first training run with a
    checkpoint.
    """
    groups: dict[str, list[RunStamp]] = {}
    for stamp in found:
        groups.setdefault(stamp.result.workload, []).append(stamp)
    for group in groups.values():
        yield from [stamp for stamp in group if stamp.result.scenario] or [
            stamp for stamp in group if stamp.checkpoint
        ][:1]


def iterate_bundle_files(results: list[IndexedResult], found: Iterable[RunStamp]) -> Iterator[Path]:
    """Yield every file that goes into a bundle; JudgedError for a link or anything else that is not
    a regular file.
    """
    tree = results[0].results_root
    folders = {
        folder
        for result in results
        if result.scenario
        for folder in (result.folder, result.measurements_folder, *result.audit_folders)
    }
    folders |= {result.truth_folder for result in results}
    for folder in sorted(folders):
        yield from filter_finished_files(sorted(folder.rglob("*")))
    for result in results:
        yield from filter_finished_files(
            [result.system_file, *result.training_logs, *result.telemetry_files]
        )
    records = {
        locate_checkpoint_record(tree, stamp.result.workload, stamp.checkpoint)
        for stamp in found
        if SHA256_PATTERN.fullmatch(stamp.checkpoint)
    }
    yield from filter_finished_files(sorted(path for path in records if path.is_file()))


def filter_finished_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Select the finished files."""
    for path in paths:
        if any(part.endswith(PARTIAL_SUFFIX) for part in path.parts):
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise JudgedError(f"{path}: not a regular file; a bundle contains only regular files")
        if path.is_file():
            yield path
