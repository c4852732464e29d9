"""A ledger, with the organisation's results that it must account for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

import msgspec

from compliance.documents.base import FileDocument
from compliance.kinds.podium.documents.audit import Audit
from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.kinds.podium.documents.submission import Submission
from compliance.kinds.podium.documents.training import TrainingSet
from compliance.kinds.podium.documents.unjudged_files import (
    LOADGEN_RUN_FILES,
    SCORED_RUN_FILES,
)
from compliance.logs.source_file import ParseErrorKind, SourceFile, decode_strict_json
from compliance.recognition.tree_path import is_file, iterate_training_telemetry
from compliance.verdict import Severity
from suite.files.layout import (
    CHECKPOINT_RECORD,
    QUERY_RECORD_FILE,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
    locate_checkpoint_folder,
    locate_ledger_file,
)
from suite.files.untrusted_files import open_regular_file
from suite.ledger.book import compute_cached_sha256
from suite.ledger.history import FileHashes, collect_standing_files, group_superseded_units
from suite.ledger.steps import MAX_LEDGER_FILE_BYTES, RESULT_STEPS, LedgerStep, compute_line_sha256

HashedPath: TypeAlias = tuple[str, str]
"""Path relative to the results folder, and SHA-256."""
STEP_DECODER: Final = msgspec.json.Decoder(LedgerStep)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """One line of a ledger."""

    line: int
    """Counted from 1."""
    sha256: str
    """Hash of the line's bytes."""
    step: LedgerStep | None
    """None for an unreadable line, which the file's parse errors report."""


@dataclass(frozen=True, kw_only=True)
class LedgerFile(FileDocument):
    """One workload's ledger. Has no slots, since derived values are cached on it."""

    document_name: ClassVar[str] = "a ledger"

    workload: str
    ledger_lines: Sequence[LedgerLine]
    root: Path
    """The results folder, or the bundle."""
    submission: Submission
    sealed: bool
    """Whether it is in a sealed bundle, in which no step is still in progress."""

    @cached_property
    def steps(self) -> Sequence[LedgerStep]:
        """Return the readable steps."""
        return [link.step for link in self.ledger_lines if link.step]

    @cached_property
    def standing_files(self) -> Mapping[int, FileHashes]:
        """Return step number -> its files that are still in effect."""
        return collect_standing_files(self.steps)

    @cached_property
    def makers(self) -> Mapping[HashedPath, Sequence[LedgerStep]]:
        """Return each file that a step made, still in effect or not -> those steps."""
        found: dict[HashedPath, list[LedgerStep]] = {}
        for step in self.steps:
            if step.step in RESULT_STEPS:
                for pair in step.files.items():
                    found.setdefault(pair, []).append(step)
        return found

    @property
    def sets(self) -> Iterator[TrainingSet]:
        """Yield the workload's run sets."""
        return (
            group
            for group in self.submission.sets
            if any(log.workload == self.workload for log in group.logs)
        )

    @property
    def entries(self) -> Iterator[InferenceEntry]:
        """Yield the workload's inference entries."""
        return (entry for entry in self.submission.entries if entry.workload == self.workload)

    @property
    def audits(self) -> Iterator[Audit]:
        """Yield the workload's compliance tests."""
        return (
            audit
            for audit in self.submission.audits
            if audit.system and audit.system.workload == self.workload
        )

    def iterate_result_files(self) -> Iterator[Sequence[Path]]:
        """Yield the files that make up results, grouped by step: a training log with the telemetry
        that its step names, a LoadGen run, a checkpoint record.
        """
        for group in self.sets:
            for log in group.logs:
                yield [log.path, *self.list_named_telemetry(log.path)]
                if log.checkpoint and "/" not in log.checkpoint:
                    yield [self.resolve_checkpoint_record(log.checkpoint)]
        for entry in self.entries:
            yield from (list_run_files(run) for run in entry.runs)
        yield from (list(audit.files) for audit in self.audits)

    def list_named_telemetry(self, log: Path) -> Sequence[Path]:
        """Return the telemetry beside a training log that the steps name which made the log."""
        named = {name for step in self.find_making_steps([log]) for name in step.files}
        return [
            path
            for path in iterate_training_telemetry(log.parent)
            if path.relative_to(self.root).as_posix() in named
        ]

    def list_missing_files(self, step: LedgerStep, paths: Sequence[Path]) -> Sequence[str]:
        """Return the files that a step made together with some of these, and that are gone: not
        there, or superseded alone.
        """
        standing = self.standing_files.get(step.n, {})
        names = {path.relative_to(self.root).as_posix() for path in paths}
        units = (unit for unit in group_superseded_units(step.files) if names & unit.keys())
        return [
            name
            for unit in units
            for name in sorted(unit)
            if name not in standing or not is_file(self.root / name)
        ]

    def resolve_checkpoint_record(self, sha256: str) -> Path:
        """Return the path of a checkpoint's record."""
        return locate_checkpoint_folder(self.root, self.workload, sha256) / CHECKPOINT_RECORD

    @cached_property
    def hashed_paths(self) -> dict[Path, HashedPath | None]:
        """Return the paths that have been hashed so far: rules ask for the same ones."""
        return {}

    def hash_relative_path(self, path: Path) -> HashedPath | None:
        """Return a file's path and hash as the ledger records them; None if it is no file or cannot
        be read.
        """
        if path not in self.hashed_paths:
            found = None
            with suppress(OSError, ValueError):
                if is_file(path):
                    found = path.relative_to(self.root).as_posix(), compute_cached_sha256(path)
            self.hashed_paths[path] = found
        return self.hashed_paths[path]

    def find_making_steps(self, paths: Sequence[Path]) -> Sequence[LedgerStep]:
        """Return the steps that each made all of these files, whether the files are still in effect
        or not.
        """
        pairs = [pair for path in paths if (pair := self.hash_relative_path(path))]
        if not pairs:
            return []
        return [
            step
            for step in self.makers.get(pairs[0], ())
            if all(step.files.get(name) == sha256 for name, sha256 in pairs)
        ]

    def find_effective_steps(self, paths: Sequence[Path]) -> Sequence[LedgerStep]:
        """Return the steps by which these files are in effect."""
        names = {pair[0] for path in paths if (pair := self.hash_relative_path(path))}
        return [
            step
            for step in self.find_making_steps(paths)
            if names <= self.standing_files.get(step.n, {}).keys()
        ]

    def find_served_checkpoints(self, entry: InferenceEntry) -> Iterator[tuple[str, LedgerStep]]:
        """Yield the checkpoint of each run of an entry, and the step that makes the run
        effective.
        """
        for run in entry.runs:
            if run.record:
                for step in self.find_effective_steps(list_run_files(run))[:1]:
                    yield run.record.system.checkpoint_sha256, step


def list_run_files(run: LoadGenRun) -> Sequence[Path]:
    """Return the paths of a run's files."""
    measured = {QUERY_RECORD_FILE, TOKEN_RECORD_FILE, USAGE_RECORD_FILE, TELEMETRY_FILE}
    names = {*LOADGEN_RUN_FILES, *SCORED_RUN_FILES, *measured}
    return [run.folder / name for name in sorted(names)]


def read_ledger(source: SourceFile, submission: Submission, sealed: bool) -> LedgerFile:
    """Read a ledger; invalid lines are parse errors of its source. An unterminated last line means
    that its writer was killed.
    """
    if not sealed:
        source.leniency = {ParseErrorKind.CUT: Severity.WARNING}
    return LedgerFile(
        source=source,
        workload=source.path.stem,
        ledger_lines=list(read_ledger_lines(source)),
        root=submission.organisation_folder.parent.parent,
        submission=submission,
        sealed=sealed,
    )


def read_counted_files(path: Path) -> frozenset[str]:
    """Return the files that the steps of a ledger made, as paths in its results folder; empty
    without a ledger.
    """
    if not is_file(path):
        return frozenset()
    return frozenset(
        name
        for line in read_ledger_lines(SourceFile(path))
        if line.step is not None and line.step.step in RESULT_STEPS
        for name in line.step.files
    )


def read_clock_setback_s(organisation_folder: Path, workload: str) -> float:
    """Return by how much at most a step of a workload's ledger is earlier than one before it: each
    is written behind the one before, so the machine's clock was set. 0 without a ledger.
    """
    path = locate_ledger_file(organisation_folder, workload)
    if not is_file(path):
        return 0.0
    times = [
        moment
        for each in read_ledger_lines(SourceFile(path))
        if each.step is not None and (moment := parse_step_time(each.step)) is not None
    ]
    return max(
        (latest - moment for latest, moment in zip(accumulate(times, max), times, strict=True)),
        default=0.0,
    )


def parse_step_time(step: LedgerStep) -> float | None:
    """Return when a step was written, in seconds since 1970; None if it does not contain a time."""
    try:
        moment = datetime.fromisoformat(step.utc)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def read_ledger_lines(source: SourceFile) -> Iterator[LedgerLine]:
    """Yield the lines of a ledger as links."""
    try:
        with open_regular_file(source.path) as stream:
            text = stream.read(MAX_LEDGER_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return
    if len(text) > MAX_LEDGER_FILE_BYTES:
        source.add_parse_error(
            ParseErrorKind.UNREADABLE,
            f"more than {MAX_LEDGER_FILE_BYTES} bytes",
            f"at most {MAX_LEDGER_FILE_BYTES} bytes",
        )
        return
    *lines, rest = text.split(b"\n")
    for number, line in enumerate(lines, 1):
        yield LedgerLine(
            line=number,
            sha256=compute_line_sha256(line),
            step=decode_strict_json(source, STEP_DECODER, line, number),
        )
    if rest:
        source.add_parse_error(
            ParseErrorKind.CUT, "an incomplete last line", "complete lines", len(lines) + 1
        )
