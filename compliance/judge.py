"""From a PATH to its result: recognise it, read its documents, apply every rule to every document."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from compliance.documents.training import TrainingLog, TrainingSet, read_log
from compliance.logs.source import Kind as FlawKind
from compliance.logs.source import SourceFile
from compliance.rules import judge
from compliance.tree import Kind, Place, Target, recognise, training_logs, unfinished
from compliance.verdict import Finding, Result, Severity, Verdict
from suite.rounds import Round


class Judge:
    """Judges paths by one round; what several documents refer to is read once."""

    def __init__(self, round: Round, truth: Path | None = None) -> None:
        self.round, self.truth = round, truth
        self.logs: dict[Path, TrainingLog] = {}

    def result(self, given: str) -> Result:
        """Judge one PATH as given; whatever is wrong with it is a finding."""
        target = recognise(Path(given))
        findings = tuple(dict.fromkeys(shown(finding, given, target.path) for finding in self.findings(target)))
        return Result(path=given, round=self.round.name, findings=findings)

    def findings(self, target: Target) -> Iterator[Finding]:
        """Apply what is known about this kind of path."""
        match target.kind:
            case Kind.LOG:
                yield from self.log(target.path, target.place)
            case Kind.SET:
                yield from self.set(target.path, target.place)
            case _:
                source = SourceFile(target.path)
                source.add(FlawKind.UNREADABLE, "nothing that the judge knows", "a log, set, entry, system, organisation, results tree or bundle")
                yield from self.apply(source)

    def apply(self, document: object, workload: str | None = None) -> Iterator[Finding]:
        """Apply all rules of the round to a document."""
        yield from judge(document, self.round.name, workload)

    def log(self, path: Path, place: Place | None) -> Iterator[Finding]:
        """Judge a training log; of a file with no record at all only the file is judged."""
        log = self.read(path, place)
        yield from self.apply(log.source)
        if log.records:
            yield from self.apply(log, log.workload)
        elif not log.source.flaws:
            yield from self.no_record(path)

    def no_record(self, path: Path) -> Iterator[Finding]:
        """Say that a file that reads well is no log."""
        source = SourceFile(path)
        source.add(FlawKind.RECORD, "no record in the file", "a log of :::MLLOG lines")
        yield from self.apply(source)

    def set(self, folder: Path, place: Place | None) -> Iterator[Finding]:
        """Judge a set: each log, where a run that did not converge is no error yet, and then all together."""
        logs = [self.read(path, place) for path in training_logs(folder)]
        for log in logs:
            for finding in self.log(log.path, place):
                yield replace(finding, severity=Severity.WARNING) if finding.weight is Verdict.NOT_CONVERGED else finding
        group = TrainingSet(folder=folder, logs=logs, unfinished=tuple(unfinished(folder)), place=place)
        yield from self.apply(group, logs[0].workload if logs else None)

    def read(self, path: Path, place: Place | None) -> TrainingLog:
        """Read a training log once."""
        if path not in self.logs:
            self.logs[path] = read_log(path, self.round, place)
        return self.logs[path]


def shown(finding: Finding, given: str, path: Path) -> Finding:
    """Name the finding's file as the user would: below the PATH as given, or from here."""
    file = Path(finding.file)
    if file.is_relative_to(path):
        return replace(finding, file=str(Path(given) / file.relative_to(path)))
    return replace(finding, file=os.path.relpath(file))
