"""Judge published inference results: a LoadGen run, an entry, a system, an organisation, a whole
submission.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from compliance.documents.inference_text.entry import TextAuditTest, TextEntry, TextRun
from compliance.documents.inference_text.organisation import (
    TextBenchmarkFolder,
    TextOrganisation,
    read_system_type,
    read_text_system,
)
from compliance.documents.inference_text.reader import (
    parse_entry_position,
    parse_text_run_mode,
    read_text_audit_tests,
    read_text_entry,
    read_text_run,
    resolve_folder_ignoring_case,
)
from compliance.judges.empty_path import describe_empty_target
from compliance.judges.recorder import ResultRecorder
from compliance.logs.source_file import ParseErrorKind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    has_loadgen_logs,
    is_scenario_folder,
)
from compliance.recognition.tree_path import (
    TreePosition,
    is_file,
    is_folder,
    list_subfolders,
    list_tree_organisations,
    match_scenario_folder,
    parse_tree_position,
)
from compliance.rules import judge_document
from compliance.verdict import About, Finding, ResultKind, Severity
from suite.files.layout import ACCURACY_LOG
from suite.rounds.inference_text import InferenceTextRound
from suite.workload import Mode

NOTHING_RECOGNISED: Final = "nothing that the judge recognises"
JUDGED_INFERENCE_PATHS: Final = "a LoadGen run, entry, system, organisation or submission"
COMPLIANCE_TEST_LENIENCY: Final = dict.fromkeys(FlawKind, Severity.WARNING)
"""Severity of parse errors in a compliance test's files: warnings, since the entry is valid without
the test.
"""


class InferenceTextJudge:
    """Judges paths by one published inference round; `truth` supplies labels if the tree has
    none.
    """

    def __init__(self, round: InferenceTextRound, truth: Path | None) -> None:
        self.round, self.truth = round, truth
        self.recorder = ResultRecorder()

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path, place = target.path, target.position
        match target.kind:
            case PathKind.RUN | PathKind.RUNS:
                yield from self.judge_run_folder(path, place)
            case PathKind.ENTRY:
                yield from self.judge_entry_folder(path, place)
            case PathKind.MEASUREMENTS if place and (results := find_measured_entry(path, place)):
                yield from self.judge_entry_folder(results, place)
            case PathKind.AUDIT if place:
                yield from self.judge_audit_folder(path, place)
            case PathKind.SYSTEM_FILE:
                yield from self.judge_system_file(path, place)
            case PathKind.BENCHMARK | PathKind.SYSTEM if place is None:
                yield from self.judge_loose_entries(path)
            case PathKind.BENCHMARK | PathKind.SYSTEM | PathKind.ORGANISATION if place:
                yield from self.judge_organisation(place)
            case PathKind.TREE:
                yield from self.judge_tree(path)
            case _:
                yield from self.report_unrecognised_path(path, *describe_empty_target(target))

    def apply_rules(self, document: object) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge_document(document, self.round.name)

    def judge_files(self, sources: Iterable[SourceFile]) -> Iterator[Finding]:
        """Apply the file rules."""
        for source in sources:
            yield from self.apply_rules(source)

    def report_unrecognised_path(
        self, path: Path, found: str = NOTHING_RECOGNISED, required: str = JUDGED_INFERENCE_PATHS
    ) -> Iterator[Finding]:
        """Yield the finding that there is nothing to judge."""
        source = SourceFile(path)
        source.add_parse_error(FlawKind.UNREADABLE, found, required)
        yield from self.apply_rules(source)

    def judge_run_folder(self, path: Path, place: TreePosition | None) -> Iterator[Finding]:
        """Judge one run, or all performance runs of an entry."""
        filed = parse_entry_position(place, path) if place else None
        if (
            not has_loadgen_logs(path)
            and path.name.casefold() == Mode.PERFORMANCE
            and path.parent != path
        ):
            yield from self.judge_entry_folder(path.parent, place)
            return
        benchmark = self.round.find_benchmark(filed.model, filed.division) if filed else None
        scenario = match_scenario_folder(filed.scenario) if filed else None
        closed = filed is not None and filed.division == "closed"
        run = read_text_run(
            path, parse_text_run_mode(path), self.round, scenario, benchmark, closed
        )
        yield from self.recorder.record_result(ResultKind.RUN, path, 0, self.judge_run(run))

    def judge_run(self, run: TextRun) -> Iterator[Finding]:
        """Judge a run that has been read."""
        figure = About.SCORE if run.performance else About.QUALITY
        run.summary_source.about = run.detail_source.about = figure
        if not run.performance:
            run.accuracy_source.about = About.QUALITY
        if run.performance and ACCURACY_LOG not in self.round.filing.performance_files:
            run.accuracy_source.leniency = {
                **run.accuracy_source.leniency,
                FlawKind.MISSING: Severity.INFO,
            }
        if not run.performance and self.round.filing.truncated_accuracy_bytes is not None:
            cut = {FlawKind.RECORD: Severity.INFO, FlawKind.CUT: Severity.INFO}
            run.accuracy_source.leniency = {**run.accuracy_source.leniency, **cut}
        yield from self.judge_files((run.summary_source, run.detail_source, run.accuracy_source))
        yield from self.apply_rules(run)

    def judge_entry_folder(self, path: Path, place: TreePosition | None) -> Iterator[Finding]:
        """Judge an entry with all its submitted files."""
        entry = read_text_entry(
            path, parse_entry_position(place, path) if place else None, self.round, self.truth
        )
        yield from self.judge_entry(entry)
        if place and entry.system_file and is_file(entry.system_file):
            yield from self.judge_system_file(entry.system_file, place)

    def judge_entry(self, entry: TextEntry) -> Iterator[Finding]:
        """Judge a parsed entry as one result."""
        yield from self.recorder.record_result(
            ResultKind.ENTRY, entry.folder, len(entry.runs), self.judge_entry_documents(entry)
        )

    def judge_entry_documents(self, entry: TextEntry) -> Iterator[Finding]:
        """Judge the runs of an entry, its other files and its compliance tests."""
        for run in entry.runs:
            yield from self.judge_run(run)
        if entry.accuracy is not None:
            yield from self.apply_rules(entry.claims.source)
        if entry.measurements:
            yield from self.judge_files(entry.measurements.sources)
        yield from self.apply_rules(entry)
        if entry.audit:
            for test in read_text_audit_tests(entry.audit, entry, self.round, self.truth):
                yield from self.judge_compliance_test(test)

    def judge_compliance_test(self, test: TextAuditTest) -> Iterator[Finding]:
        """Judge a compliance test; missing files are a warning."""
        if test.run:
            for source in (test.run.summary_source, test.run.detail_source):
                source.leniency = {**COMPLIANCE_TEST_LENIENCY, **source.leniency}
                yield from self.apply_rules(source)
        yield from self.apply_rules(test)

    def judge_audit_folder(self, path: Path, place: TreePosition) -> Iterator[Finding]:
        """Judge an entry's compliance tests by judging the whole entry, since they refer to its
        results.
        """
        parts = path.relative_to(place.organisation_folder).parts[1:]
        results = resolve_folder_ignoring_case(place.organisation_folder / "results", parts[:3])
        if len(parts) >= 3 and is_folder(results):
            yield from self.judge_entry_folder(results, place)
        elif len(parts) >= 3:
            yield from self.report_unrecognised_path(results)
        else:
            yield from self.judge_organisation(place)

    def judge_system_file(self, path: Path, place: TreePosition | None) -> Iterator[Finding]:
        """Judge a system description."""
        found = read_text_system(path, place, self.round)
        yield from self.apply_rules(found.source)
        yield from self.apply_rules(found)

    def judge_tree(self, path: Path) -> Iterator[Finding]:
        """Judge every organisation of a submission."""
        found = list(list_tree_organisations(path))
        if not found:
            yield from self.report_unrecognised_path(path)
        for home in found:
            yield from self.judge_organisation(TreePosition(organisation_folder=home))

    def judge_loose_entries(self, path: Path, depth: int = 2) -> Iterator[Finding]:
        """Judge the entries below a system's or benchmark's folder outside a submission tree."""
        for folder in list_subfolders(path) if depth else ():
            if match_scenario_folder(folder.name):
                yield from self.judge_entry_folder(folder, None)
            else:
                yield from self.judge_loose_entries(folder, depth - 1)

    def judge_organisation(self, place: TreePosition) -> Iterator[Finding]:
        """Judge an organisation, or one of its systems or benchmarks, with the system
        descriptions.
        """
        parts = self.collect_models(place)
        described = [
            path
            for path in list_json_files(place.organisation_folder / "systems")
            if place.system in (None, path.stem)
        ]
        yield from self.apply_rules(
            self.build_submission(place, parts, [path.stem for path in described])
        )
        for path in described:
            yield from self.judge_system_file(
                path, parse_tree_position(place.organisation_folder, ("systems", path.name))
            )
        for model in parts:
            yield from self.apply_rules(model)
            for folder in list_subfolders(model.folder):
                if match_scenario_folder(folder.name):
                    filed = parse_entry_position(place, folder)
                    yield from self.judge_entry(
                        read_text_entry(folder, filed, self.round, self.truth)
                    )

    def collect_models(self, place: TreePosition) -> list[TextBenchmarkFolder]:
        """Find the benchmarks of the systems to judge."""
        found = []
        for system in list_subfolders(place.organisation_folder / "results"):
            if place.system in (None, system.name):
                types = read_system_type(
                    place.organisation_folder / "systems" / f"{system.name}.json", self.round
                )
                found += [
                    self.build_model(folder, place, types)
                    for folder in list_subfolders(system)
                    if place.benchmark in (None, folder.name)
                ]
        return found

    def build_model(
        self, folder: Path, place: TreePosition, system_type: str | None
    ) -> TextBenchmarkFolder:
        """Build the document for a benchmark's folder."""
        scenarios = [
            each.name for each in list_subfolders(folder) if match_scenario_folder(each.name)
        ]
        return TextBenchmarkFolder(
            folder=folder,
            model=folder.name,
            scenarios=scenarios,
            place=place,
            system_type=system_type,
            round=self.round,
        )

    def build_submission(
        self, place: TreePosition, parts: list[TextBenchmarkFolder], described: list[str]
    ) -> TextOrganisation:
        """Build the document for the part of the tree that is judged."""
        systems = [
            folder.name
            for folder in list_subfolders(place.organisation_folder / "results")
            if place.system in (None, folder.name)
        ]
        closed = place.division == "closed"
        unexpected_folders = [
            part.folder
            for part in parts
            if closed and self.round.find_benchmark(part.model, "closed") is None
        ]
        unexpected_folders += [
            folder
            for part in parts
            for folder in list_subfolders(part.folder)
            if not match_scenario_folder(folder.name) and is_scenario_folder(folder)
        ]
        return TextOrganisation(
            place=place,
            systems=systems,
            described=described,
            models=parts,
            unexpected_paths=unexpected_folders,
            round=self.round,
        )


def find_measured_entry(path: Path, place: TreePosition) -> Path | None:
    """Return the entry that a measurements file describes."""
    parts = path.relative_to(place.organisation_folder / "measurements").parts
    return (
        resolve_folder_ignoring_case(place.organisation_folder / "results", parts[:3])
        if len(parts) > 3
        else None
    )


def list_json_files(folder: Path) -> list[Path]:
    """List the JSON files of a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix == ".json" and not path.name.startswith(".")
        )
    except OSError:
        return []
