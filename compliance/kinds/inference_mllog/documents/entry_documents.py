"""Read the documents of published inference results since v1.0: measurements, system description,
compliance tests, scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from compliance.documents.base import Document, FileDocument, FolderDocument
from compliance.kinds.inference_mllog.documents.run import (
    MLLOG_FILE_LENIENCY,
    MllogRun,
    parse_scenario_folder,
    read_mllog_run,
)
from compliance.kinds.inference_mllog.round import InferenceMllogModel, InferenceMllogRound
from compliance.logs.source_file import (
    ANY_JSON_DECODER,
    ParseErrorKind,
    SourceFile,
    read_json_document,
)
from compliance.recognition.tree_path import TreePosition, is_file, is_folder, iterate_subfolders
from compliance.verdict import Severity
from suite.audits.filed import COMPARED_TEST_FOLDERS
from suite.workload import Mode

JSON_FILE_LENIENCY: Final = {**MLLOG_FILE_LENIENCY, ParseErrorKind.DUPLICATE: Severity.WARNING}
SYSTEM_CATEGORIES: Final = {
    "datacenter": "datacenter",
    "edge": "edge",
    "datacenter,edge": "both",
    "edge,datacenter": "both",
}
"""`system_type` of a description -> category of the round's rows. Source: submission-checker.py,
set_type.
"""
TEST_FOLDER_PREFIX: Final = "TEST"
"""Prefix of the name of a compliance test's folder."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MllogEntryDocuments(Document):
    """The documents of a closed entry: its measurements and its tests."""

    document_name: ClassVar[str] = "the documents of an inference entry"

    entry: Path
    scenario: str | None
    model: InferenceMllogModel | None
    measurements: Path
    """Folder of the measurements."""
    names: Sequence[str]
    """Files in it."""
    document: Path | None
    """The file that describes how the model was made."""
    source: SourceFile | None
    fields: Mapping[str, Any]
    tests: Path
    """Folder of the compliance tests."""
    done: Sequence[str]
    """Tests in it."""
    loadgen: bool
    """Whether LoadGen measured the entry; other clients have no user.conf and other tests."""
    round: InferenceMllogRound

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.measurements


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MllogAuditTest(FolderDocument):
    """One compliance test of an entry."""

    document_name: ClassVar[str] = "a compliance test of an inference entry"

    name: str
    """Name such as TEST01 or TEST04-A."""
    run: MllogRun | None
    compared_run: MllogRun | None
    """The run that the test is compared with: TEST04-A's for TEST04-B; None means the entry's
    runs.
    """
    entry: Sequence[MllogRun]
    """The entry's performance runs."""
    model: InferenceMllogModel | None
    benchmark: str
    round: InferenceMllogRound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MllogSystem(FileDocument):
    """A system description."""

    document_name: ClassVar[str] = "an inference system description"

    fields: Mapping[str, Any] | None
    """None if the file is not a JSON object."""
    place: TreePosition
    round: InferenceMllogRound

    @property
    def category(self) -> str | None:
        """Return datacenter, edge or both; None if the description does not state it."""
        stated = (self.fields or {}).get("system_type")
        if isinstance(stated, str):
            return SYSTEM_CATEGORIES.get(stated.casefold().replace(" ", ""))
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MllogBenchmark(FolderDocument):
    """A benchmark's folder of a closed system, with the submitted scenarios."""

    document_name: ClassVar[str] = "a benchmark of an inference system"

    benchmark: str | None
    model: InferenceMllogModel | None
    scenarios: Sequence[str]
    category: str | None
    round: InferenceMllogRound


def read_entry_documents(
    entry: Path, place: TreePosition, round: InferenceMllogRound, *, loadgen: bool = True
) -> MllogEntryDocuments:
    """Read the documents of an entry, from the folder of its results or from separate trees."""
    below = entry.relative_to(place.organisation_folder / "results")
    if round.rules.together:
        measurements = entry
        tests = entry
    else:
        measurements = place.organisation_folder / "measurements" / below
        tests = place.organisation_folder / "compliance" / below
    names = [path.name for path in list_folder_paths(measurements) if is_file(path)]
    document = find_model_document(measurements, names, entry.parent.parent.name, round)
    source = None
    if document:
        source = SourceFile(document, leniency=JSON_FILE_LENIENCY)
    benchmark = round.find_benchmark(entry.parent.name)
    return MllogEntryDocuments(
        entry=entry,
        scenario=parse_scenario_folder(entry.name),
        model=round.models.get(benchmark or ""),
        measurements=measurements,
        names=names,
        document=document,
        source=source,
        fields=read_json_object(source) or {} if source else {},
        tests=tests,
        done=[
            folder.name
            for folder in iterate_subfolders(tests)
            if folder.name.startswith(TEST_FOLDER_PREFIX)
        ],
        loadgen=loadgen,
        round=round,
    )


def find_model_document(
    folder: Path, names: Sequence[str], system: str, round: InferenceMllogRound
) -> Path | None:
    """Find the file that describes how the model was made: measurements.json, or
    `<system>[_<implementation>][_<Scenario>].json`.
    """
    found = [
        name
        for name in names
        if name == "measurements.json"
        or (name.startswith(system) and name.endswith(".json") and not round.rules.together)
    ]
    if found:
        return folder / found[0]
    return None


def read_mllog_audit_tests(
    documents: MllogEntryDocuments, runs: Sequence[MllogRun], benchmark: str
) -> list[MllogAuditTest]:
    """Read the compliance tests of an entry."""
    return [
        read_mllog_audit_test(documents, documents.tests / name, runs, benchmark)
        for name in documents.done
    ]


def read_mllog_audit_test(
    documents: MllogEntryDocuments, folder: Path, runs: Sequence[MllogRun], benchmark: str
) -> MllogAuditTest:
    """Read a compliance test, with its run if it has one."""
    run = read_mllog_audit_run(documents, folder)
    compared_run = None
    if folder.name in COMPARED_TEST_FOLDERS:
        compared_run = read_mllog_audit_run(
            documents, documents.tests / COMPARED_TEST_FOLDERS[folder.name]
        )
    return MllogAuditTest(
        folder=folder,
        name=folder.name,
        run=run,
        compared_run=compared_run,
        entry=runs,
        model=documents.model,
        benchmark=benchmark,
        round=documents.round,
    )


def read_mllog_audit_run(documents: MllogEntryDocuments, folder: Path) -> MllogRun | None:
    """Read the run of a compliance test; None if there is none."""
    run_folder = folder / "performance" / "run_1"
    if not is_folder(run_folder):
        return None
    return read_mllog_run(
        run_folder, Mode.PERFORMANCE, documents.round, documents.scenario, documents.model
    )


def read_mllog_system(path: Path, place: TreePosition, round: InferenceMllogRound) -> MllogSystem:
    """Read a system description."""
    source = SourceFile(path, leniency=JSON_FILE_LENIENCY)
    return MllogSystem(source=source, fields=read_json_object(source), place=place, round=round)


def read_mllog_benchmark(
    folder: Path, place: TreePosition, round: InferenceMllogRound
) -> MllogBenchmark:
    """Read the scenarios of a benchmark's folder, and the category of its system."""
    benchmark = round.find_benchmark(folder.name)
    category = read_mllog_system(
        place.organisation_folder / "systems" / f"{folder.parent.name}.json", place, round
    ).category
    scenarios = [
        named for each in iterate_subfolders(folder) if (named := parse_scenario_folder(each.name))
    ]
    return MllogBenchmark(
        folder=folder,
        benchmark=benchmark,
        model=round.models.get(benchmark or ""),
        scenarios=scenarios,
        category=category,
        round=round,
    )


def read_json_object(source: SourceFile) -> Mapping[str, Any] | None:
    """Read a JSON object; None, with a parse error, if it is something else."""
    fields: Any = read_json_document(source, ANY_JSON_DECODER)
    if fields is not None and not isinstance(fields, dict):
        source.add_parse_error(ParseErrorKind.SHAPE, f"a {type(fields).__name__}", "a JSON object")
    if isinstance(fields, dict):
        return fields
    return None


def list_folder_paths(folder: Path) -> list[Path]:
    """List a folder, sorted; empty if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
