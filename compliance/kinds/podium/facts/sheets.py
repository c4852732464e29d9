"""Which documents of podium's results are held against one another: those of a training run, of a
served system, of its scenarios, of a checkpoint, and of the ledger's steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.documents.facts import StatedFacts, StatingDocument, list_facts_of_prefix
from compliance.kinds.podium.documents.checkpoint import CheckpointFile
from compliance.kinds.podium.documents.inference import InferenceEntry
from compliance.kinds.podium.documents.ledger import LedgerFile, list_run_files
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.kinds.podium.facts.places import (
    read_description_places,
    read_log_place,
    read_measured_places,
    read_step_places,
    read_system_place,
    read_system_places,
    read_weights_place,
)
from compliance.kinds.podium.facts.table import (
    CAMPAIGN_FACTS,
    PACKAGE_PREFIX,
    RUN_FACTS,
    SCENARIO_FACTS,
    SETTING_PREFIX,
    Column,
    is_same_version,
)
from compliance.kinds.podium.rules.system_description import select_checkpoint_logs
from compliance.kinds.podium.rules.training.hyperparameters import is_equal_setting
from compliance.verdict import Severity
from suite import events
from suite.ledger.steps import StepKind
from suite.records import ServedRun

FILE_OWN_KEYS: Final = ("file", "difference")
"""What an engine says of a file, not of what it was made from."""


def build_run_sheet(subject: Path, documents: Sequence[StatingDocument]) -> StatedFacts:
    """Build the facts of one run or system: those of the table, and each setting and package."""
    facts = [
        *RUN_FACTS,
        *list_facts_of_prefix(SETTING_PREFIX, documents, is_equal_setting),
        *list_facts_of_prefix(PACKAGE_PREFIX, documents, is_same_version, Severity.WARNING),
    ]
    return StatedFacts(subject=subject, facts=facts, documents=documents)


def build_log_sheet(log: TrainingLog, system: SystemFile | None) -> StatedFacts:
    """Build what a training run and its system's description state."""
    documents = [read_log_place(log)]
    if system:
        documents += read_description_places(system, str(log.find_value(events.FRAMEWORK)))
    return build_run_sheet(log.path, documents)


def iterate_entry_sheets(entry: InferenceEntry) -> Iterator[StatedFacts]:
    """Yield what the documents of a served system state, then those of each training that its
    checkpoint comes from.
    """
    record = entry.record
    if record is None:
        return
    measured = read_measured_places(entry)
    documents = [*read_system_places(entry, record), *measured]
    if entry.system:
        documents += read_serving_description(entry.system, record)
    yield build_run_sheet(entry.folder, documents)
    for log in entry.origins:
        yield StatedFacts(
            subject=entry.folder,
            facts=CAMPAIGN_FACTS,
            documents=[documents[0], read_log_place(log), *measured],
        )


def read_serving_description(system: SystemFile, record: ServedRun) -> list[StatingDocument]:
    """Read the description of a served system. Behind a network its packages are those of another
    machine, and nobody states the framework of another program's server.
    """
    described, packages = read_description_places(system, record.system.engine)
    if record.network is None:
        return [described, packages]
    if record.is_of_foreign_server:
        return [replace(described, values={**described.values, "framework": None})]
    return [described]


def iterate_scenario_sheets(entries: Sequence[InferenceEntry]) -> Iterator[StatedFacts]:
    """Yield, for each network that several scenarios of a system built alike, what the engine says
    of it in each.
    """
    alike: dict[str, list[StatingDocument]] = {}
    for entry in entries:
        for place in read_measured_places(entry):
            if place.kind == Column.BUILT and entry.record:
                alike.setdefault(describe_build(entry, place), []).append(place)
    for places in alike.values():
        yield StatedFacts(subject=places[0].file, facts=SCENARIO_FACTS, documents=places)


def describe_build(entry: InferenceEntry, built: StatingDocument) -> str:
    """Describe all that an engine's file of a network is made from: equal texts have one file."""
    if entry.record is None:
        return ""
    made = {key: value for key, value in built.values.items() if key not in FILE_OWN_KEYS}
    return repr((built.part, sorted(made.items()), entry.record.system))


def iterate_checkpoint_sheets(found: CheckpointFile) -> Iterator[StatedFacts]:
    """Yield what the record of a checkpoint and each of its training logs state."""
    for log in select_checkpoint_logs(found):
        documents = [read_log_place(log), read_weights_place(found)]
        yield StatedFacts(subject=found.path, facts=RUN_FACTS, documents=documents)


def iterate_ledger_sheets(ledger: LedgerFile) -> Iterator[StatedFacts]:
    """Yield what each training log and each served run state, and the ledger's steps that made
    them; files of a first step predate the ledger.
    """
    for log in (log for group in ledger.sets for log in group.logs):
        yield from iterate_step_sheets(ledger, [log.path], read_log_place(log))
    for entry in ledger.entries:
        for run in entry.runs:
            if run.record:
                place = read_system_place(run.record.system, entry)
                yield from iterate_step_sheets(ledger, list_run_files(run), place)


def iterate_step_sheets(
    ledger: LedgerFile, files: Sequence[Path], place: StatingDocument
) -> Iterator[StatedFacts]:
    """Yield what a result states, and the step that made its files."""
    for step in ledger.find_effective_steps(files)[:1]:
        if step.step is not StepKind.BEGIN:
            yield build_run_sheet(place.file, [place, *read_step_places(ledger, step)])
