"""A ledger, with the organisation's results that it must account for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from compliance.documents.podium.audit import Audit
from compliance.documents.podium.inference import InferenceEntry, LoadGenRun
from compliance.documents.podium.submission import Submission
from compliance.documents.podium.training import TrainingSet
from compliance.documents.unjudged_files import RUN_FILES
from compliance.logs.source_file import Kind, SourceFile, decode
from compliance.recognition.tree_path import is_file
from compliance.verdict import Fault, Severity
from suite.files.layout import (
    ACCURACY_TEXT,
    CHECKPOINT_RECORD,
    QUERIES,
    TELEMETRY,
    checkpoint_folder,
)
from suite.files.untrusted_files import opened
from suite.ledger.book import sha256_of
from suite.ledger.history import Files, standing
from suite.ledger.steps import MAKING, SIZE_LIMIT, Step, line_sha256

Pair: TypeAlias = tuple[str, str]
"""Path relative to the results folder, and SHA-256."""
DECODER: Final = msgspec.json.Decoder(Step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One line of a ledger."""

    line: int
    """Counted from 1."""
    sha256: str
    """Hash of the line's bytes."""
    step: Step | None
    """None for an unreadable line, which the file's flaws report."""


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """One workload's ledger. Has no slots, since derived values are cached on it."""

    source: SourceFile
    workload: str
    links: Sequence[Link]
    root: Path
    """The results folder, or the bundle."""
    submission: Submission
    sealed: bool
    """Whether it lies in a sealed bundle, where no step is still in progress."""

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The readable steps."""
        return [link.step for link in self.links if link.step]

    @cached_property
    def standing(self) -> Mapping[int, Files]:
        """Step number -> its files that are still in effect."""
        return standing(self.steps)

    @cached_property
    def makers(self) -> Mapping[Pair, Sequence[Step]]:
        """Each file that a step made, still in effect or not -> those steps."""
        found: dict[Pair, list[Step]] = {}
        for step in self.steps:
            for pair in step.files.items() if step.step in MAKING else ():
                found.setdefault(pair, []).append(step)
        return found

    @property
    def sets(self) -> Iterator[TrainingSet]:
        """Yield the workload's training sets."""
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
            if audit.record and audit.record.workload == self.workload
        )

    def counted(self) -> Iterator[Sequence[Path]]:
        """Yield the files that make up results, grouped by step: a training log, a LoadGen run, a
        checkpoint record.
        """
        for group in self.sets:
            for log in group.logs:
                yield [log.path]
                yield (
                    [self.record(log.checkpoint)]
                    if log.checkpoint and "/" not in log.checkpoint
                    else []
                )
        for entry in self.entries:
            yield from (run_files(run) for run in entry.runs)
        yield from (list(audit.files) for audit in self.audits)

    def record(self, sha256: str) -> Path:
        """Return the path of a checkpoint's record."""
        return checkpoint_folder(self.root, self.workload, sha256) / CHECKPOINT_RECORD

    def pair(self, path: Path) -> Pair | None:
        """Return a file's path and hash as the ledger records them; None if it cannot be read."""
        try:
            return path.relative_to(self.root).as_posix(), sha256_of(path)
        except (OSError, ValueError):
            return None

    def made(self, paths: Sequence[Path]) -> Sequence[Step]:
        """Return the steps that each made all of these files, whether the files are still in effect
        or not.
        """
        pairs = [pair for path in paths if is_file(path) and (pair := self.pair(path))]
        return (
            [
                step
                for step in self.makers.get(pairs[0], ())
                if all(step.files.get(name) == sha256 for name, sha256 in pairs)
            ]
            if pairs
            else []
        )

    def kept(self, paths: Sequence[Path]) -> Sequence[Step]:
        """Return the steps by which these files are in effect."""
        names = {pair[0] for path in paths if is_file(path) and (pair := self.pair(path))}
        return [step for step in self.made(paths) if names <= self.standing.get(step.n, {}).keys()]

    def served(self, entry: InferenceEntry) -> Iterator[tuple[str, Step]]:
        """Yield the checkpoint of each run of an entry, and the step by which the run is in
        effect.
        """
        for run in entry.runs:
            for step in self.kept(run_files(run))[:1] if run.record else ():
                yield run.record.checkpoint_sha256 if run.record else "", step

    def fault(
        self,
        found: str,
        required: str,
        line: int | None = None,
        file: Path | None = None,
        severity: Severity | None = None,
    ) -> Fault:
        """Build a Fault."""
        return Fault(
            file=file or self.source.path,
            found=found,
            required=required,
            line=line,
            severity=severity,
        )


def run_files(run: LoadGenRun) -> Sequence[Path]:
    """Return the paths of a run's files."""
    return [run.folder / name for name in sorted({*RUN_FILES, ACCURACY_TEXT, QUERIES, TELEMETRY})]


def read_ledger(source: SourceFile, submission: Submission, sealed: bool) -> LedgerFile:
    """Read a ledger; invalid lines are flaws of its source. An unterminated last line means that
    its writer was killed.
    """
    if not sealed:
        source.leniency = {Kind.CUT: Severity.WARNING}
    return LedgerFile(
        source=source,
        workload=source.path.stem,
        links=list(links(source)),
        root=submission.home.parent.parent,
        submission=submission,
        sealed=sealed,
    )


def links(source: SourceFile) -> Iterator[Link]:
    """Yield the lines of a ledger as links."""
    try:
        with opened(source.path) as stream:
            text = stream.read(SIZE_LIMIT + 1)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return
    if len(text) > SIZE_LIMIT:
        source.add(Kind.UNREADABLE, f"more than {SIZE_LIMIT} bytes", f"at most {SIZE_LIMIT} bytes")
        return
    *lines, rest = text.split(b"\n")
    for number, line in enumerate(lines, 1):
        yield Link(
            line=number, sha256=line_sha256(line), step=decode(source, DECODER, line, number)
        )
    if rest:
        source.add(Kind.CUT, "a last line without its end", "whole lines", len(lines) + 1)
