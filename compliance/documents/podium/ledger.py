"""A ledger, with the results of its organisation that it has to account for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from compliance.documents.podium.inference import InferenceEntry
from compliance.documents.podium.submission import Submission
from compliance.documents.podium.training import TrainingSet
from compliance.documents.unjudged_files import RUN_FILES
from compliance.logs.source_file import Kind, SourceFile, decode
from compliance.recognition.tree_path import is_file
from compliance.verdict import Fault, Severity
from suite.files.layout import ACCURACY_TEXT, CHECKPOINT_RECORD, RUN_RECORD, checkpoint_folder
from suite.files.untrusted_files import opened
from suite.ledger.book import sha256_of
from suite.ledger.history import Pair, standing
from suite.ledger.steps import MAKING, SIZE_LIMIT, Step, line_sha256

DECODER = msgspec.json.Decoder(Step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One line."""

    line: int
    """From 1."""
    sha256: str
    """Of its bytes."""
    step: Step | None
    """None for a line that cannot be read, of which the file's flaws tell."""


@dataclass(frozen=True, kw_only=True)
class LedgerFile:
    """One workload's ledger. Without slots, since what its lines come to is worked out once."""

    source: SourceFile
    workload: str
    links: Sequence[Link]
    root: Path
    """The results folder, or the bundle."""
    submission: Submission
    sealed: bool
    """It lies in a bundle, where nothing is under way any more."""

    @cached_property
    def steps(self) -> Sequence[Step]:
        """The steps that can be read."""
        return [link.step for link in self.links if link.step]

    @cached_property
    def standing(self) -> Mapping[Pair, Sequence[Step]]:
        """What made each file that stands."""
        return standing(self.steps)

    @cached_property
    def made(self) -> Mapping[Pair, int]:
        """Each file that a step made, whether it stands or not -> the number of the last such step."""
        return {pair: step.n for step in self.steps if step.step in MAKING for pair in step.files.items()}

    @property
    def sets(self) -> Iterator[TrainingSet]:
        """Yield the workload's training sets."""
        return (group for group in self.submission.sets if any(log.workload == self.workload for log in group.logs))

    @property
    def entries(self) -> Iterator[InferenceEntry]:
        """Yield the workload's inference entries."""
        return (entry for entry in self.submission.entries if entry.workload == self.workload)

    @cached_property
    def counted(self) -> Sequence[Path]:
        """The files that results consist of: training logs, LoadGen's and podium's files of each run, records of the set's checkpoints."""
        logs = [log for group in self.sets for log in group.logs]
        runs = [run.folder / name for entry in self.entries for run in entry.runs for name in sorted({*RUN_FILES, ACCURACY_TEXT})]
        records = [self.record(log.checkpoint) for log in logs if log.checkpoint and "/" not in log.checkpoint]
        return [path for path in dict.fromkeys([*(log.path for log in logs), *runs, *records]) if is_file(path)]

    def record(self, sha256: str) -> Path:
        """Say where the record of a checkpoint lies."""
        return checkpoint_folder(self.root, self.workload, sha256) / CHECKPOINT_RECORD

    def pair(self, path: Path) -> Pair | None:
        """Name a file as the ledger does; None where it cannot be read."""
        try:
            return path.relative_to(self.root).as_posix(), sha256_of(path)
        except (OSError, ValueError):
            return None

    def makers(self, path: Path) -> Sequence[Step]:
        """Give the steps that a file that lies here stands by."""
        pair = self.pair(path)
        return self.standing.get(pair, ()) if pair else ()

    def served(self, entry: InferenceEntry) -> Iterator[tuple[str, Step]]:
        """Yield the checkpoint of each run of an entry, and the step that it stands by."""
        for run in entry.runs:
            for step in self.makers(run.folder / RUN_RECORD)[:1] if run.record else ():
                yield run.record.checkpoint_sha256 if run.record else "", step

    def fault(self, found: str, required: str, line: int | None = None, file: Path | None = None, severity: Severity | None = None) -> Fault:
        """Say what does not hold."""
        return Fault(file=file or self.source.path, found=found, required=required, line=line, severity=severity)


def read_ledger(source: SourceFile, submission: Submission, root: Path, sealed: bool) -> LedgerFile:
    """Read a ledger; lines that are none are flaws of its source. A last line without its end is one whose writer was killed."""
    if not sealed:
        source.leniency = {Kind.CUT: Severity.WARNING}
    return LedgerFile(source=source, workload=source.path.stem, links=list(links(source)), root=root, submission=submission, sealed=sealed)


def links(source: SourceFile) -> Iterator[Link]:
    """Yield the lines of a ledger."""
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
        yield Link(line=number, sha256=line_sha256(line), step=decode(source, DECODER, line, number))
    if rest:
        source.add(Kind.CUT, "a last line without its end", "whole lines", len(lines) + 1)
