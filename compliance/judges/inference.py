"""Judges published inference results: a LoadGen run, an entry, a system, an organisation, a whole
submission.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from compliance.documents.inference.entry import AuditTest, FiledEntry, ServedRun
from compliance.documents.inference.organisation import (
    FiledModel,
    ServedSubmission,
    read_system,
    system_type,
)
from compliance.documents.inference.reader import (
    below,
    filed_at,
    mode_of,
    read_entry,
    read_run,
    read_tests,
)
from compliance.judges.empty_path import nothing_in
from compliance.logs.source_file import Kind as FlawKind
from compliance.logs.source_file import SourceFile
from compliance.recognition.path_kind import Kind, Target, is_entry, is_run
from compliance.recognition.tree_path import (
    Place,
    folders,
    homes,
    is_file,
    is_folder,
    place_in,
    scenario_of,
)
from compliance.rules import judge
from compliance.verdict import Finding, Severity
from suite.files.layout import ACCURACY
from suite.rounds.published_inference import PublishedInference
from suite.workload import Mode

NOTHING: Final = "nothing that the judge recognises"
WANTED: Final = "a LoadGen run, entry, system, organisation or submission"
OPTIONAL: Final = dict.fromkeys(FlawKind, Severity.WARNING)
"""Severity of flaws in a compliance test's files: warnings, since the entry stands without the
test.
"""


class InferenceJudge:
    """Judges paths by one published inference round; `truth` supplies labels if the tree has
    none.
    """

    def __init__(self, round: PublishedInference, truth: Path | None) -> None:
        self.round, self.truth = round, truth

    def findings(self, target: Target, inside: Path) -> Iterator[Finding]:
        """Apply the rules for this kind of path."""
        path, place = target.path, target.place
        match target.kind:
            case Kind.RUN | Kind.RUNS:
                yield from self.run(path, place)
            case Kind.ENTRY:
                yield from self.entry(path, place)
            case Kind.MEASUREMENTS if place and (results := results_of(path, place)):
                yield from self.entry(results, place)
            case Kind.AUDIT if place:
                yield from self.audit(path, place)
            case Kind.SYSTEM_FILE:
                yield from self.system_file(path, place)
            case Kind.BENCHMARK | Kind.SYSTEM if place is None:
                yield from self.loose(path)
            case Kind.BENCHMARK | Kind.SYSTEM | Kind.ORGANISATION if place:
                yield from self.organisation(place)
            case Kind.TREE:
                yield from self.tree(path)
            case _:
                yield from self.unknown(path, *nothing_in(target))

    def apply(self, document: object) -> Iterator[Finding]:
        """Apply all of the round's rules to a document."""
        yield from judge(document, self.round.name)

    def files(self, sources: Iterable[SourceFile]) -> Iterator[Finding]:
        """Apply the file rules."""
        for source in sources:
            yield from self.apply(source)

    def unknown(
        self, path: Path, found: str = NOTHING, required: str = WANTED
    ) -> Iterator[Finding]:
        """Yield the finding that there is nothing to judge."""
        source = SourceFile(path)
        source.add(FlawKind.UNREADABLE, found, required)
        yield from self.apply(source)

    def run(self, path: Path, place: Place | None) -> Iterator[Finding]:
        """Judge one run, or all performance runs of an entry."""
        filed = filed_at(place, path) if place else None
        if not is_run(path) and path.name.casefold() == Mode.PERFORMANCE and path.parent != path:
            yield from self.entry(path.parent, place)
            return
        benchmark = self.round.benchmark_of(filed.model, filed.division) if filed else None
        scenario = scenario_of(filed.scenario) if filed else None
        closed = filed is not None and filed.division == "closed"
        yield from self.served(
            read_run(path, mode_of(path), self.round, scenario, benchmark, closed)
        )

    def served(self, run: ServedRun) -> Iterator[Finding]:
        """Judge a run that has been read."""
        if run.performance and ACCURACY not in self.round.filing.performance_files:
            run.accuracy_source.leniency = {
                **run.accuracy_source.leniency,
                FlawKind.MISSING: Severity.INFO,
            }
        if not run.performance and self.round.filing.truncated_accuracy_bytes is not None:
            cut = {FlawKind.RECORD: Severity.INFO, FlawKind.CUT: Severity.INFO}
            run.accuracy_source.leniency = {**run.accuracy_source.leniency, **cut}
        yield from self.files((run.summary_source, run.detail_source, run.accuracy_source))
        yield from self.apply(run)

    def entry(self, path: Path, place: Place | None) -> Iterator[Finding]:
        """Judge an entry with everything that was filed for it."""
        entry = read_entry(path, filed_at(place, path) if place else None, self.round, self.truth)
        yield from self.filed(entry)
        if place and entry.system_file and is_file(entry.system_file):
            yield from self.system_file(entry.system_file, place)

    def filed(self, entry: FiledEntry) -> Iterator[Finding]:
        """Judge an entry that has been read."""
        for run in entry.runs:
            yield from self.served(run)
        if entry.accuracy is not None:
            yield from self.apply(entry.claims.source)
        if entry.measurements:
            yield from self.files(entry.measurements.sources)
        yield from self.apply(entry)
        if entry.audit:
            for test in read_tests(entry.audit, entry, self.round, self.truth):
                yield from self.test(test)

    def test(self, test: AuditTest) -> Iterator[Finding]:
        """Judge a compliance test; missing files are a warning."""
        if test.run:
            for source in (test.run.summary_source, test.run.detail_source):
                source.leniency = {**OPTIONAL, **source.leniency}
                yield from self.apply(source)
        yield from self.apply(test)

    def audit(self, path: Path, place: Place) -> Iterator[Finding]:
        """Judge an entry's compliance tests by judging the whole entry, since they refer to its
        results.
        """
        parts = path.relative_to(place.home).parts[1:]
        results = below(place.home / "results", parts[:3])
        if len(parts) >= 3 and is_folder(results):
            yield from self.entry(results, place)
        elif len(parts) >= 3:
            yield from self.unknown(results)
        else:
            yield from self.organisation(place)

    def system_file(self, path: Path, place: Place | None) -> Iterator[Finding]:
        """Judge a system description."""
        found = read_system(path, place, self.round)
        yield from self.apply(found.source)
        yield from self.apply(found)

    def tree(self, path: Path) -> Iterator[Finding]:
        """Judge every organisation of a submission."""
        found = list(homes(path))
        if not found:
            yield from self.unknown(path)
        for home in found:
            yield from self.organisation(Place(home=home))

    def loose(self, path: Path, depth: int = 2) -> Iterator[Finding]:
        """Judge the entries below a system's or benchmark's folder that lies outside a submission
        tree.
        """
        for folder in folders(path) if depth else ():
            if scenario_of(folder.name):
                yield from self.entry(folder, None)
            else:
                yield from self.loose(folder, depth - 1)

    def organisation(self, place: Place) -> Iterator[Finding]:
        """Judge an organisation, or one of its systems or benchmarks, with the system
        descriptions.
        """
        parts = self.parts(place)
        described = [
            path for path in json_files(place.home / "systems") if place.system in (None, path.stem)
        ]
        yield from self.apply(self.submission(place, parts, [path.stem for path in described]))
        for path in described:
            yield from self.system_file(path, place_in(place.home, ("systems", path.name)))
        for model in parts:
            yield from self.apply(model)
            for folder in folders(model.folder):
                if scenario_of(folder.name):
                    filed = filed_at(place, folder)
                    yield from self.filed(read_entry(folder, filed, self.round, self.truth))

    def parts(self, place: Place) -> list[FiledModel]:
        """Find the benchmarks of the systems to judge."""
        found = []
        for system in folders(place.home / "results"):
            if place.system in (None, system.name):
                types = system_type(place.home / "systems" / f"{system.name}.json", self.round)
                found += [
                    self.model(folder, place, types)
                    for folder in folders(system)
                    if place.benchmark in (None, folder.name)
                ]
        return found

    def model(self, folder: Path, place: Place, system_type: str | None) -> FiledModel:
        """Build the document for a benchmark's folder."""
        scenarios = [each.name for each in folders(folder) if scenario_of(each.name)]
        return FiledModel(
            folder=folder,
            model=folder.name,
            scenarios=scenarios,
            place=place,
            system_type=system_type,
            round=self.round,
        )

    def submission(
        self, place: Place, parts: list[FiledModel], described: list[str]
    ) -> ServedSubmission:
        """Build the document for the part of the tree that is judged."""
        systems = [
            folder.name
            for folder in folders(place.home / "results")
            if place.system in (None, folder.name)
        ]
        closed = place.division == "closed"
        strays = [
            part.folder
            for part in parts
            if closed and self.round.benchmark_of(part.model, "closed") is None
        ]
        strays += [
            folder
            for part in parts
            for folder in folders(part.folder)
            if not scenario_of(folder.name) and is_entry(folder)
        ]
        return ServedSubmission(
            place=place,
            systems=systems,
            described=described,
            models=parts,
            strays=strays,
            round=self.round,
        )


def results_of(path: Path, place: Place) -> Path | None:
    """Return the entry that a measurements file describes."""
    parts = path.relative_to(place.home / "measurements").parts
    return below(place.home / "results", parts[:3]) if len(parts) > 3 else None


def json_files(folder: Path) -> list[Path]:
    """List the JSON files of a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix == ".json" and not path.name.startswith(".")
        )
    except OSError:
        return []
