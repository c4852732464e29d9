"""Check system descriptions (MLCommons' fields, owner) and checkpoint records."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from compliance.documents.accelerators import COUNTED_ACCELERATORS, find_uncounted_accelerator
from compliance.documents.organisation_name import mark_code_points
from compliance.kinds.podium.documents.checkpoint import CheckpointFile
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.kinds.podium.rules.training.hyperparameters import convert_list_to_tuple
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import compute_folder_sha256, fold_name, is_exported_name
from suite.files.untrusted_files import parse_document_count
from suite.records import CheckpointRecord
from suite.terms import COUNTED_FIELDS, NETWORK_FIELDS, Division, Profile

DESCRIPTION_FILE: Final = "model.json"
"""The description that every workload writes beside its weights
(workloads/common/weights_description.py), which the judge does not import; it stays where somebody
left the weights out.
"""
STATUS_WORD: Final = re.compile("[a-z]+")
SYSTEM_STATUSES = ("onprem", "cloud", "preview", "research", "available", "rdi")


@rule("system.place", SystemFile, About.IDENTITY)
def place(system: SystemFile) -> Iterator[Fault]:
    """A description's submitter, division and name match its folders and file name.

    Source: submission_rules.adoc, systems/<system_desc_id>.json.
    Advice: move the description to its organisation's tree, under its system's name.
    """
    description, where = system.description, system.place
    pairs = [("system_name", description.system_name, system.path.stem)]
    if where:
        pairs += [
            ("submitter", description.submitter, where.org),
            ("division", description.division, where.division or description.division),
        ]
    for field, found, folder in pairs:
        if fold_name(found) != fold_name(folder) or not found.strip():
            yield system.build_fault(
                f"{field} {mark_code_points(repr(found), repr(str(folder)))} in '{folder}'",
                f"the name {mark_code_points(folder, found)}",
            )


@rule("system.stamps", SystemFile, About.IDENTITY)
def stamps(system: SystemFile) -> Iterator[Fault]:
    """Division, status, round and profile have known values. The status may be in any case, and
    several words, as "Research, Development, or Internal".

    Source: submission_rules.adoc, System description; house rule for round and profile.
    Advice: keep the description that podium wrote.
    """
    description = system.description
    checks = (
        ("division", description.division, tuple(Division)),
        ("podium.round", description.podium.round, (system.round.name,)),
        ("podium.profile", description.podium.profile, tuple(Profile)),
    )
    for field, found, known in checks:
        if found not in known:
            yield system.build_fault(f"{field} {found!r}", " or ".join(known))
    if not set(STATUS_WORD.findall(description.status.casefold())).intersection(SYSTEM_STATUSES):
        yield system.build_fault(f"status {description.status!r}", " or ".join(SYSTEM_STATUSES))


@rule("system.counts", SystemFile, About.IDENTITY)
def counts(system: SystemFile) -> Iterator[Fault]:
    """Nodes, processors, cores and accelerators are whole numbers if given, threads, ranks and
    devices fit them, and a named accelerator is counted.

    Source: submission_rules.adoc, System description: number_of_nodes, host_processors_per_node,
    host_processor_core_count, accelerators_per_node.
    Advice: keep the numbers that podium wrote, or give others with --system-file; put words into
    the names of processors and accelerators.
    """
    for field, least in COUNTED_FIELDS.items():
        stated = getattr(system.description, field)
        count = parse_document_count(stated)
        if stated is not None and (count is None or count < least):
            yield system.build_fault(
                f"{field} {stated!r}", f"a whole number of at least {least}, or null"
            )
    stated = {
        name: getattr(system.description, name) for name in system.description.__struct_fields__
    }
    if uncounted := find_uncounted_accelerator(stated):
        yield system.build_fault(uncounted, COUNTED_ACCELERATORS)


@rule("system.unknown", SystemFile, About.FORM, severity=Severity.WARNING)
def unknown(system: SystemFile) -> Iterator[Fault]:
    """The submitter provides the values that podium could not read from the machine: every field in
    profile full, and the counts in every profile.

    Source: submission_rules.adoc, System description: required fields; threads, ranks and devices
    cannot be compared with an unknown count.
    Advice: provide the field with --system-file.
    """
    fields: Iterable[str] = COUNTED_FIELDS
    if system.description.podium.profile == Profile.FULL:
        fields = system.description.__struct_fields__
    for field in fields:
        if (system.description.networked or field not in NETWORK_FIELDS) and getattr(
            system.description, field
        ) is None:
            yield system.build_fault(f"{field} is unknown", "a value")


@rule("checkpoint.record", CheckpointFile, About.IDENTITY)
def checkpoint(found: CheckpointFile) -> Iterator[Fault]:
    """The record beside a checkpoint names its folder and its training log, and has all settings
    and scores of the log.

    Source: house rule: scores must match the checkpoint's record; suite/records.py,
    CheckpointRecord.
    Advice: export the checkpoint again from its training (podium train writes record.json), and
    keep the two in one folder.
    """
    record, folder = found.record, found.path.parent
    if record.sha256 != folder.name or record.workload != folder.parent.name:
        yield found.build_fault(
            f"{record.workload}/{record.sha256}",
            f"{folder.parent.name}/{folder.name}, the folder's name",
        )
    logs = select_checkpoint_logs(found)
    if logs and not any(is_log_named_by_record(found, log) for log in logs):
        yield found.build_fault(
            f"training_log {record.training_log!r}",
            f"the path of {logs[0].path.name} in the results folder",
        )
    for log in logs:
        for field, stated, logged in iterate_record_claims(record, log):
            if stated != logged:
                yield found.build_fault(f"{field} {stated!r}", f"{logged!r}, as in {log.path.name}")


@rule("checkpoint.weights", CheckpointFile, About.IDENTITY)
def weights(found: CheckpointFile) -> Iterator[Fault]:
    """Weights beside a record have the hash that names their folder. A record without weights is
    not compared.

    Source: house rule: suite.files.layout.compute_folder_sha256 of the exported files; a bundle
    contains only the record.
    Advice: the weights were changed after export: restore them, or train again.
    """
    folder = found.path.parent
    try:
        has_weights = any(
            path.is_file() and is_exported_name(path.name) and path.name != DESCRIPTION_FILE
            for path in folder.iterdir()
        )
        sha256 = compute_folder_sha256(folder) if has_weights else folder.name
    except OSError as error:
        unread = Path(error.filename or folder).name
        yield found.build_fault(
            f"{unread}: cannot be read ({error.strerror})",
            "the exported files, or no files",
            advice="the weights were not compared: make them readable to you, and check again.",
        )
        return
    if sha256 != folder.name:
        yield found.build_fault(
            f"weights with SHA-256 {sha256}", f"{folder.name}, the folder's name"
        )


def select_checkpoint_logs(found: CheckpointFile) -> Sequence[TrainingLog]:
    """Return the log that the record names, or all logs that name the checkpoint: two runs may
    produce the same weights.
    """
    logs = [log for log in found.logs if log.checkpoint == found.record.sha256]
    return [log for log in logs if is_log_named_by_record(found, log)] or logs


def is_log_named_by_record(found: CheckpointFile, log: TrainingLog) -> bool:
    """Return whether a checkpoint's record names a log."""
    stated_parts = Path(found.record.training_log).parts
    return log.path.parts[-len(stated_parts) :] == stated_parts


def iterate_record_claims(
    record: CheckpointRecord, log: TrainingLog
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, value in the record, value in the log)."""
    table = log.find_value(events.SETTINGS)
    yield (
        "settings",
        convert_lists_in_settings(record.settings),
        convert_lists_in_settings(table) if isinstance(table, dict) else table,
    )
    yield "reference_accuracy", dict(record.reference_accuracy), dict(log.reference)
    yield (
        "scores",
        dict(record.scores),
        dict(next((each.scores for each in reversed(list(log.iterate_evaluations()))), {})),
    )
    yield "target_reached", record.target_reached, log.succeeded and log.reached


def convert_lists_in_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Convert all lists to one type."""
    return {key: convert_list_to_tuple(value) for key, value in settings.items()}
