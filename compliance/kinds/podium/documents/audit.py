"""Read a compliance test that podium ran: its runs, its record, the result that it checks, and what
the runs come to.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from compliance.documents.base import FolderDocument
from compliance.kinds.podium.documents import unjudged_files
from compliance.kinds.podium.documents.inference import (
    SYSTEM_RECORD_FIELDS,
    InferenceEntry,
    LoadGenRun,
    read_loadgen_run,
)
from compliance.logs.loadgen.accuracy_log import AnswerIndex
from compliance.logs.source_file import SourceFile, read_json_document, read_source_text
from compliance.recognition.tree_path import (
    PERFORMANCE_RUN_PATTERN,
    TreePosition,
    is_file,
    iterate_subfolders,
)
from compliance.verdict import Severity
from suite import registry
from suite.audits.names import AuditTest
from suite.audits.outcome import AuditOutcome
from suite.audits.rules import AuditRow, AuditRules, LoadGenSettings, read_audit_rules
from suite.audits.tokens import LoggedTokens, check_token_answers
from suite.audits.verdict import (
    compare_audit_runs,
    count_differing_answers,
    select_compared_metric,
)
from suite.files.layout import (
    ACCURACY_LOG,
    AUDIT_CONFIG,
    AUDIT_RECORD,
    AUDITS_FOLDER,
    REFERENCE_RUNS_FOLDER,
    SYSTEM_RECORD,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
)
from suite.loadgen.headline import VALID_RUN, VERDICT_KEY
from suite.loadgen.scenario import Scenario
from suite.records import SYSTEM_RECORD_DECODER, AuditRecord, SystemUnderTest
from suite.rounds import Round
from suite.workload import Mode

AUDIT_DECODER: Final = msgspec.json.Decoder(AuditRecord)
SAME_INDEX_SETTING: Final = "performance_issue_same_index"
UNIQUE_SAMPLES_SETTING: Final = "performance_issue_unique"
"""With it LoadGen issues each sample once, and calls a run INVALID that would have needed more."""
AUDIT_RECORD_FIELDS: Final = frozenset(field.name for field in fields(AuditRecord))
MAX_AUDIT_TEXT_BYTES: Final = 1 << 16
"""Maximum bytes of a verify file; podium writes a few lines."""
AUDIT_FILES: Final = (
    AUDIT_RECORD,
    AUDIT_CONFIG,
    VERIFY_PERFORMANCE,
    VERIFY_ACCURACY,
    SYSTEM_RECORD,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(FolderDocument):
    """One compliance test of one scenario."""

    document_name: ClassVar[str] = "a compliance test"
    main_file: ClassVar[str] = AUDIT_RECORD

    test: AuditTest | None
    """From the folder's name; None for another name."""
    scenario: Scenario | None
    record: AuditRecord | None
    system: SystemUnderTest | None
    """Its system under test; None if its record cannot be read."""
    reference_runs: Sequence[LoadGenRun]
    test_runs: Sequence[LoadGenRun]
    """The test's own runs."""
    texts: Mapping[str, str]
    """File -> text of the files that state the test's outcome."""
    entry: InferenceEntry | None
    """The result that it checks; None if there is none."""
    sources: Sequence[SourceFile]
    unexpected_paths: Sequence[Path]
    round: Round
    outcome: AuditOutcome | None = None
    """What its runs come to; None if rules or figures are missing."""

    @property
    def rules(self) -> AuditRules | None:
        """Return the rules of its run; None if they are unknown."""
        if not self.record:
            return None
        return read_audit_rules().get(self.record.rules)

    @property
    def row(self) -> AuditRow | None:
        """Return the test's own rules; None if they are unknown."""
        if self.rules and self.test:
            return self.rules.tests.get(self.test)
        return None

    @property
    def runs(self) -> Sequence[LoadGenRun]:
        """Return all runs, in the order in which they must have run."""
        pairs = [
            run for pair in zip(self.reference_runs, self.test_runs, strict=False) for run in pair
        ]
        return [
            *pairs,
            *self.reference_runs[len(self.test_runs) :],
            *self.test_runs[len(self.reference_runs) :],
        ]

    @property
    def runs_without_figure(self) -> Iterator[tuple[LoadGenRun, str]]:
        """Yield the runs without the compared figure, and its key."""
        if self.rules is not None and self.scenario is not None:
            _, key = select_compared_metric(self.rules, self.scenario)
            yield from ((run, key) for run in self.runs if run.find_number(key) is None)

    @property
    def failure_severity(self) -> Severity | None:
        """Return the severity of what a failed test found: a warning, since the result stays valid;
        the rule's own if the test passed, or if nobody can tell.
        """
        if self.outcome and not self.outcome.passed:
            return Severity.WARNING
        return None

    @property
    def reference_settings(self) -> LoadGenSettings:
        """Return LoadGen's settings of the reference runs that an ordinary run has not.
        MultiStream's queries repeat samples: LoadGen has no unique ones for it.
        """
        if self.row is None or self.scenario is Scenario.MULTI_STREAM:
            return {}
        return self.row.beside

    @property
    def test_settings(self) -> LoadGenSettings | None:
        """Return LoadGen's settings of the test's runs that an ordinary run has not, by the rules;
        TEST04 may issue any sample. None if the rules, the system or its row are unknown.
        """
        row, system, test, scenario = self.row, self.system, self.test, self.scenario
        benchmark = self.round.benchmarks.get(system.workload) if system else None
        if row is None or system is None or benchmark is None or test is None or scenario is None:
            return None
        made = row.build_loadgen_settings(
            test, scenario, benchmark.inference_name, system.nonce, system.checkpoint_sha256
        )
        if SAME_INDEX_SETTING in made and self.repeated_index is not None:
            return {**made, SAME_INDEX_SETTING: self.repeated_index}
        return made

    @property
    def repeated_index(self) -> int | None:
        """Return which of the loaded samples LoadGen issued again and again, by the log of the
        test's first run; None if that does not say.
        """
        for run in self.test_runs[:1]:
            found = run.find_value(f"effective_{SAME_INDEX_SETTING}")
            if type(found) is int and found >= 0:
                return found
        return None

    def collect_figures(self, runs: Sequence[LoadGenRun]) -> list[float]:
        """Read the compared figure of each run; empty if one has none."""
        if self.rules is None or self.scenario is None:
            return []
        _, key = select_compared_metric(self.rules, self.scenario)
        found = [run.find_number(key) for run in runs]
        if None in found:
            return []
        return [value for value in found if value is not None]

    @property
    def truth(self) -> AnswerIndex | None:
        """Return the accuracy run's answers, which TEST01's must equal; None for another test, or
        without that run.
        """
        if self.test is AuditTest.TEST01 and self.entry and self.entry.accuracy:
            return self.entry.accuracy.answers
        return None

    @property
    def end_tokens(self) -> Collection[int]:
        """Return the tokens that end an answer of the test's workload; none if it is unknown."""
        if not self.system:
            return ()
        return registry.list_end_tokens(self.system.workload, self.system.profile)

    @property
    def logged_tokens(self) -> Iterator[LoggedTokens]:
        """Yield the answers whose tokens are checked: those that TEST06's runs logged."""
        if self.test is not AuditTest.TEST06:
            return
        for run in self.test_runs:
            yield from map(run.answers.read_tokens, range(len(run.answers.samples)))

    @property
    def copy(self) -> Path:
        """Return the accuracy log in MLCommons' layout."""
        return self.folder / Mode.ACCURACY / ACCURACY_LOG

    @property
    def files(self) -> Iterator[Path]:
        """Yield every file of the test."""
        yield from sorted(path for path in self.folder.rglob("*") if is_file(path))


def find_audit_folders(place: TreePosition) -> Iterator[Path]:
    """Yield the folders of the compliance tests of a scenario."""
    if place.system and place.benchmark and place.scenario:
        yield from iterate_subfolders(
            place.organisation_folder
            / AUDITS_FOLDER
            / place.system
            / place.benchmark
            / place.scenario.folder
        )


def read_audit(
    folder: Path, scenario: Scenario | None, entry: InferenceEntry | None, round: Round
) -> Audit:
    """Read a compliance test; problems are recorded as parse errors of its sources."""
    record = SourceFile(folder / AUDIT_RECORD)
    text_sources = {
        name: SourceFile(folder / name)
        for name in (VERIFY_PERFORMANCE, VERIFY_ACCURACY, AUDIT_CONFIG)
        if is_file(folder / name)
    }
    stated_record = read_json_document(record, AUDIT_DECODER, AUDIT_RECORD_FIELDS)
    system = SourceFile(folder / SYSTEM_RECORD)
    rules = read_audit_rules().get(stated_record.rules) if stated_record else None
    found = [
        [
            read_loadgen_run(path, Mode.PERFORMANCE, scenario, round, rules)
            for path in iterate_numbered_run_folders(folder / kind)
        ]
        for kind in (REFERENCE_RUNS_FOLDER, Mode.PERFORMANCE)
    ]
    audit = Audit(
        folder=folder,
        test=next((test for test in AuditTest if test == folder.name), None),
        scenario=scenario,
        record=stated_record,
        system=read_json_document(system, SYSTEM_RECORD_DECODER, SYSTEM_RECORD_FIELDS),
        reference_runs=found[0],
        test_runs=found[1],
        texts={
            name: read_source_text(source, MAX_AUDIT_TEXT_BYTES)
            for name, source in text_sources.items()
        },
        entry=entry,
        sources=[record, system, *text_sources.values()],
        unexpected_paths=tuple(find_unexpected_audit_files(folder)),
        round=round,
    )
    return replace(audit, outcome=compute_audit_outcome(audit))


def compute_audit_outcome(audit: Audit) -> AuditOutcome | None:
    """Compute what the runs of a test come to; None if rules or figures are missing."""
    reference, found = map(audit.collect_figures, (audit.reference_runs, audit.test_runs))
    rules, row, scenario, test = audit.rules, audit.row, audit.scenario, audit.test
    if rules is None or row is None or scenario is None or test is None:
        return None
    if not (reference and found):
        return None
    answers, differing, token_checks = count_audit_answers(audit)
    return AuditOutcome(
        test=test,
        compared=compare_audit_runs(rules, row, scenario, reference, found),
        reference=tuple(reference),
        found=tuple(found),
        answers=answers,
        differing=differing,
        token_checks=token_checks,
        has_invalid_run=has_invalid_audit_run(audit),
    )


def count_audit_answers(audit: Audit) -> tuple[int, int, Mapping[str, bool | None]]:
    """Count the answers that a test is about, and those that differ or fail a check; return of
    TEST06 also whether all pass each check.
    """
    if audit.test is AuditTest.TEST06:
        return check_token_answers(audit.logged_tokens, audit.end_tokens)
    truth = audit.truth
    if truth is None:
        return 0, 0, {}
    found: dict[int, list[bytes]] = {}
    for run in audit.test_runs:
        for place, sample in enumerate(run.answers.samples):
            found.setdefault(sample, []).append(run.answers.read_answer(place))
    workload = audit.entry.workload or "" if audit.entry else ""
    return *count_differing_answers(found, truth, registry.load_agreement(workload)), {}


def has_invalid_audit_run(audit: Audit) -> bool:
    """Return whether LoadGen calls a run INVALID that must be VALID."""
    has_unique_samples = audit.reference_settings.get(UNIQUE_SAMPLES_SETTING)
    required = [*audit.test_runs, *(() if has_unique_samples else audit.reference_runs)]
    return any(run.find_value(VERDICT_KEY) != VALID_RUN or run.voiding_errors for run in required)


def iterate_numbered_run_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs by number."""
    found = [
        (int(match[1]), path)
        for path in iterate_subfolders(folder)
        if (match := PERFORMANCE_RUN_PATTERN.fullmatch(path.name))
    ]
    yield from (path for _, path in sorted(found))


def find_unexpected_audit_files(folder: Path) -> Iterator[Path]:
    """Yield the files and folders that belong to no compliance test."""
    parts = (REFERENCE_RUNS_FOLDER, Mode.PERFORMANCE.value, Mode.ACCURACY.value)
    yield from unjudged_files.find_unknown_paths(
        folder, lambda path: path.name in (*AUDIT_FILES, *parts)
    )
    for kind in parts[:2]:
        yield from unjudged_files.find_unknown_paths(
            folder / kind, lambda path: PERFORMANCE_RUN_PATTERN.fullmatch(path.name) is not None
        )
    yield from unjudged_files.find_unknown_paths(
        folder / Mode.ACCURACY, lambda path: path.name == ACCURACY_LOG
    )


def find_orphaned_audits(
    organisation_folder: Path, entries: Sequence[InferenceEntry]
) -> Iterator[Path]:
    """Yield the tests of an organisation whose scenario has no result."""
    known = {entry.folder for entry in entries}
    for scenario in (
        path
        for system in iterate_subfolders(organisation_folder / AUDITS_FOLDER)
        for benchmark in iterate_subfolders(system)
        for path in iterate_subfolders(benchmark)
    ):
        if (
            organisation_folder
            / "results"
            / scenario.relative_to(organisation_folder / AUDITS_FOLDER)
            not in known
        ):
            yield from iterate_subfolders(scenario)
