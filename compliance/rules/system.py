"""System descriptions: MLCommons' fields, and whose system it is."""

from collections.abc import Iterator

from compliance.documents.checkpoint import CheckpointFile
from compliance.documents.system import SystemFile
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite import events
from suite.layout import fold
from suite.terms import Division, Profile

STATUSES = ("onprem", "cloud", "preview", "research", "available", "rdi")


@rule("system.place", SystemFile)
def place(system: SystemFile) -> Iterator[Fault]:
    """Submitter, division and name of a description are those of its folders and file.

    Source: submission_rules.adoc, systems/<system_desc_id>.json.
    Advice: put the description into the tree of its organisation, under its system's name.
    """
    told, where = system.description, system.place
    pairs = [("system_name", told.system_name, system.path.stem)]
    if where:
        pairs += [("submitter", told.submitter, where.org), ("division", told.division, where.division or told.division)]
    for field, found, folder in pairs:
        if fold(found) != fold(folder):
            yield system.fault(f"{field} {found!r} in '{folder}'", f"the name {folder}")


@rule("system.stamps", SystemFile)
def stamps(system: SystemFile) -> Iterator[Fault]:
    """Division, status, round and profile are known ones.

    Source: submission_rules.adoc, System description; house rule for round and profile.
    Advice: keep the description that podium wrote.
    """
    told = system.description
    checks = (
        ("division", told.division, tuple(Division)),
        ("status", told.status, STATUSES),
        ("podium.round", told.podium.round, (system.round.name,)),
        ("podium.profile", told.podium.profile, tuple(Profile)),
    )
    for field, found, known in checks:
        if found not in known:
            yield system.fault(f"{field} {found!r}", " or ".join(known))


@rule("system.unknown", SystemFile, severity=Severity.WARNING)
def unknown(system: SystemFile) -> Iterator[Fault]:
    """What could not be read from the machine is told by the submitter.

    Source: submission_rules.adoc, System description: required fields.
    Advice: give the field with --system-file.
    """
    if system.description.podium.profile != Profile.FULL:
        return
    for field in system.description.__struct_fields__:
        if getattr(system.description, field) is None:
            yield system.fault(f"{field} is not known", "a value")


@rule("checkpoint.record", CheckpointFile)
def checkpoint(found: CheckpointFile) -> Iterator[Fault]:
    """The record beside a checkpoint says what the training log says: hash, nonce, seed, reference accuracy, target reached.

    Source: house rule, the accuracy to hold; suite/records.py, CheckpointRecord.
    Advice: do not edit record.json; export the checkpoint again.
    """
    record, folder = found.record, found.path.parent
    if record.sha256 != folder.name or record.workload != folder.parent.name:
        yield found.fault(f"{record.workload}/{record.sha256}", f"{folder.parent.name}/{folder.name}, the folder's name")
    for log in (log for log in found.logs if log.checkpoint == record.sha256):
        pairs = {
            "nonce": (record.nonce, log.value(events.NONCE)),
            "seed": (record.seed, log.value(events.SEED)),
            "run_index": (record.run_index, log.value(events.RUN_INDEX)),
            "profile": (record.profile, log.value(events.PROFILE)),
            "reference_accuracy": (dict(record.reference_accuracy), dict(log.reference)),
            "scores": (dict(record.scores), dict(next((each.scores for each in reversed(list(log.evaluations()))), {}))),
            "target_reached": (record.target_reached, log.succeeded and log.reached),
        }
        for field, (told, logged) in pairs.items():
            if told != logged:
                yield found.fault(f"{field} {told!r}", f"{logged!r}, as in {log.path.name}")
