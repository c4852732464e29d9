"""Judge published training logs: a log, a set, a system, an organisation, a tree of
organisations.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.documents.training.log import (
    PublishedLog,
    PublishedSet,
    read_published_log,
    read_published_set,
)
from compliance.documents.training.organisation import (
    PublishedOrganisation,
    PublishedSystem,
    RepeatedRun,
)
from compliance.documents.training.system_description import DescribedSystem, read_described_system
from compliance.judges.empty_path import describe_empty_target
from compliance.judges.recorder import ResultRecorder
from compliance.logs.source_file import ParseErrorKind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.packed_files import PACKED_ADVICE, describe_packed_files
from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.tree_path import (
    TreePosition,
    list_published_logs,
    list_subfolders,
    list_tree_organisations,
    parse_tree_position,
)
from compliance.rules import judge_document
from compliance.verdict import About, Finding, ResultKind, Severity, Verdict
from suite import events
from suite.files.layout import fold_name
from suite.rounds.published_training import PublishedTraining
from suite.units import NS_PER_S

STOPPED_RUN_RULES: Final = frozenset({"log.present", "log.samples"})
"""Rules about records that a log lacks if its run was stopped."""
CAUSE_RULE: Final = "log.once"
"""The rule that names the runs or processes of a log that has several."""


RunBounds = tuple[str, int, int]


class TrainingJudge:
    """Judges paths by one published training round; each system description is read once."""

    def __init__(self, round: PublishedTraining) -> None:
        self.round = round
        self.systems: dict[str, DescribedSystem] = {}
        self.recorder = ResultRecorder()
        self.seen_runs: dict[RunBounds, Path] = {}
        """Benchmark, start and stop of the runs of a tree -> log."""

    def judge_target(self, target: RecognisedPath) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path, place = target.path, target.position
        self.seen_runs.clear()
        match target.kind:
            case PathKind.LOG:
                log = read_published_log(
                    path, self.round, place, self.read_system_description(place)
                )
                yield from self.recorder.record_result(ResultKind.LOG, path, 0, self.judge_log(log))
            case PathKind.SET:
                yield from self.judge_set(
                    read_published_set(path, self.round, place, self.read_system_description(place))
                )
            case PathKind.SYSTEM_FILE if place:
                yield from self.judge_description(self.read_system_description(place))
            case PathKind.BENCHMARK | PathKind.SYSTEM if place and not has_published_logs(path):
                packed = describe_packed_files(path, depth=1)
                yield from self.report_path_fault(
                    path,
                    packed or "no result_<i>.txt in it",
                    "a set of logs, or a system with sets",
                    FlawKind.UNREADABLE,
                    PACKED_ADVICE if packed else None,
                )
            case PathKind.BENCHMARK | PathKind.SYSTEM if place and place.system:
                yield from self.judge_system(
                    self.read_submitted_system(
                        place.organisation_folder / "results" / place.system, place
                    )
                )
            case PathKind.BENCHMARK | PathKind.SYSTEM:
                yield from self.judge_loose_sets(path)
            case PathKind.ORGANISATION if place:
                yield from self.judge_organisation(place.organisation_folder)
            case PathKind.TREE:
                for home in list_tree_organisations(path):
                    yield from self.judge_organisation(home)
            case _:
                yield from self.report_path_fault(
                    path, *describe_empty_target(target), FlawKind.UNREADABLE
                )

    def apply_rules(self, document: object, benchmark: str | None = None) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge_document(document, self.round.name, benchmark)

    def report_path_fault(
        self,
        path: Path,
        found: str,
        required: str,
        kind: FlawKind,
        advice: str | None = None,
    ) -> Iterator[Finding]:
        """Yield a finding about a path, with the rule's advice unless another is given."""
        source = SourceFile(path)
        source.add_parse_error(kind, found, required, advice=advice)
        yield from self.apply_rules(source)

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

    def judge_log(self, log: PublishedLog) -> Iterator[Finding]:
        """Judge a log; a file without any record is judged only as a file, and one with the records
        of several runs or processes only as that, since all else follows from it.
        """
        if log.mixture:
            for finding in self.apply_rules(log, log.benchmark):
                if finding.rule == CAUSE_RULE:
                    yield finding
            return
        yield from self.apply_rules(log.source)
        if log.counts:
            yield from self.apply_rules(log, log.benchmark)
        elif not log.source.has_parse_error(FlawKind.MISSING, FlawKind.UNREADABLE) and not any(
            each.about for each in log.source.parse_errors
        ):
            yield from self.report_path_fault(
                log.path,
                "no log records in the file",
                f"a log of {self.round.dialect} lines",
                FlawKind.UNREADABLE,
            )

    def judge_set(self, group: PublishedSet) -> Iterator[Finding]:
        """Judge a set as one result."""
        yield from self.recorder.record_result(
            ResultKind.SET, group.folder, len(group.logs), self.judge_set_documents(group)
        )

    def judge_set_documents(self, group: PublishedSet) -> Iterator[Finding]:
        """Judge the documents of a set: first each log alone, in which a run that did not converge
        or was stopped is not yet an error, then all together. What follows from a log that has no
        run, or several, is left out.
        """
        pardoned = [log.path for log in group.pardoned]
        for log in group.logs:
            for finding in self.judge_log(log):
                is_missing = (
                    finding.rule in STOPPED_RUN_RULES
                    and finding.line is None
                    and log.path in pardoned
                )
                excused = finding.weight is Verdict.NOT_CONVERGED or is_missing
                yield (
                    self.convert_missed_to_warning(finding, group.missed_allowed)
                    if excused
                    else finding
                )
        whole = all(log.counts and not log.mixture for log in group.logs)
        for finding in self.apply_rules(group, group.benchmark):
            if whole or finding.about not in (About.SCORE, About.QUALITY):
                yield finding

    def convert_missed_to_warning(self, finding: Finding, allowed_runs: int) -> Finding:
        """Downgrade the finding that a run missed its target to a warning that says how many such
        runs a set may contain.
        """
        allowed = (
            f"{finding.required}; a set may have {allowed_runs} run without, which counts"
            " as its slowest"
        )
        return replace(finding, severity=Severity.WARNING, required=allowed)

    def judge_description(self, system: DescribedSystem | None) -> Iterator[Finding]:
        """Judge a system description; a missing one is judged with the results that it should
        describe.
        """
        if system:
            yield from self.apply_rules(system.source)
            yield from self.apply_rules(system)

    def judge_system(self, filed: PublishedSystem) -> Iterator[Finding]:
        """Judge a system's sets and its description, each alone and then together."""
        for group in filed.sets:
            yield from self.judge_set(group)
        if filed.described.path.exists():
            yield from self.judge_description(filed.described)
        yield from self.apply_rules(filed)

    def read_submitted_system(self, folder: Path, place: TreePosition) -> PublishedSystem:
        """Read a system's sets, or only the set of the benchmark that `place` names."""
        below = [path for path in list_subfolders(folder) if place.benchmark in (None, path.name)]
        places = [
            (
                path,
                parse_tree_position(place.organisation_folder, ("results", folder.name, path.name)),
            )
            for path in below
            if any(list_published_logs(path))
        ]
        if place.benchmark is None and any(list_published_logs(folder)):
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
            folders_without_logs=[path for path in below if not any(list_published_logs(path))],
            others=[
                path
                for path in list_system_descriptions(place.organisation_folder)
                if path != system.path
            ],
            round=self.round,
        )

    def judge_loose_sets(self, path: Path) -> Iterator[Finding]:
        """Judge the sets in a folder outside a submission tree."""
        for folder in (path, *list_subfolders(path)):
            if any(list_published_logs(folder)):
                yield from self.judge_set(read_published_set(folder, self.round))

    def judge_organisation(self, home: Path) -> Iterator[Finding]:
        """Judge an organisation's submission, system by system."""
        names, sets, repeated = set(), 0, list[RepeatedRun]()
        for folder in list_subfolders(home / "results"):
            filed = self.read_submitted_system(
                folder, TreePosition(organisation_folder=home, system=folder.name)
            )
            names.add(fold_name(folder.name))
            sets += len(filed.sets)
            repeated += self.list_repeated_runs(home, filed)
            yield from self.judge_system(filed)
        idle = [
            path for path in list_system_descriptions(home) if fold_name(path.stem) not in names
        ]
        yield from self.apply_rules(
            PublishedOrganisation(
                organisation_folder=home,
                sets=sets,
                idle=idle,
                repeated=repeated,
                round=self.round,
            )
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


def find_run_bounds(log: PublishedLog) -> RunBounds | None:
    """Return benchmark, start and stop of a run; None for logs without them, and for clocks with
    whole seconds, which different runs may share.
    """
    start, stop = log.find_first_record(events.RUN_START), log.find_first_record(events.RUN_STOP)
    if start is None or stop is None:
        return None
    if start.time_ns % NS_PER_S == stop.time_ns % NS_PER_S == 0:
        return None
    return log.benchmark or "", start.time_ns, stop.time_ns


def has_published_logs(path: Path) -> bool:
    """Return whether a benchmark's or a system's folder contains any training log."""
    return any(any(list_published_logs(folder)) for folder in (path, *list_subfolders(path)))


def find_system_description(home: Path, system: str) -> Path:
    """Return the path of a system's description: the file with its name, or one whose name differs
    only in case and punctuation.
    """
    exact = home / "systems" / f"{system}.json"
    alike = (
        path for path in list_system_descriptions(home) if fold_name(path.stem) == fold_name(system)
    )
    return exact if exact.exists() else next(alike, exact)


def list_system_descriptions(home: Path) -> list[Path]:
    """List an organisation's system descriptions."""
    return sorted((home / "systems").glob("*.json"))
