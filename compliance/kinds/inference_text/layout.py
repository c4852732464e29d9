"""Open published inference results: a LoadGen run, an entry, a system, an organisation, a whole
submission.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from compliance.documents.role_files import list_second_loadgen_logs
from compliance.documents.submitted_runs import SubmittedRun, SubmittedRuns
from compliance.kinds.inference_text.documents.copied_run import identify_text_run
from compliance.kinds.inference_text.documents.entry import TextAuditTest, TextEntry, TextRun
from compliance.kinds.inference_text.documents.organisation import (
    TextBenchmarkFolder,
    TextOrganisation,
    read_inference_text_system,
    read_system_type,
)
from compliance.kinds.inference_text.documents.reader import (
    parse_entry_position,
    parse_text_run_mode,
    read_text_audit_tests,
    read_text_entry,
    read_text_run,
    resolve_folder_ignoring_case,
)
from compliance.kinds.inference_text.round import InferenceTextRound, load_inference_text_round
from compliance.logs.source_file import ParseErrorKind as FlawKind
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
    iterate_subfolders,
    iterate_tree_organisations,
    match_scenario_folder,
    parse_tree_position,
)
from compliance.verdict import About, ResultKind, Severity
from compliance.walk import JudgingAids, OpenPath, Piece, ResultPart, build_path_fault
from suite.files.layout import ACCURACY_LOG
from suite.workload import Mode

NOTHING_RECOGNISED: Final = "nothing that the judge recognises"
JUDGED_INFERENCE_PATHS: Final = "a LoadGen run, entry, system, organisation or submission"
COMPLIANCE_TEST_LENIENCY: Final = dict.fromkeys(FlawKind, Severity.WARNING)
"""Severity of parse errors in a compliance test's files: warnings, since the entry is valid without
the test.
"""


class InferenceTextLayout:
    """What results of a published inference round before v1.0 consist of; `truth` supplies labels
    if the tree has none.
    """

    def __init__(self, round: InferenceTextRound, truth: Path | None) -> None:
        self.round, self.truth = round, truth
        self.places: Mapping[PathKind, OpenPath] = {
            PathKind.RUN: self.open_run,
            PathKind.RUNS: self.open_run,
            PathKind.ENTRY: self.open_entry,
            PathKind.MEASUREMENTS: self.open_measurements,
            PathKind.AUDIT: self.open_audit,
            PathKind.SYSTEM_FILE: self.open_system_file,
            PathKind.BENCHMARK: self.open_system,
            PathKind.SYSTEM: self.open_system,
            PathKind.ORGANISATION: self.open_organisation,
            PathKind.TREE: self.open_tree,
        }

    def open_run(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open one run, or the entry whose performance runs are in a folder."""
        path, place = target.path, target.position
        if (
            not has_loadgen_logs(path)
            and path.name.casefold() == Mode.PERFORMANCE
            and path.parent != path
        ):
            return self.iterate_entry_folder(path.parent, place)
        filed = None
        if place:
            filed = parse_entry_position(place, path)
        benchmark = None
        scenario = None
        if filed:
            benchmark = self.round.find_benchmark(filed.model, filed.division)
            scenario = match_scenario_folder(filed.scenario)
        closed = filed is not None and filed.division == "closed"
        run = read_text_run(
            path, parse_text_run_mode(path), self.round, scenario, benchmark, closed
        )
        return [ResultPart(kind=ResultKind.RUN, path=path, contents=self.iterate_run(run))]

    def open_entry(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open an entry."""
        return self.iterate_entry_folder(target.path, target.position)

    def open_measurements(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the entry that a measurements file describes."""
        place = target.position
        results = None
        if place:
            results = find_measured_entry(target.path, place)
        if results:
            return self.iterate_entry_folder(results, place)
        return None

    def open_audit(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the entry of compliance tests, since they refer to its results."""
        path, place = target.path, target.position
        if place is None:
            return None
        parts = path.relative_to(place.organisation_folder).parts[1:]
        results = resolve_folder_ignoring_case(place.organisation_folder / "results", parts[:3])
        if len(parts) < 3:
            return self.iterate_organisation(place, [])
        if not is_folder(results):
            return [build_path_fault(results, NOTHING_RECOGNISED, JUDGED_INFERENCE_PATHS)]
        return self.iterate_entry_folder(results, place)

    def open_system_file(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a system description."""
        return self.iterate_system_file(target.path, target.position)

    def open_system(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a system or a benchmark of one, in a tree or outside."""
        if target.position is None:
            return self.iterate_loose_entries(target.path)
        return self.iterate_organisation(target.position, [])

    def open_organisation(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the submission of an organisation."""
        if target.position:
            return self.iterate_organisations(target, [target.position])
        return None

    def open_tree(self, target: RecognisedPath) -> Iterator[Piece]:
        """Open the submissions of a tree."""
        found = list(iterate_tree_organisations(target.path))
        if not found:
            yield build_path_fault(target.path, NOTHING_RECOGNISED, JUDGED_INFERENCE_PATHS)
        places = [TreePosition(organisation_folder=home) for home in found]
        yield from self.iterate_organisations(target, places)

    def iterate_organisations(
        self, target: RecognisedPath, places: Sequence[TreePosition]
    ) -> Iterator[Piece]:
        """Open organisations, then what tells all of their runs apart."""
        submitted: list[SubmittedRun] = []
        for place in places:
            yield from self.iterate_organisation(place, submitted)
        yield SubmittedRuns(root=target.path, runs=submitted)

    def iterate_run(self, run: TextRun) -> Iterator[Piece]:
        """Open a run that has been read."""
        if run.performance:
            figure = About.SCORE
        else:
            figure = About.QUALITY
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
        yield from (run.summary_source, run.detail_source, run.accuracy_source)
        yield run
        yield from list_second_loadgen_logs(run.folder)

    def iterate_entry_folder(self, path: Path, place: TreePosition | None) -> Iterator[Piece]:
        """Open an entry with all its submitted files."""
        entry = read_text_entry(
            path, parse_entry_position(place, path) if place else None, self.round, self.truth
        )
        yield self.build_entry(entry)
        if place and entry.system_file and is_file(entry.system_file):
            yield from self.iterate_system_file(entry.system_file, place)

    def build_entry(self, entry: TextEntry) -> ResultPart:
        """Build the result of an entry that has been read."""
        return ResultPart(
            kind=ResultKind.ENTRY,
            path=entry.folder,
            files=len(entry.runs),
            contents=self.iterate_entry_documents(entry),
        )

    def iterate_entry_documents(self, entry: TextEntry) -> Iterator[Piece]:
        """Open the runs of an entry, its other files and its compliance tests."""
        for run in entry.runs:
            yield from self.iterate_run(run)
        if entry.accuracy is not None:
            yield entry.claims.source
        if entry.measurements:
            yield from entry.measurements.sources
        yield entry
        if entry.audit:
            for test in read_text_audit_tests(entry.audit, entry, self.round, self.truth):
                yield from self.iterate_compliance_test(test)

    def iterate_compliance_test(self, test: TextAuditTest) -> Iterator[Piece]:
        """Open a compliance test; missing files are a warning."""
        if test.run:
            for source in (test.run.summary_source, test.run.detail_source):
                source.leniency = {**COMPLIANCE_TEST_LENIENCY, **source.leniency}
                yield source
        yield test

    def iterate_system_file(self, path: Path, place: TreePosition | None) -> Iterator[Piece]:
        """Open a system description."""
        found = read_inference_text_system(path, place, self.round)
        yield found.source
        yield found

    def iterate_loose_entries(self, path: Path, depth: int = 2) -> Iterator[Piece]:
        """Open the entries below a system's or benchmark's folder outside a submission tree."""
        if not depth:
            return
        for folder in iterate_subfolders(path):
            if match_scenario_folder(folder.name):
                yield from self.iterate_entry_folder(folder, None)
            else:
                yield from self.iterate_loose_entries(folder, depth - 1)

    def iterate_organisation(
        self, place: TreePosition, submitted: list[SubmittedRun]
    ) -> Iterator[Piece]:
        """Open an organisation, or one of its systems or benchmarks, with the system descriptions.
        What tells its runs from all others is added to `submitted`.
        """
        parts = self.collect_models(place)
        described = [
            path
            for path in list_json_files(place.organisation_folder / "systems")
            if place.system in (None, path.stem)
        ]
        yield self.build_submission(place, parts, [path.stem for path in described])
        for path in described:
            yield from self.iterate_system_file(
                path, parse_tree_position(place.organisation_folder, ("systems", path.name))
            )
        for model in parts:
            yield model
            for folder in iterate_subfolders(model.folder):
                if match_scenario_folder(folder.name):
                    filed = parse_entry_position(place, folder)
                    entry = read_text_entry(folder, filed, self.round, self.truth)
                    system = model.folder.parent.name
                    submitted += [identify_text_run(run, place.org, system) for run in entry.runs]
                    yield self.build_entry(entry)

    def collect_models(self, place: TreePosition) -> list[TextBenchmarkFolder]:
        """Find the benchmarks of the systems to judge."""
        found = []
        for system in iterate_subfolders(place.organisation_folder / "results"):
            if place.system in (None, system.name):
                types = read_system_type(
                    place.organisation_folder / "systems" / f"{system.name}.json", self.round
                )
                found += [
                    self.build_model(folder, place, types)
                    for folder in iterate_subfolders(system)
                    if place.benchmark in (None, folder.name)
                ]
        return found

    def build_model(
        self, folder: Path, place: TreePosition, system_type: str | None
    ) -> TextBenchmarkFolder:
        """Build the document for a benchmark's folder."""
        scenarios = [
            each.name for each in iterate_subfolders(folder) if match_scenario_folder(each.name)
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
            for folder in iterate_subfolders(place.organisation_folder / "results")
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
            for folder in iterate_subfolders(part.folder)
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
    if len(parts) > 3:
        return resolve_folder_ignoring_case(place.organisation_folder / "results", parts[:3])
    return None


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


def build_inference_text_layout(round_name: str, aids: JudgingAids) -> InferenceTextLayout:
    """Build the layout of a round of this kind."""
    return InferenceTextLayout(load_inference_text_round(round_name), aids.truth)
