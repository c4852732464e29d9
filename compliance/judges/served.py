"""Judges published inference results since v1.0: a LoadGen run, an entry, a system, an
organisation, a whole submission.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from compliance.documents.inference.served import (
    FOLDERS,
    LaterEntry,
    LaterRun,
    read_entry,
    read_run,
    scenario_folder,
)
from compliance.documents.inference.served_files import (
    LaterSystem,
    read_filing,
    read_model,
    read_system,
    read_tests,
)
from compliance.judges.empty_path import nothing_in
from compliance.logs.source_file import Kind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import Kind, Target, is_run
from compliance.recognition.tree_path import Place, folders, homes, is_folder
from compliance.rules import judge
from compliance.verdict import Finding, Severity
from suite.rounds.served import ServedRound
from suite.workload import Mode

RUNS: Final = ("accuracy", "performance")
"""Folders of runs, in a scenario's folder."""


class ServedJudge:
    """Judges paths by one published inference round since v1.0."""

    def __init__(self, round: ServedRound) -> None:
        self.round = round

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path, place = target.path, target.place
        match target.kind:
            case Kind.RUN if path.name.casefold() != "performance" or is_run(path):
                yield from self.run(path, place)
            case Kind.RUNS | Kind.RUN:
                yield from self.entry(path.parent, place)
            case Kind.TREE:
                yield from self.tree(target, list(homes(path)))
            case Kind.ORGANISATION if place:
                yield from self.tree(target, [place.home])
            case Kind.SYSTEM | Kind.BENCHMARK | Kind.ENTRY:
                yield from self.below(path, place)
                if not has_entry(path):
                    yield from self.flaw(path, *nothing_in(target))
            case Kind.SYSTEM_FILE | Kind.MEASUREMENTS | Kind.AUDIT if place and place.system:
                yield from self.below(place.home / "results" / place.system, place)
            case _:
                yield from self.flaw(path, *nothing_in(target))

    def apply(self, document: object) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge(document, self.round.name)

    def flaw(
        self, path: Path, found: str, required: str, severity: Severity = Severity.ERROR
    ) -> Iterator[Finding]:
        """Yield a finding about a path."""
        source = SourceFile(path, leniency={FlawKind.UNREADABLE: severity})
        source.add(FlawKind.UNREADABLE, found, required)
        yield from self.apply(source)

    def run(self, path: Path, place: Place | None) -> Iterator[Finding]:
        """Judge one run."""
        scenario = next(
            (found for each in path.parents[:3] if (found := scenario_folder(each.name))), None
        )
        mode = Mode.ACCURACY if path.name.casefold() == Mode.ACCURACY else Mode.PERFORMANCE
        yield from self.served(
            read_run(
                path, mode, self.round, scenario, None, bool(place and place.division == "closed")
            )
        )

    def served(self, run: LaterRun) -> Iterator[Finding]:
        """Judge a run that has been read."""
        yield from self.apply(run.source)
        yield from self.apply(run.summary_source)
        yield from self.apply(run)

    def entry(self, path: Path, place: Place | None) -> Iterator[Finding]:
        """Judge an entry; a closed one with its system's description, measurements and compliance
        tests.
        """
        system = self.system(path, place) if place else None
        entry = read_entry(path, place, self.round, system.category if system else None)
        for run in entry.runs:
            yield from self.served(run)
        yield from self.apply(entry)
        if place and entry.division == "closed" and within(path, place.home / "results"):
            yield from self.filed(entry, place)
        if system is not None and system.path.is_file():
            yield from self.apply(system.source)
            yield from self.apply(system)

    def system(self, path: Path, place: Place) -> LaterSystem:
        """Read the description of an entry's system."""
        return read_system(
            place.home / "systems" / f"{path.parent.parent.name}.json", place, self.round
        )

    def filed(self, entry: LaterEntry, place: Place) -> Iterator[Finding]:
        """Judge what is filed beside an entry."""
        filing = read_filing(entry.folder, place, self.round)
        if filing.source:
            yield from self.apply(filing.source)
        yield from self.apply(filing)
        for test in read_tests(filing, entry.performance, entry.benchmark or ""):
            if test.run:
                yield from self.apply(test.run.source)
            yield from self.apply(test)

    def tree(self, target: Target, organisations: list[Path]) -> Iterator[Finding]:
        """Judge the organisations of a tree; of one without any entry there is nothing to say but
        that, and it is an error where that is all.
        """
        filled = [home for home in organisations if has_entry(home / "results")]
        for home in organisations:
            yield from self.below(home / "results", Place(home=home))
            if home not in filled and is_folder(home / "results"):
                yield from self.flaw(
                    home / "results",
                    "no scenario's folder",
                    "<system>/<benchmark>/<Scenario>",
                    Severity.WARNING,
                )
        if not filled:
            yield from self.flaw(target.path, *nothing_in(target))

    def below(self, path: Path, place: Place | None, depth: int = 3) -> Iterator[Finding]:
        """Judge the entries in a folder and its subfolders, and of closed benchmarks whether all
        scenarios are there.
        """
        if scenario_folder(path.name):
            yield from self.entry(path, place)
            return
        if any(is_folder(path / name) for name in RUNS):
            yield from self.flaw(
                path,
                f"runs in a folder called {path.name}",
                f"one of {', '.join(dict.fromkeys(FOLDERS.values()))}",
                Severity.WARNING,
            )
        inner = list(folders(path)) if depth else []
        if (
            place
            and place.division == "closed"
            and any(scenario_folder(folder.name) for folder in inner)
        ):
            yield from self.apply(read_model(path, place, self.round))
        for folder in inner:
            yield from self.below(folder, place, depth - 1)


def has_entry(path: Path, depth: int = 3) -> bool:
    """Tell whether a folder is a scenario's, or has one below it."""
    return scenario_folder(path.name) is not None or (
        depth > 0 and any(has_entry(folder, depth - 1) for folder in folders(path))
    )


def within(path: Path, folder: Path) -> bool:
    """Tell whether a path lies below a folder."""
    return folder in path.parents
