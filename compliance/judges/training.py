"""Judges published training logs: a log, a set, a system, an organisation, a tree of
organisations.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.documents.training.log import PublishedLog, PublishedSet, read_log, read_set
from compliance.documents.training.organisation import FiledSystem, Organisation
from compliance.documents.training.system_description import DescribedSystem, read_described
from compliance.judges.empty_path import nothing_in
from compliance.logs.source_file import Kind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import Kind, Target
from compliance.recognition.tree_path import Place, filed_logs, folders, homes, place_in
from compliance.rules import judge
from compliance.verdict import Finding, Severity, Verdict
from suite.files.layout import fold
from suite.rounds.published_training import PublishedTraining

MISSING: Final = frozenset({"log.present", "log.samples"})
"""Rules about records that a log lacks if its run was stopped."""


class TrainingJudge:
    """Judges paths by one published training round; each system description is read once."""

    def __init__(self, round: PublishedTraining) -> None:
        self.round = round
        self.systems: dict[str, DescribedSystem] = {}

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path, place = target.path, target.place
        match target.kind:
            case Kind.LOG:
                yield from self.log(read_log(path, self.round, place, self.described(place)))
            case Kind.SET:
                yield from self.set(read_set(path, self.round, place, self.described(place)))
            case Kind.SYSTEM_FILE if place:
                yield from self.description(self.described(place))
            case Kind.BENCHMARK | Kind.SYSTEM if place and place.system:
                yield from self.system(self.file(place.home / "results" / place.system, place))
            case Kind.BENCHMARK | Kind.SYSTEM:
                yield from self.loose(path)
            case Kind.ORGANISATION if place:
                yield from self.organisation(place.home)
            case Kind.TREE:
                for home in homes(path):
                    yield from self.organisation(home)
            case _:
                yield from self.flaw(path, *nothing_in(target), FlawKind.UNREADABLE)

    def apply(self, document: object, benchmark: str | None = None) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge(document, self.round.name, benchmark)

    def flaw(self, path: Path, found: str, required: str, kind: FlawKind) -> Iterator[Finding]:
        """Yield a finding about a path."""
        source = SourceFile(path)
        source.add(kind, found, required)
        yield from self.apply(source)

    def described(self, place: Place | None) -> DescribedSystem | None:
        """Read the system description that belongs to a place."""
        if place is None or place.system is None:
            return None
        key = f"{place.home}/{place.system}"
        if key not in self.systems:
            self.systems[key] = read_described(
                description_of(place.home, place.system), place, self.round
            )
        return self.systems[key]

    def log(self, log: PublishedLog) -> Iterator[Finding]:
        """Judge a log; a file without any record is judged only as a file."""
        yield from self.apply(log.source)
        if log.counts:
            yield from self.apply(log, log.benchmark)
        elif not log.source.has(FlawKind.MISSING, FlawKind.UNREADABLE):
            yield from self.flaw(
                log.path,
                "no log records in the file",
                f"a log of {self.round.dialect} lines",
                FlawKind.RECORD,
            )

    def set(self, group: PublishedSet) -> Iterator[Finding]:
        """Judge a set: each log alone, where a run that did not converge or was stopped is not yet
        an error, then all together.
        """
        pardoned = [log.path for log in group.pardoned]
        for log in group.logs:
            for finding in self.log(log):
                is_missing = (
                    finding.rule in MISSING and finding.line is None and log.path in pardoned
                )
                excused = finding.weight is Verdict.NOT_CONVERGED or is_missing
                yield self.missed(finding, group.missed_allowed) if excused else finding
        yield from self.apply(group, group.benchmark)

    def missed(self, finding: Finding, allowed_runs: int) -> Finding:
        """Downgrade the finding that a run missed its target to a warning that says how many such
        runs a set may contain.
        """
        allowed = (
            f"{finding.required}; a set may have {allowed_runs} run without, which counts as its"
            " slowest"
        )
        return replace(finding, severity=Severity.WARNING, required=allowed)

    def description(self, system: DescribedSystem | None) -> Iterator[Finding]:
        """Judge a system description; a missing one is judged with the results that it should
        describe.
        """
        if system:
            yield from self.apply(system.source)
            yield from self.apply(system)

    def system(self, filed: FiledSystem) -> Iterator[Finding]:
        """Judge a system's sets and its description, each alone and then together."""
        for group in filed.sets:
            yield from self.set(group)
        if filed.described.path.exists():
            yield from self.description(filed.described)
        yield from self.apply(filed)

    def file(self, folder: Path, place: Place) -> FiledSystem:
        """Read a system's sets, or only the set of the benchmark that `place` names."""
        below = [path for path in folders(folder) if place.benchmark in (None, path.name)]
        places = [
            (path, place_in(place.home, ("results", folder.name, path.name)))
            for path in below
            if any(filed_logs(path))
        ]
        if place.benchmark is None and any(filed_logs(folder)):
            places.append((folder, place_in(place.home, ("results", folder.name))))
        where = replace(place, system=folder.name)
        system = self.described(where) or read_described(
            description_of(place.home, folder.name), where, self.round
        )
        return FiledSystem(
            folder=folder,
            sets=[read_set(path, self.round, where, system) for path, where in places],
            described=system,
            strays=[path for path in below if not any(filed_logs(path))],
            others=[path for path in descriptions(place.home) if path != system.path],
            round=self.round,
        )

    def loose(self, path: Path) -> Iterator[Finding]:
        """Judge the sets in a folder that lies outside a submission tree."""
        for folder in (path, *folders(path)):
            if any(filed_logs(folder)):
                yield from self.set(read_set(folder, self.round))

    def organisation(self, home: Path) -> Iterator[Finding]:
        """Judge an organisation's submission, system by system."""
        names, sets = set(), 0
        for folder in folders(home / "results"):
            filed = self.file(folder, Place(home=home, system=folder.name))
            names.add(fold(folder.name))
            sets += len(filed.sets)
            yield from self.system(filed)
        idle = [path for path in descriptions(home) if fold(path.stem) not in names]
        yield from self.apply(Organisation(home=home, sets=sets, idle=idle, round=self.round))


def description_of(home: Path, system: str) -> Path:
    """Return the path of a system's description: the file of its name, or one that differs only in
    case and punctuation.
    """
    exact = home / "systems" / f"{system}.json"
    alike = (path for path in descriptions(home) if fold(path.stem) == fold(system))
    return exact if exact.exists() else next(alike, exact)


def descriptions(home: Path) -> list[Path]:
    """List the system descriptions that an organisation filed."""
    return sorted((home / "systems").glob("*.json"))
