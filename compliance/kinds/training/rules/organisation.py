"""Check that an organisation in a published training round describes every system, consistently
with its logs.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from compliance.documents.accelerators import COUNTED_ACCELERATORS, find_uncounted_accelerator
from compliance.documents.organisation_name import is_organisation_name, mark_code_points
from compliance.kinds.training.documents.organisation import PublishedOrganisation, PublishedSystem
from compliance.kinds.training.documents.system_description import (
    DescribedSystem,
    format_value_excerpt,
)
from compliance.recognition.packed_files import PACKED_ADVICE, describe_packed_files
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import fold_name

STATUS_WORDS: Final = (
    "available",
    "cloud",
    "prem",
    "preview",
    "research",
    "rdi",
    "rdo",
    "development",
    "internal",
)
"""A status contains one of these. Source: submission_rules.adoc, system status; accepted
descriptions also contain the words of training logs.
"""
V06_FORM_FIELDS: Final = frozenset({"nodes", "entry"})
"""Fields of v0.6's own form of a description."""
PACKED_SEARCH_DEPTH: Final = 3
"""Levels below an organisation on which packed sets and logs are looked for: results, system,
benchmark.
"""
REQUIRED_DESCRIPTION_FIELDS: Final = ("submitter", "division", "status", "system_name")
HARDWARE_DESCRIPTION_FIELDS: Final = (
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_model_name",
    "host_memory_capacity",
    "host_storage_type",
    "host_storage_capacity",
    "accelerators_per_node",
    "accelerator_model_name",
    "framework",
    "operating_system",
)
"""Additional fields of a description. Source: submission_rules.adoc, systems/<system_desc_id>.json.
"""
REQUIRED_COUNT_FIELDS: Final = ("number_of_nodes", "host_processors_per_node")
OPTIONAL_COUNT_FIELDS: Final = (
    "accelerators_per_node",
    "host_processor_core_count",
    "host_processor_vcpu_count",
)
"""Fields that accepted descriptions omit, or that are 0 in them."""
COUNT_BELOW_ONE_PATTERN: Final = re.compile(r"\s*(?:-\s*\d|[-+]?0+(?:\.0*)?\s*$)")
"""A number below 1."""
NEGATIVE_COUNT_PATTERN: Final = re.compile(r"\s*-\s*\d")


@rule("org.described", PublishedSystem)
def described(system: PublishedSystem) -> Iterator[Fault]:
    """Every system with results has a description.

    Source: submission_rules.adoc, Directory structure: systems/<system_desc_id>.json.
    Advice: submit the description under the name of the system's results folder.
    """
    path = system.described.path
    if not path.exists():
        # accepted in v0.6: no system has a description
        described_elsewhere = system.others or path.parent.is_dir()
        severity = None
        # the package checker opens no folder without sets
        if not described_elsewhere or not (system.sets or system.folders_without_logs):
            severity = Severity.WARNING
        yield system.build_fault(
            f"no systems/{path.name}", "the description of the system", file=path, severity=severity
        )


@rule(
    "org.description",
    DescribedSystem,
    About.IDENTITY,
    doubt="whose system it is, and of which division",
)
def description(system: DescribedSystem) -> Iterator[Fault]:
    """A description names submitter, division, status and system, and the submitter is the
    organisation whose folder contains it.

    Source: submission_rules.adoc, System description: required fields.
    Advice: fill in the fields; move the description to its organisation's tree.
    """
    if system.table is None:
        return
    rules = system.round.rules
    missing = [field for field in REQUIRED_DESCRIPTION_FIELDS if system.find_text(field) is None]
    severity = None
    # descriptions of v0.6 have other forms
    if len(missing) == len(REQUIRED_DESCRIPTION_FIELDS) and rules.loose:
        severity = Severity.WARNING
    for field in missing:
        yield system.build_fault(
            f"{field} {format_value_excerpt(system.table.get(field))}",
            "a string",
            severity=severity,
        )
    checks: tuple[tuple[str, Callable[[str], bool], str], ...] = (
        ("submitter", lambda told: is_organisation_name(told, system.place.org), system.place.org),
        (
            "division",
            lambda told: fold_name(told).startswith(rules.divisions),
            " or ".join(rules.divisions),
        ),
        (
            "status",
            lambda told: has_status_word(told) or told in rules.system_statuses,
            ", ".join(STATUS_WORDS),
        ),
    )
    for field, holds, required in checks:
        told = system.find_text(field)
        if told is not None and not holds(told):
            unsure = None
            if field == "submitter" and rules.placeholders:
                unsure = Severity.WARNING
            yield system.build_fault(
                f"{field} {mark_code_points(told, required)}",
                mark_code_points(required, told),
                severity=unsure,
            )
    status = system.find_text("status")
    if (
        status
        and has_status_word(status)
        and rules.system_statuses
        and fold_name(status) not in map(fold_name, rules.system_statuses)
    ):
        yield system.build_fault(
            f"status {status}",
            " or ".join(rules.system_statuses),
            severity=None if rules.system_checked else Severity.WARNING,
        )


def has_status_word(status: str) -> bool:
    """Return whether a status contains one of the usual words."""
    return any(word in fold_name(status) for word in STATUS_WORDS)


@rule("org.fields", DescribedSystem, doubt="which machine the figures are of")
def fields(system: DescribedSystem) -> Iterator[Fault]:
    """A description has the hardware and software fields that readers use to compare systems.

    Source: submission_rules.adoc, System description; mlcommons/logging, system_desc_checker.py;
    the round's system_fields. Accepted descriptions leave some fields empty, and v0.6 has others.
    Advice: fill in the known fields, and leave empty those that do not apply.
    """
    rules = system.round.rules
    if system.table is None or (
        not rules.system_fields and not V06_FORM_FIELDS.isdisjoint(system.table)
    ):
        return
    missing = [
        field
        for field in rules.system_fields or HARDWARE_DESCRIPTION_FIELDS
        if field not in system.table
    ]
    for field in missing:
        if rules.system_checked:
            about = About.IDENTITY
        else:
            about = About.FORM
        yield system.build_fault(f"no {field}", "the field", about=about)


@rule("org.counts", DescribedSystem, About.IDENTITY, doubt="which system it is")
def counts(system: DescribedSystem) -> Iterator[Fault]:
    """Nodes and processors are at least 1, no count is negative, and a system with a named
    accelerator does not count 0 of them (a warning).

    Source: submission_rules.adoc, System description: number_of_nodes, host_processors_per_node,
    accelerators_per_node.
    Advice: fill in the correct numbers.
    """
    if not system.table:
        return
    for name in (*REQUIRED_COUNT_FIELDS, *OPTIONAL_COUNT_FIELDS):
        value = system.table.get(name)
        if NEGATIVE_COUNT_PATTERN.match(str(value)) or (
            name in REQUIRED_COUNT_FIELDS and COUNT_BELOW_ONE_PATTERN.match(str(value))
        ):
            unsure = None
            if system.round.rules.placeholders:
                unsure = Severity.WARNING
            required = "a whole number, or 0 without accelerators"
            if name in REQUIRED_COUNT_FIELDS:
                required = "a whole number above 0"
            yield system.build_fault(
                f"{name} {format_value_excerpt(value)}", required, severity=unsure
            )
    if uncounted := find_uncounted_accelerator(system.table):
        yield system.build_fault(uncounted, COUNTED_ACCELERATORS, severity=Severity.WARNING)


@rule("org.division", PublishedSystem, About.IDENTITY, doubt="which division it is a result of")
def division(system: PublishedSystem) -> Iterator[Fault]:
    """The division of a system's runs matches its description.

    Source: submission_rules.adoc, systems/<system_desc_id>.json: division.
    Advice: use separate systems for open and closed runs.
    """
    stated = system.described.find_text("division")
    for log in (log for group in system.sets for log in group.logs):
        record = log.find_record(events.SUBMISSION_DIVISION)
        if (
            stated
            and record
            and isinstance(record.value, str)
            and not fold_name(stated).startswith(fold_name(record.value))
        ):
            required = f"{stated}, as in systems/{system.described.path.name}"
            yield log.build_fault(f"submission_division {record.value}", required, record.line)


@rule("org.folders", PublishedSystem)
def folders(system: PublishedSystem) -> Iterator[Fault]:
    """Every folder of a system's results contains a run set. A folder whose name is not a benchmark
    may have another purpose.

    Source: submission_rules.adoc, Directory structure.
    Advice: remove empty folders, or submit their missing logs.
    """
    for path in system.folders_without_logs:
        named = system.round.find_benchmark_name(path.name) is not None
        packed = describe_packed_files(path)
        fault = system.build_fault(
            f"no result_<i>.txt in '{path.name}'" + (f", but {packed}" if packed else ""),
            "a set of logs",
            file=path,
            severity=None if named else Severity.WARNING,
        )
        if packed:
            yield replace(fault, advice=PACKED_ADVICE)
        else:
            yield fault


@rule("org.empty", PublishedOrganisation, About.SCORE, doubt="every figure: there is none")
def empty(filed: PublishedOrganisation) -> Iterator[Fault]:
    """An organisation has results.

    Source: submission_rules.adoc, Directory structure: results/<system>/<benchmark>/result_<i>.txt.
    Advice: submit the logs, or pass the folder that contains them.
    """
    if not filed.sets:
        packed = describe_packed_files(filed.organisation_folder, PACKED_SEARCH_DEPTH)
        fault = filed.build_fault(
            f"no training log, but {packed}" if packed else "no training log",
            "results/<system>/<benchmark>/result_<i>.txt",
        )
        if packed:
            yield replace(fault, advice=PACKED_ADVICE)
        else:
            yield fault


@rule("org.idle", PublishedOrganisation, severity=Severity.INFO)
def idle(filed: PublishedOrganisation) -> Iterator[Fault]:
    """A described system has results.

    Source: house rule: the name of a description without results may be misspelt.
    Advice: compare the names of the description and of the results folder.
    """
    for path in filed.idle:
        yield filed.build_fault(f"systems/{path.name}", "results under that name", file=path)


@rule(
    "org.repeated",
    PublishedOrganisation,
    About.IDENTITY,
    doubt="which system ran it",
)
def repeated(home: PublishedOrganisation) -> Iterator[Fault]:
    """A run is submitted once: no log of another set of the tree begins and ends in the same
    milliseconds.

    Source: training_rules.adoc, Benchmark Results: a result belongs to one system.
    Advice: submit each run under the system that it ran on.
    """
    for each in home.repeated:
        yield home.build_fault(
            f"the same times as {os.path.relpath(each.other, home.organisation_folder)}",
            "a separate run",
            file=each.log,
            severity=None if each.within else Severity.WARNING,
        )
