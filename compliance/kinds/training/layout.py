"""Open published training logs: a log, a set, a system, an organisation, a tree of
organisations.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from compliance.documents.submitted_runs import SubmittedRun, SubmittedRuns
from compliance.kinds.training.copied_runs import BOUNDS_MARK, identify_training_run
from compliance.kinds.training.documents.log import (
    PublishedLog,
    PublishedSet,
    read_published_log,
    read_published_set,
)
from compliance.kinds.training.documents.organisation import (
    PublishedOrganisation,
    PublishedSystem,
    RepeatedRun,
)
from compliance.kinds.training.documents.system_description import (
    DescribedSystem,
    read_described_system,
)
from compliance.kinds.training.round import PublishedTraining, load_training_round
from compliance.recognition.packed_files import PACKED_ADVICE, describe_packed_files
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.tree_path import (
    TreePosition,
    iterate_published_logs,
    iterate_subfolders,
    iterate_tree_organisations,
    parse_tree_position,
)
from compliance.rules.known_round import UnjudgedPath
from compliance.verdict import About, Finding, ResultKind, Severity, Verdict
from compliance.walk import (
    JudgingAids,
    OpenPath,
    Part,
    Piece,
    ResultPart,
    WorkloadDocument,
    build_path_fault,
)
from suite import events
from suite.files.layout import fold_name
from suite.units import NS_PER_S

STOPPED_RUN_RULES: Final = frozenset({"log.present", "log.samples", "file.readable"})
"""Rules about records that a log lacks if its run was stopped."""
CAUSE_RULE: Final = "log.once"
"""The rule that names the runs or processes of a log that has several."""


RunBounds = tuple[str, int, int]


class TrainingLayout:
    """What results of a published training round consist of; each system description is read
    once.
    """

    def __init__(self, round: PublishedTraining) -> None:
        self.round = round
        self.systems: dict[str, DescribedSystem] = {}
        self.seen_runs: dict[RunBounds, Path] = {}
        """Benchmark, start and stop of the runs of a tree -> log."""
        self.places: Mapping[PathKind, OpenPath] = {
            PathKind.LOG: self.open_log,
            PathKind.SET: self.open_set,
            PathKind.SYSTEM_FILE: self.open_system_file,
            PathKind.BENCHMARK: self.open_system,
            PathKind.SYSTEM: self.open_system,
            PathKind.ORGANISATION: self.open_organisation,
            PathKind.TREE: self.open_tree,
        }

    def open_log(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a log as a result of its own."""
        system = self.read_system_description(target.position)
        log = read_published_log(target.path, self.round, target.position, system)
        return [ResultPart(kind=ResultKind.LOG, path=target.path, contents=self.iterate_log(log))]

    def open_set(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a set."""
        system = self.read_system_description(target.position)
        found = read_published_set(target.path, self.round, target.position, system)
        return [self.build_set(found)]

    def open_system_file(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open a system description, which belongs to an organisation."""
        if target.position is None:
            return None
        return self.iterate_description(self.read_system_description(target.position))

    def open_system(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a system or a benchmark of one, in a tree or outside."""
        path, place = target.path, target.position
        if place is None:
            return self.iterate_loose_sets(path)
        if not has_published_logs(path):
            wanted = "a set of logs, or a system with sets"
            packed = describe_packed_files(path, depth=1)
            if not packed:
                return [
                    UnjudgedPath(path=path, evidence="no result_<i>.txt in it", required=wanted)
                ]
            return [build_path_fault(path, packed, wanted, advice=PACKED_ADVICE)]
        if place.system is None:
            return self.iterate_loose_sets(path)
        folder = place.organisation_folder / "results" / place.system
        self.seen_runs.clear()
        return self.iterate_system(self.read_submitted_system(folder, place))

    def open_organisation(self, target: RecognisedPath) -> Iterable[Piece] | None:
        """Open an organisation's submission."""
        self.seen_runs.clear()
        if target.position is None:
            return None
        return self.iterate_organisations(target, [target.position.organisation_folder])

    def open_tree(self, target: RecognisedPath) -> Iterator[Piece]:
        """Open the submissions of a tree."""
        self.seen_runs.clear()
        yield from self.iterate_organisations(target, iterate_tree_organisations(target.path))

    def iterate_organisations(
        self, target: RecognisedPath, homes: Iterable[Path]
    ) -> Iterator[Piece]:
        """Open organisations, then what tells all of their runs apart."""
        submitted: list[SubmittedRun] = []
        for home in homes:
            yield from self.iterate_organisation(home, submitted)
        yield SubmittedRuns(root=target.path, runs=submitted, reported={BOUNDS_MARK})

    def read_system_description(self, place: TreePosition | None) -> DescribedSystem | None:
        """Read the system description that belongs to a place."""
        if place is None or place.system is None:
            return None
        key = f"{place.organisation_folder}/{place.system}"
        if key not in self.systems:
            self.systems[key] = read_described_system(
                find_system_description(place.organisation_folder, place.system), place, self.round
            )
        return self.systems[key]

    def iterate_log(self, log: PublishedLog) -> Iterator[Piece]:
        """Open a log; a file without any record is judged only as a file, and one with the records
        of several runs or processes only as that, since all else follows from it.
        """
        document = WorkloadDocument(log, log.benchmark)
        if log.mixture:
            yield Part(contents=[document], revise=select_cause)
            return
        yield log.source
        if log.counts:
            yield document
        elif log.is_recordless:
            yield build_path_fault(
                log.path, "no log records in the file", f"a log of {self.round.dialect} lines"
            )

    def build_set(self, group: PublishedSet) -> ResultPart:
        """Build the result of a set."""
        return ResultPart(
            kind=ResultKind.SET,
            path=group.folder,
            files=len(group.logs),
            contents=self.iterate_set(group),
        )

    def iterate_set(self, group: PublishedSet) -> Iterator[Piece]:
        """Open a set: first each log alone, in which a run that did not converge or was stopped is
        not yet an error, then all together. What follows from a log that has no run, or several, is
        left out.
        """
        pardoned = [log.path for log in group.pardoned]
        for log in group.logs:
            excuse = partial(excuse_missed_target, group.missed_allowed, log.path in pardoned)
            yield Part(contents=self.iterate_log(log), revise=excuse)
        whole = all(log.counts and not log.mixture for log in group.logs)
        document = WorkloadDocument(group, group.benchmark)
        yield Part(contents=[document], revise=None if whole else leave_out_figures)

    def iterate_description(self, system: DescribedSystem | None) -> Iterator[Piece]:
        """Open a system description; a missing one is judged with the results that it should
        describe.
        """
        if system:
            yield system.source
            yield system

    def iterate_system(self, filed: PublishedSystem) -> Iterator[Piece]:
        """Open a system's sets and its description, each alone and then together."""
        for group in filed.sets:
            yield self.build_set(group)
        if filed.described.path.exists():
            yield from self.iterate_description(filed.described)
        yield filed

    def read_submitted_system(self, folder: Path, place: TreePosition) -> PublishedSystem:
        """Read a system's sets, or only the set of the benchmark that `place` names."""
        below = [
            path for path in iterate_subfolders(folder) if place.benchmark in (None, path.name)
        ]
        places = [
            (
                path,
                parse_tree_position(place.organisation_folder, ("results", folder.name, path.name)),
            )
            for path in below
            if any(iterate_published_logs(path))
        ]
        if place.benchmark is None and any(iterate_published_logs(folder)):
            places.append(
                (folder, parse_tree_position(place.organisation_folder, ("results", folder.name)))
            )
        where = replace(place, system=folder.name)
        system = self.read_system_description(where) or read_described_system(
            find_system_description(place.organisation_folder, folder.name), where, self.round
        )
        return PublishedSystem(
            folder=folder,
            sets=[read_published_set(path, self.round, where, system) for path, where in places],
            described=system,
            folders_without_logs=[path for path in below if not any(iterate_published_logs(path))],
            others=[
                path
                for path in list_system_descriptions(place.organisation_folder)
                if path != system.path
            ],
            round=self.round,
        )

    def iterate_loose_sets(self, path: Path) -> Iterator[Piece]:
        """Open the sets in a folder outside a submission tree."""
        for folder in (path, *iterate_subfolders(path)):
            if any(iterate_published_logs(folder)):
                yield self.build_set(read_published_set(folder, self.round))

    def iterate_organisation(self, home: Path, submitted: list[SubmittedRun]) -> Iterator[Piece]:
        """Open an organisation's submission, system by system. What tells its runs from all others
        is added to `submitted`.
        """
        names, sets, repeated = set(), 0, list[RepeatedRun]()
        for folder in iterate_subfolders(home / "results"):
            filed = self.read_submitted_system(
                folder, TreePosition(organisation_folder=home, system=folder.name)
            )
            names.add(fold_name(folder.name))
            sets += len(filed.sets)
            repeated += self.list_repeated_runs(home, filed)
            submitted += [
                identify_training_run(log, home.name, folder.name, find_run_bounds(log))
                for group in filed.sets
                for log in group.logs
            ]
            yield from self.iterate_system(filed)
        idle = [
            path for path in list_system_descriptions(home) if fold_name(path.stem) not in names
        ]
        yield PublishedOrganisation(
            organisation_folder=home,
            sets=sets,
            idle=idle,
            repeated=repeated,
            round=self.round,
        )

    def list_repeated_runs(self, home: Path, filed: PublishedSystem) -> list[RepeatedRun]:
        """List the runs of a system that stand in an earlier set of the tree, too."""
        found = []
        for log in (log for group in filed.sets for log in group.logs):
            bounds = find_run_bounds(log)
            if bounds is None:
                continue
            other = self.seen_runs.setdefault(bounds, log.path)
            if other.parent != log.path.parent:
                within = other.is_relative_to(home)
                found.append(RepeatedRun(log=log.path, other=other, within=within))
        return found


def excuse_missed_target(allowed_runs: int, is_pardoned: bool, finding: Finding) -> Finding:
    """Downgrade the finding that a run missed its target, or what a pardoned run lacks, to a
    warning that says how many such runs a set may contain.
    """
    is_missing = finding.rule in STOPPED_RUN_RULES and finding.line is None
    if finding.weight is not Verdict.NOT_CONVERGED and not (is_pardoned and is_missing):
        return finding
    allowed = (
        f"{finding.required}; a set may have {allowed_runs} run without, which counts"
        " as its slowest"
    )
    return replace(finding, severity=Severity.WARNING, required=allowed)


def select_cause(finding: Finding) -> Finding | None:
    """Leave out what follows from a log's several runs or processes."""
    if finding.rule == CAUSE_RULE:
        return finding
    return None


def leave_out_figures(finding: Finding) -> Finding | None:
    """Leave out findings about figures."""
    if finding.about in (About.SCORE, About.QUALITY):
        return None
    return finding


def find_run_bounds(log: PublishedLog) -> RunBounds | None:
    """Return benchmark, start and stop of a run; None for logs without them, and for clocks with
    whole seconds, which different runs may share.
    """
    start, stop = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    if start is None or stop is None:
        return None
    if start.time_ns % NS_PER_S == stop.time_ns % NS_PER_S == 0:
        return None
    return log.benchmark or "", start.time_ns, stop.time_ns


def has_published_logs(path: Path) -> bool:
    """Return whether a benchmark's or a system's folder contains any training log."""
    return any(any(iterate_published_logs(folder)) for folder in (path, *iterate_subfolders(path)))


def find_system_description(home: Path, system: str) -> Path:
    """Return the path of a system's description: the file with its name, or one whose name differs
    only in case and punctuation.
    """
    exact = home / "systems" / f"{system}.json"
    alike = (
        path for path in list_system_descriptions(home) if fold_name(path.stem) == fold_name(system)
    )
    if exact.exists():
        return exact
    return next(alike, exact)


def list_system_descriptions(home: Path) -> list[Path]:
    return sorted((home / "systems").glob("*.json"))


def build_training_layout(round_name: str, _: JudgingAids) -> TrainingLayout:
    """Build the layout of a round of this kind."""
    return TrainingLayout(load_training_round(round_name))
