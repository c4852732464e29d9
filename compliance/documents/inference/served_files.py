"""What is filed with results of published inference rounds since v1.0: measurements, system
description, compliance tests, scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compliance.documents.inference.entry_files import DOCUMENT
from compliance.documents.inference.served import LENIENCY, LaterRun, read_run, scenario_folder
from compliance.logs.source_file import Kind, SourceFile, read_document
from compliance.recognition.tree_path import Place, folders, is_file, is_folder
from compliance.verdict import Fault, Severity
from suite.audits.filed import BESIDE
from suite.rounds.served import ServedModel, ServedRound
from suite.workload import Mode

PLAIN: Final = {**LENIENCY, Kind.DUPLICATE: Severity.WARNING}
CATEGORIES: Final = {
    "datacenter": "datacenter",
    "edge": "edge",
    "datacenter,edge": "both",
    "edge,datacenter": "both",
}
"""`system_type` of a description -> category of the round's rows. Source: submission-checker.py,
set_type.
"""
TEST: Final = "TEST"
"""Beginning of the name of a compliance test's folder."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterFiling:
    """What is filed beside an entry of the closed division: its measurements and its tests."""

    entry: Path
    scenario: str | None
    model: ServedModel | None
    measurements: Path
    """Folder of the measurements."""
    names: Sequence[str]
    """Files in it."""
    document: Path | None
    """The file that says how the model was made."""
    source: SourceFile | None
    fields: Mapping[str, Any]
    tests: Path
    """Folder of the compliance tests."""
    done: Sequence[str]
    """Tests in it."""
    round: ServedRound

    def fault(
        self, found: str, required: str, file: Path | None = None, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for this entry's papers."""
        return Fault(
            file=file or self.measurements, found=found, required=required, severity=severity
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterTest:
    """One compliance test of an entry."""

    folder: Path
    name: str
    """TEST01, or TEST04-A."""
    run: LaterRun | None
    beside: LaterRun | None
    """The run of the test that it is compared with, TEST04-A's for TEST04-B; None: the entry's
    runs.
    """
    entry: Sequence[LaterRun]
    """The entry's performance runs."""
    model: ServedModel | None
    benchmark: str
    round: ServedRound

    def fault(
        self, found: str, required: str, file: Path | None = None, severity: Severity | None = None
    ) -> Fault:
        """Build a Fault for this test."""
        return Fault(file=file or self.folder, found=found, required=required, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterSystem:
    """A system description."""

    path: Path
    source: SourceFile
    fields: Mapping[str, Any] | None
    """None if the file is not a JSON object."""
    place: Place
    round: ServedRound

    @property
    def category(self) -> str | None:
        """datacenter, edge or both; None if the description does not tell."""
        told = (self.fields or {}).get("system_type")
        return CATEGORIES.get(told.casefold().replace(" ", "")) if isinstance(told, str) else None

    def fault(self, found: str, required: str, severity: Severity | None = None) -> Fault:
        """Build a Fault."""
        return Fault(file=self.path, found=found, required=required, severity=severity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaterModel:
    """A benchmark's folder of a closed system, with the scenarios that were filed."""

    folder: Path
    benchmark: str | None
    model: ServedModel | None
    scenarios: Sequence[str]
    category: str | None
    round: ServedRound


def read_filing(entry: Path, place: Place, round: ServedRound) -> LaterFiling:
    """Read the papers of an entry, from the folder of its results or from trees of their own."""
    below = entry.relative_to(place.home / "results")
    measurements = entry if round.rules.together else place.home / "measurements" / below
    tests = entry if round.rules.together else place.home / "compliance" / below
    names = [path.name for path in listed(measurements) if is_file(path)]
    document = document_of(measurements, names, entry.parent.parent.name, round)
    source = SourceFile(document, leniency=PLAIN) if document else None
    benchmark = round.benchmark_of(entry.parent.name)
    return LaterFiling(
        entry=entry,
        scenario=scenario_folder(entry.name),
        model=round.models.get(benchmark or ""),
        measurements=measurements,
        names=names,
        document=document,
        source=source,
        fields=table_in(source) or {} if source else {},
        tests=tests,
        done=[folder.name for folder in folders(tests) if folder.name.startswith(TEST)],
        round=round,
    )


def document_of(folder: Path, names: Sequence[str], system: str, round: ServedRound) -> Path | None:
    """Find the file that says how the model was made: measurements.json, or
    `<system>[_<implementation>][_<Scenario>].json`.
    """
    found = [
        name
        for name in names
        if name == "measurements.json"
        or (name.startswith(system) and name.endswith(".json") and not round.rules.together)
    ]
    return folder / found[0] if found else None


def read_tests(filing: LaterFiling, runs: Sequence[LaterRun], benchmark: str) -> list[LaterTest]:
    """Read the compliance tests of an entry."""
    return [read_test(filing, filing.tests / name, runs, benchmark) for name in filing.done]


def read_test(
    filing: LaterFiling, folder: Path, runs: Sequence[LaterRun], benchmark: str
) -> LaterTest:
    """Read a compliance test, with its run if it has one."""
    run = read_test_run(filing, folder)
    beside = (
        read_test_run(filing, filing.tests / BESIDE[folder.name]) if folder.name in BESIDE else None
    )
    return LaterTest(
        folder=folder,
        name=folder.name,
        run=run,
        beside=beside,
        entry=runs,
        model=filing.model,
        benchmark=benchmark,
        round=filing.round,
    )


def read_test_run(filing: LaterFiling, folder: Path) -> LaterRun | None:
    """Read the run of a compliance test; None if there is none."""
    place = folder / "performance" / "run_1"
    return (
        read_run(place, Mode.PERFORMANCE, filing.round, filing.scenario, filing.model)
        if is_folder(place)
        else None
    )


def read_system(path: Path, place: Place, round: ServedRound) -> LaterSystem:
    """Read a system description."""
    source = SourceFile(path, leniency=PLAIN)
    return LaterSystem(path=path, source=source, fields=table_in(source), place=place, round=round)


def read_model(folder: Path, place: Place, round: ServedRound) -> LaterModel:
    """Read which scenarios a benchmark's folder has, and of which category its system is."""
    benchmark = round.benchmark_of(folder.name)
    category = read_system(
        place.home / "systems" / f"{folder.parent.name}.json", place, round
    ).category
    scenarios = [named for each in folders(folder) if (named := scenario_folder(each.name))]
    return LaterModel(
        folder=folder,
        benchmark=benchmark,
        model=round.models.get(benchmark or ""),
        scenarios=scenarios,
        category=category,
        round=round,
    )


def table_in(source: SourceFile) -> Mapping[str, Any] | None:
    """Read a JSON object; None, with a flaw, if it is something else."""
    fields: Any = read_document(source, DOCUMENT)
    if fields is not None and not isinstance(fields, dict):
        source.add(Kind.SHAPE, f"a {type(fields).__name__}", "a JSON object")
    return fields if isinstance(fields, dict) else None


def listed(folder: Path) -> list[Path]:
    """List a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
