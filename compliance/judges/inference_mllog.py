"""Judge published inference results since v1.0: a LoadGen run, an entry, a system, an organisation,
a whole submission.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.documents.endpoints.answers import TokenCounter
from compliance.documents.endpoints.audit import read_endpoints_audit
from compliance.documents.endpoints.entry import EndpointsEntry, read_endpoints_entry
from compliance.documents.inference_mllog.entry_documents import (
    MllogSystem,
    read_entry_documents,
    read_mllog_audit_tests,
    read_mllog_benchmark,
    read_mllog_system,
)
from compliance.documents.inference_mllog.run import (
    SCENARIO_FOLDERS,
    MllogEntry,
    MllogRun,
    parse_scenario_folder,
    read_mllog_entry,
    read_mllog_run,
)
from compliance.judges.empty_path import describe_empty_target
from compliance.judges.endpoints import judge_endpoints_run
from compliance.judges.recorder import ResultRecorder
from compliance.logs.source_file import ParseErrorKind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_endpoints_summary,
    has_loadgen_logs,
)
from compliance.recognition.tree_path import (
    TreePosition,
    is_folder,
    list_subfolders,
    list_tree_organisations,
)
from compliance.rules import judge_document
from compliance.verdict import About, Finding, ResultKind, Severity
from suite.rounds.inference_mllog import InferenceMllogRound
from suite.workload import Mode

RUN_FOLDER_NAMES: Final = ("accuracy", "performance")
"""Folders of runs, in a scenario's folder."""


class InferenceMllogJudge:
    """Judges paths by one published inference round since v1.0."""

    def __init__(self, round: InferenceMllogRound, counter: TokenCounter | None = None) -> None:
        self.round, self.counter = round, counter
        self.recorder = ResultRecorder()

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path, place = target.path, target.position
        match target.kind:
            case PathKind.RUN if find_endpoints_summary(path.parent):
                yield from self.judge_entry_folder(path.parent, place)
            case PathKind.RUN if path.name.casefold() != "performance" or has_loadgen_logs(path):
                yield from self.judge_run_folder(path, place)
            case PathKind.ENDPOINTS_RUN if summary := find_endpoints_summary(path):
                yield from self.judge_endpoints_entry(path, summary, place)
            case PathKind.RUNS | PathKind.RUN:
                yield from self.judge_entry_folder(path.parent, place)
            case PathKind.TREE:
                yield from self.judge_organisations(target, list(list_tree_organisations(path)))
            case PathKind.ORGANISATION if place:
                yield from self.judge_organisations(target, [place.organisation_folder])
            case PathKind.SYSTEM | PathKind.BENCHMARK | PathKind.ENTRY:
                yield from self.judge_entries_below(path, place)
                if not has_entry(path):
                    yield from self.report_path_fault(path, *describe_empty_target(target))
            case PathKind.SYSTEM_FILE | PathKind.MEASUREMENTS | PathKind.AUDIT if (
                place and place.system
            ):
                yield from self.judge_entries_below(
                    place.organisation_folder / "results" / place.system, place
                )
            case _:
                yield from self.report_path_fault(path, *describe_empty_target(target))

    def apply_rules(self, document: object) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge_document(document, self.round.name)

    def report_path_fault(
        self, path: Path, found: str, required: str, severity: Severity = Severity.ERROR
    ) -> Iterator[Finding]:
        """Yield a finding about a path."""
        source = SourceFile(path, leniency={FlawKind.UNREADABLE: severity})
        source.add_parse_error(FlawKind.UNREADABLE, found, required)
        yield from self.apply_rules(source)

    def judge_run_folder(self, path: Path, place: TreePosition | None) -> Iterator[Finding]:
        """Judge one run."""
        scenario = next(
            (found for each in path.parents[:3] if (found := parse_scenario_folder(each.name))),
            None,
        )
        mode = Mode.ACCURACY if path.name.casefold() == Mode.ACCURACY else Mode.PERFORMANCE
        run = read_mllog_run(
            path, mode, self.round, scenario, None, bool(place and place.division == "closed")
        )
        yield from self.recorder.record_result(ResultKind.RUN, path, 0, self.judge_run(run))

    def judge_run(self, run: MllogRun) -> Iterator[Finding]:
        """Judge a run that has been read."""
        figure = About.SCORE if run.performance else About.QUALITY
        run.source.about = run.summary_source.about = figure
        yield from self.apply_rules(run.source)
        yield from self.apply_rules(run.summary_source)
        yield from self.apply_rules(run)

    def judge_entry_folder(self, path: Path, place: TreePosition | None) -> Iterator[Finding]:
        """Judge an entry; a closed one with its system's description, measurements and compliance
        tests.
        """
        system = self.read_system_description(path, place) if place else None
        if summary := find_endpoints_summary(path):
            yield from self.judge_endpoints_entry(path, summary, place)
            yield from self.judge_system_description(system)
            return
        entry = read_mllog_entry(path, place, self.round, system.category if system else None)
        yield from self.recorder.record_result(
            ResultKind.ENTRY, path, len(entry.runs), self.judge_entry_documents(entry, place)
        )
        yield from self.judge_system_description(system)

    def judge_entry_documents(
        self, entry: MllogEntry, place: TreePosition | None
    ) -> Iterator[Finding]:
        """Judge the runs of an entry and, of a closed one, the documents submitted with it."""
        for run in entry.runs:
            yield from self.judge_run(run)
        yield from self.apply_rules(entry)
        if (
            place
            and entry.division == "closed"
            and is_path_below(entry.folder, place.organisation_folder / "results")
        ):
            yield from self.judge_filing(entry, place)

    def judge_endpoints_entry(
        self, path: Path, summary: Path, place: TreePosition | None
    ) -> Iterator[Finding]:
        """Judge an entry that was measured with the Endpoints client, without LoadGen's rules."""
        entry = read_endpoints_entry(path, summary, place, self.round, self.counter)
        yield from self.recorder.record_result(
            ResultKind.ENTRY,
            path,
            1,
            self.judge_endpoints_documents(entry, place),
            entry.run.evidence,
        )

    def judge_endpoints_documents(
        self, entry: EndpointsEntry, place: TreePosition | None
    ) -> Iterator[Finding]:
        """Judge the run, the accuracy, the caching test and the documents of an entry."""
        yield from judge_endpoints_run(entry.run, self.apply_rules)
        yield from self.apply_rules(entry.accuracy.source)
        yield from self.apply_rules(entry.accuracy)
        yield from self.apply_rules(entry)
        if audit := read_endpoints_audit(entry.folder):
            yield from self.apply_rules(audit.source)
            yield from self.apply_rules(audit)
        if place and entry.is_closed:
            documents = read_entry_documents(entry.folder, place, self.round, loadgen=False)
            if documents.source:
                yield from self.apply_rules(documents.source)
            yield from self.apply_rules(documents)

    def judge_system_description(self, system: MllogSystem | None) -> Iterator[Finding]:
        """Judge the description of an entry's system, if there is one."""
        if system is not None and system.path.is_file():
            yield from self.apply_rules(system.source)
            yield from self.apply_rules(system)

    def read_system_description(self, path: Path, place: TreePosition) -> MllogSystem:
        """Read the description of an entry's system."""
        return read_mllog_system(
            place.organisation_folder / "systems" / f"{path.parent.parent.name}.json",
            place,
            self.round,
        )

    def judge_filing(self, entry: MllogEntry, place: TreePosition) -> Iterator[Finding]:
        """Judge the documents submitted with an entry."""
        filing = read_entry_documents(entry.folder, place, self.round)
        if filing.source:
            yield from self.apply_rules(filing.source)
        yield from self.apply_rules(filing)
        for test in read_mllog_audit_tests(filing, entry.performance, entry.benchmark or ""):
            if test.run:
                yield from self.apply_rules(test.run.source)
                yield from self.apply_rules(test.run.summary_source)
            yield from self.apply_rules(test)

    def judge_organisations(
        self, target: RecognisedPath, organisations: list[Path]
    ) -> Iterator[Finding]:
        """Judge the organisations of a tree. One without any entry yields only that finding, an
        error if there is no other organisation.
        """
        filled = [home for home in organisations if has_entry(home / "results")]
        for home in organisations:
            yield from self.judge_entries_below(
                home / "results", TreePosition(organisation_folder=home)
            )
            if home not in filled and is_folder(home / "results"):
                yield from self.report_path_fault(
                    home / "results",
                    "no scenario folder",
                    "<system>/<benchmark>/<Scenario>",
                    Severity.WARNING,
                )
        if not filled:
            yield from self.report_path_fault(target.path, *describe_empty_target(target))

    def judge_entries_below(
        self, path: Path, place: TreePosition | None, depth: int = 3
    ) -> Iterator[Finding]:
        """Judge the entries in a folder and its subfolders, and whether closed benchmarks have all
        scenarios.
        """
        if parse_scenario_folder(path.name):
            yield from self.judge_entry_folder(path, place)
            return
        if any(is_folder(path / name) for name in RUN_FOLDER_NAMES):
            yield from self.report_path_fault(
                path,
                f"runs in a folder called {path.name}",
                f"one of {', '.join(dict.fromkeys(SCENARIO_FOLDERS.values()))}",
                Severity.WARNING,
            )
        inner = list(list_subfolders(path)) if depth else []
        if (
            place
            and place.division == "closed"
            and any(parse_scenario_folder(folder.name) for folder in inner)
        ):
            yield from self.apply_rules(read_mllog_benchmark(path, place, self.round))
        for folder in inner:
            yield from self.judge_entries_below(folder, place, depth - 1)


def has_entry(path: Path, depth: int = 3) -> bool:
    """Return whether a folder is a scenario's, or has one below it."""
    return parse_scenario_folder(path.name) is not None or (
        depth > 0 and any(has_entry(folder, depth - 1) for folder in list_subfolders(path))
    )


def is_path_below(path: Path, folder: Path) -> bool:
    """Return whether a path is below a folder."""
    return folder in path.parents
