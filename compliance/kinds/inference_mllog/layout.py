"""Open published inference results since v1.0: a LoadGen run, an entry, a system, an organisation,
a whole submission.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from compliance.documents.loadgen import identify_loadgen_run
from compliance.documents.role_files import list_second_loadgen_logs
from compliance.documents.submitted_runs import SubmittedRun, SubmittedRuns
from compliance.empty_path import describe_empty_target
from compliance.kinds.endpoints.documents.copied_run import identify_client_run
from compliance.kinds.endpoints.layout import iterate_run
from compliance.kinds.endpoints.recognition import find_endpoints_summary
from compliance.kinds.inference_mllog.documents.endpoints_entry import (
    EndpointsEntry,
    measure_entry,
    read_endpoints_entry,
)
from compliance.kinds.inference_mllog.documents.entry_documents import (
    MllogSystem,
    read_entry_documents,
    read_mllog_audit_tests,
    read_mllog_benchmark,
    read_mllog_system,
)
from compliance.kinds.inference_mllog.documents.run import (
    SCENARIO_FOLDERS,
    MllogEntry,
    MllogRun,
    parse_scenario_folder,
    read_mllog_entry,
    read_mllog_run,
)
from compliance.kinds.inference_mllog.round import InferenceMllogRound, load_inference_mllog_round
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    has_loadgen_logs,
)
from compliance.recognition.tree_path import (
    TreePosition,
    is_folder,
    iterate_subfolders,
    iterate_tree_organisations,
)
from compliance.token_counter import TokenCounter
from compliance.verdict import About, ResultKind, Severity
from compliance.walk import JudgingAids, OpenPath, Piece, ResultPart, build_path_fault
from suite.workload import Mode

RUN_FOLDER_NAMES: Final = ("accuracy", "performance")
"""Folders of runs, in a scenario's folder."""


class InferenceMllogLayout:
    """What results of a published inference round since v1.0 consist of."""

    def __init__(self, round: InferenceMllogRound, counter: TokenCounter | None = None) -> None:
        self.round, self.counter = round, counter
        self.places: Mapping[PathKind, OpenPath] = {
            PathKind.RUN: self.open_run,
            PathKind.RUNS: self.open_runs,
            PathKind.ENDPOINTS_RUN: self.open_client_run,
            PathKind.ENTRY: self.open_entries,
            PathKind.BENCHMARK: self.open_entries,
            PathKind.SYSTEM: self.open_entries,
            PathKind.SYSTEM_FILE: self.open_described_entries,
            PathKind.MEASUREMENTS: self.open_described_entries,
            PathKind.AUDIT: self.open_described_entries,
            PathKind.ORGANISATION: self.open_organisation,
            PathKind.TREE: self.open_tree,
        }

    def open_run(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open one run, or the entry of which the folder is a part."""
        path = target.path
        is_single = path.name.casefold() != "performance" or has_loadgen_logs(path)
        if find_endpoints_summary(path.parent) or not is_single:
            return self.open_runs(target)
        run = self.read_single_run(path, target.position)
        return [ResultPart(kind=ResultKind.RUN, path=path, contents=self.iterate_run(run))]

    def open_runs(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open the entry whose performance runs are in a folder."""
        return self.iterate_entry(target.path.parent, target.position, [])

    def open_client_run(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open a run of the Endpoints client as an entry."""
        summary = find_endpoints_summary(target.path)
        if summary is None:
            return None
        place = target.position
        entry = read_endpoints_entry(target.path, summary, place, self.round, self.counter)
        return [self.build_endpoints_entry(entry, place)]

    def open_entries(self, target: RecognisedPath) -> Iterator[Piece]:
        """Open the entries of a system, a benchmark or a scenario."""
        yield from self.iterate_entries_below(target.path, target.position, [])
        if not has_entry(target.path):
            yield build_path_fault(target.path, *describe_empty_target(target))

    def open_described_entries(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open all entries of the system that a file beside the results is about."""
        place = target.position
        if place is None or place.system is None:
            return None
        return self.iterate_entries_below(
            place.organisation_folder / "results" / place.system, place, []
        )

    def open_organisation(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open the submission of an organisation."""
        if target.position is None:
            return None
        return self.iterate_organisations(target, [target.position.organisation_folder])

    def open_tree(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open the submissions of a tree."""
        return self.iterate_organisations(target, list(iterate_tree_organisations(target.path)))

    def read_single_run(self, path: Path, place: TreePosition | None) -> MllogRun:
        """Read a run that is judged on its own."""
        scenario = next(
            (found for each in path.parents[:3] if (found := parse_scenario_folder(each.name))),
            None,
        )
        if path.name.casefold() == Mode.ACCURACY:
            mode = Mode.ACCURACY
        else:
            mode = Mode.PERFORMANCE
        return read_mllog_run(
            path, mode, self.round, scenario, None, bool(place and place.division == "closed")
        )

    def iterate_run(self, run: MllogRun) -> Iterator[Piece]:
        """Open a run that has been read."""
        if run.performance:
            figure = About.SCORE
        else:
            figure = About.QUALITY
        run.source.about = run.summary_source.about = figure
        yield run.source
        yield run.summary_source
        yield run
        yield from list_second_loadgen_logs(run.folder)

    def iterate_entry(
        self, path: Path, place: TreePosition | None, submitted: list[SubmittedRun]
    ) -> Iterator[Piece]:
        """Open an entry; a closed one with its system's description, measurements and compliance
        tests. What tells its runs from all others is added to `submitted`.
        """
        system_name = path.parent.parent.name
        system = None
        if place:
            system = self.read_system_description(path, place)
        if summary := find_endpoints_summary(path):
            measured = read_endpoints_entry(path, summary, place, self.round, self.counter)
            if place:
                submitted.append(identify_client_run(measured.run, place.org, system_name))
            yield self.build_endpoints_entry(measured, place)
        else:
            entry = read_mllog_entry(path, place, self.round, system.category if system else None)
            if place:
                submitted += [
                    identify_loadgen_run(run, place.org, system_name) for run in entry.runs
                ]
            yield ResultPart(
                kind=ResultKind.ENTRY,
                path=path,
                files=len(entry.runs),
                contents=self.iterate_entry_documents(entry, place),
            )
        yield from self.iterate_system_description(system)

    def iterate_entry_documents(
        self, entry: MllogEntry, place: TreePosition | None
    ) -> Iterator[Piece]:
        """Open the runs of an entry and, of a closed one, the documents submitted with it."""
        for run in entry.runs:
            yield from self.iterate_run(run)
        yield entry
        if (
            place
            and entry.division == "closed"
            and is_path_below(entry.folder, place.organisation_folder / "results")
        ):
            yield from self.iterate_filing(entry, place)

    def build_endpoints_entry(
        self, entry: EndpointsEntry, place: TreePosition | None
    ) -> ResultPart:
        """Build the result of an entry that was measured with the Endpoints client, to which none
        of LoadGen's rules apply.
        """
        return ResultPart(
            kind=ResultKind.ENTRY,
            path=entry.folder,
            files=1,
            contents=self.iterate_endpoints_documents(entry, place),
            evidence=entry.run.evidence,
        )

    def iterate_endpoints_documents(
        self, entry: EndpointsEntry, place: TreePosition | None
    ) -> Iterator[Piece]:
        """Open the run with its caching test, the accuracy and the documents of an entry."""
        yield from iterate_run(entry.run)
        yield entry.accuracy.source
        yield entry.accuracy
        yield entry
        yield measure_entry(entry)
        if place and entry.is_closed:
            documents = read_entry_documents(entry.folder, place, self.round, loadgen=False)
            if documents.source:
                yield documents.source
            yield documents

    def iterate_system_description(self, system: MllogSystem | None) -> Iterator[Piece]:
        """Open the description of an entry's system, if there is one."""
        if system is not None and system.path.is_file():
            yield system.source
            yield system

    def read_system_description(self, path: Path, place: TreePosition) -> MllogSystem:
        """Read the description of an entry's system."""
        return read_mllog_system(
            place.organisation_folder / "systems" / f"{path.parent.parent.name}.json",
            place,
            self.round,
        )

    def iterate_filing(self, entry: MllogEntry, place: TreePosition) -> Iterator[Piece]:
        """Open the documents submitted with an entry."""
        filing = read_entry_documents(entry.folder, place, self.round)
        if filing.source:
            yield filing.source
        yield filing
        for test in read_mllog_audit_tests(filing, entry.performance, entry.benchmark or ""):
            if test.run:
                yield test.run.source
                yield test.run.summary_source
            yield test

    def iterate_organisations(
        self, target: RecognisedPath, organisations: list[Path]
    ) -> Iterator[Piece]:
        """Open the organisations of a tree. One without any entry yields only that finding, an
        error if there is no other organisation.
        """
        filled = [home for home in organisations if has_entry(home / "results")]
        submitted: list[SubmittedRun] = []
        for home in organisations:
            yield from self.iterate_entries_below(
                home / "results", TreePosition(organisation_folder=home), submitted
            )
            if home not in filled and is_folder(home / "results"):
                yield build_path_fault(
                    home / "results",
                    "no scenario folder",
                    "<system>/<benchmark>/<Scenario>",
                    severity=Severity.WARNING,
                )
        if not filled:
            yield build_path_fault(target.path, *describe_empty_target(target))
        yield SubmittedRuns(root=target.path, runs=submitted)

    def iterate_entries_below(
        self,
        path: Path,
        place: TreePosition | None,
        submitted: list[SubmittedRun],
        depth: int = 3,
    ) -> Iterator[Piece]:
        """Open the entries in a folder and its subfolders, and whether closed benchmarks have all
        scenarios. What tells their runs from all others is added to `submitted`.
        """
        if parse_scenario_folder(path.name):
            yield from self.iterate_entry(path, place, submitted)
            return
        if any(is_folder(path / name) for name in RUN_FOLDER_NAMES):
            yield build_path_fault(
                path,
                f"runs in a folder called {path.name}",
                f"one of {', '.join(dict.fromkeys(SCENARIO_FOLDERS.values()))}",
                severity=Severity.WARNING,
            )
        if depth:
            inner = list(iterate_subfolders(path))
        else:
            inner = []
        if (
            place
            and place.division == "closed"
            and any(parse_scenario_folder(folder.name) for folder in inner)
        ):
            yield read_mllog_benchmark(path, place, self.round)
        for folder in inner:
            yield from self.iterate_entries_below(folder, place, submitted, depth - 1)


def has_entry(path: Path, depth: int = 3) -> bool:
    """Return whether a folder is a scenario's, or has one below it."""
    return parse_scenario_folder(path.name) is not None or (
        depth > 0 and any(has_entry(folder, depth - 1) for folder in iterate_subfolders(path))
    )


def is_path_below(path: Path, folder: Path) -> bool:
    """Return whether a path is below a folder."""
    return folder in path.parents


def build_inference_mllog_layout(round_name: str, aids: JudgingAids) -> InferenceMllogLayout:
    """Build the layout of a round of this kind."""
    return InferenceMllogLayout(load_inference_mllog_round(round_name), aids.counter)
