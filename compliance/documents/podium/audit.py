"""A compliance test that podium ran: its runs, its record, and the result that it is about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import msgspec

from compliance.documents import unjudged_files
from compliance.documents.podium.inference import InferenceEntry, LoadGenRun, read_run
from compliance.logs.loadgen.accuracy_log import Answers
from compliance.logs.source_file import SourceFile, read_document, read_text
from compliance.recognition.tree_path import RUN, Place, folders, is_file
from compliance.verdict import Fault, Severity
from suite.audits.names import AuditTest
from suite.audits.rules import AuditRow, Rules, all_rules
from suite.audits.verdict import figure
from suite.files.layout import (
    ACCURACY,
    AUDIT_CONFIG,
    AUDIT_RECORD,
    AUDITS,
    REFERENCE,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
)
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord
from suite.rounds import Round
from suite.workload import Mode

RECORD: Final = msgspec.json.Decoder(AuditRecord)
FIELDS: Final = frozenset(field.name for field in fields(AuditRecord))
TEXT_LIMIT: Final = 1 << 16
"""Bytes of a file of words; podium writes a few lines."""
FILES: Final = (AUDIT_RECORD, AUDIT_CONFIG, VERIFY_PERFORMANCE, VERIFY_ACCURACY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One compliance test of one scenario."""

    folder: Path
    test: AuditTest | None
    """From the folder's name; None for another name."""
    scenario: Scenario | None
    record: AuditRecord | None
    reference: Sequence[LoadGenRun]
    found: Sequence[LoadGenRun]
    """The test's own runs."""
    words: Mapping[str, str]
    """File -> text of the files that tell how it went."""
    entry: InferenceEntry | None
    """The result that it is about; None if there is none."""
    sources: Sequence[SourceFile]
    strays: Sequence[Path]
    round: Round

    @property
    def rules(self) -> Rules | None:
        """The rules that it was run by; None if they are not known."""
        return all_rules().get(self.record.rules) if self.record else None

    @property
    def row(self) -> AuditRow | None:
        """The test's own rules; None if they are not known."""
        return self.rules.tests.get(self.test) if self.rules and self.test else None

    @property
    def runs(self) -> Sequence[LoadGenRun]:
        """All runs, in the order in which they have to have run."""
        pairs = [run for pair in zip(self.reference, self.found, strict=False) for run in pair]
        return [*pairs, *self.reference[len(self.found) :], *self.found[len(self.reference) :]]

    @property
    def silent(self) -> Iterator[tuple[LoadGenRun, str]]:
        """Yield the runs that do not tell the figure that is compared, and its key."""
        if self.rules is not None and self.scenario is not None:
            _, key = figure(self.rules, self.scenario)
            yield from ((run, key) for run in self.runs if run.number(key) is None)

    def figures(self, runs: Sequence[LoadGenRun]) -> list[float]:
        """Read the figure that is compared from each run; empty if one has none."""
        if self.rules is None or self.scenario is None:
            return []
        _, key = figure(self.rules, self.scenario)
        found = [run.number(key) for run in runs]
        return [] if None in found else [value for value in found if value is not None]

    @property
    def truth(self) -> Answers | None:
        """The accuracy run's answers, which TEST01's have to be; None for another test, or without
        that run.
        """
        return (
            self.entry.accuracy.answers
            if self.test is AuditTest.TEST01 and self.entry and self.entry.accuracy
            else None
        )

    @property
    def copy(self) -> Path:
        """The accuracy log as MLCommons files it."""
        return self.folder / Mode.ACCURACY / ACCURACY

    @property
    def files(self) -> Iterator[Path]:
        """Yield every file of the test."""
        yield from sorted(path for path in self.folder.rglob("*") if is_file(path))

    def fault(
        self, found: str, required: str, file: str = AUDIT_RECORD, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for one of its files."""
        return Fault(file=self.folder / file, found=found, required=required, severity=severity)


def audits_of(place: Place) -> Iterator[Path]:
    """Yield the folders of the compliance tests of a scenario."""
    if place.system and place.benchmark and place.scenario:
        yield from folders(
            place.home / AUDITS / place.system / place.benchmark / place.scenario.folder
        )


def read_audit(
    folder: Path, scenario: Scenario | None, entry: InferenceEntry | None, round: Round
) -> Audit:
    """Read a compliance test; problems are recorded as flaws of its sources."""
    record = SourceFile(folder / AUDIT_RECORD)
    words = {
        name: SourceFile(folder / name)
        for name in (VERIFY_PERFORMANCE, VERIFY_ACCURACY, AUDIT_CONFIG)
        if is_file(folder / name)
    }
    told = read_document(record, RECORD, FIELDS)
    rules = all_rules().get(told.rules) if told else None
    found = [
        [
            read_run(path, Mode.PERFORMANCE, scenario, round, rules)
            for path in numbered(folder / kind)
        ]
        for kind in (REFERENCE, Mode.PERFORMANCE)
    ]
    return Audit(
        folder=folder,
        test=next((test for test in AuditTest if test == folder.name), None),
        scenario=scenario,
        record=told,
        reference=found[0],
        found=found[1],
        words={name: read_text(source, TEXT_LIMIT) for name, source in words.items()},
        entry=entry,
        sources=[record, *words.values()],
        strays=tuple(strays(folder)),
        round=round,
    )


def numbered(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs by number."""
    found = [
        (int(match[1]), path) for path in folders(folder) if (match := RUN.fullmatch(path.name))
    ]
    yield from (path for _, path in sorted(found))


def strays(folder: Path) -> Iterator[Path]:
    """Yield whatever belongs to no compliance test."""
    parts = (REFERENCE, Mode.PERFORMANCE.value, Mode.ACCURACY.value)
    yield from unjudged_files.others(folder, lambda path: path.name in (*FILES, *parts))
    for kind in parts[:2]:
        yield from unjudged_files.others(
            folder / kind, lambda path: RUN.fullmatch(path.name) is not None
        )
    yield from unjudged_files.others(folder / Mode.ACCURACY, lambda path: path.name == ACCURACY)


def orphans(home: Path, entries: Sequence[InferenceEntry]) -> Iterator[Path]:
    """Yield the tests of an organisation whose scenario has no result."""
    known = {entry.folder for entry in entries}
    for scenario in (
        path
        for system in folders(home / AUDITS)
        for benchmark in folders(system)
        for path in folders(benchmark)
    ):
        if home / "results" / scenario.relative_to(home / AUDITS) not in known:
            yield from folders(scenario)
