"""System descriptions and organisations of published inference rounds."""

import re
from collections.abc import Iterator
from typing import Final

from compliance.documents.accelerators import COUNTED_ACCELERATORS, find_uncounted_accelerator
from compliance.documents.organisation_name import is_organisation_name, mark_code_points
from compliance.kinds.inference_text.documents.organisation import (
    TextBenchmarkFolder,
    TextOrganisation,
    TextSystem,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import fold_name
from suite.terms import Division

COUNTED_SYSTEM_FIELDS: Final = (
    "number_of_nodes",
    "host_processors_per_node",
    "host_processor_core_count",
)
NEVER_EMPTY_SYSTEM_FIELDS: Final = (
    "division",
    "submitter",
    "status",
    "system_name",
    "host_processor_model_name",
    "framework",
    "operating_system",
)
"""Fields of every system; the fields of an accelerator are empty if there is none."""
WHOLE_NUMBER_PATTERN: Final = re.compile(r"\s*0*[1-9]\d*\b")
BELOW_ONE_PATTERN: Final = re.compile(r"\s*(?:-\s*\d|[-+]?0+(?:\.0*)?\s*$)")
"""A number below 1."""
NEGATIVE_NUMBER_PATTERN: Final = re.compile(r"\s*-\s*\d")


@rule(
    "inference-text.system_fields",
    TextSystem,
    doubt="which machine the figures are of",
    former="org.filed_fields",
)
def fields(system: TextSystem) -> Iterator[Fault]:
    """A system description has the round's fields. A named accelerator beside a count of 0 is a
    warning.

    Source: submission_rules.adoc, System description; submission-checker.py: system_desc_id.json in
    v0.5, SYSTEM_DESC_REQUIRED_FIELDS in v0.7.
    Advice: add the missing fields; use n/a if a field does not apply.
    """
    if system.fields is None:
        return
    filing = system.round.filing
    for name in filing.system_fields:
        value = system.fields.get(
            name, system.fields.get(filing.other_system_fields.get(name, name))
        )
        if value is None:
            yield system.build_fault(f"no {name}", "the field, with a value")
        elif isinstance(value, str) and not value.strip():
            yield system.build_fault(
                f"{name} is empty",
                "a value",
                severity=None if name in NEVER_EMPTY_SYSTEM_FIELDS else Severity.WARNING,
            )
        elif isinstance(value, (dict, list)):
            yield system.build_fault(f"{name} {value!r}", "a string or a number")
    for name in sorted(
        system.fields.keys()
        - {
            *filing.system_fields,
            *filing.optional_system_fields,
            *filing.other_system_fields.values(),
        }
    ):
        yield system.build_fault(
            f"a field {name}", "a field of the round", severity=Severity.WARNING
        )
    for name in COUNTED_SYSTEM_FIELDS:
        value = system.fields.get(name)
        if value is not None and (
            isinstance(value, bool) or not WHOLE_NUMBER_PATTERN.match(str(value))
        ):
            yield system.build_fault(
                f"{name} {value!r}",
                "a whole number above 0",
                about=About.IDENTITY if BELOW_ONE_PATTERN.match(str(value)) else None,
            )
    accelerators = system.fields.get("accelerators_per_node")
    if NEGATIVE_NUMBER_PATTERN.match(str(accelerators)):
        yield system.build_fault(
            f"accelerators_per_node {accelerators!r}",
            "a whole number, or 0 without accelerators",
            about=About.IDENTITY,
        )
    if uncounted := find_uncounted_accelerator(system.fields):
        yield system.build_fault(uncounted, COUNTED_ACCELERATORS, severity=Severity.WARNING)


@rule(
    "inference-text.system_position",
    TextSystem,
    About.IDENTITY,
    doubt="whose system it is, and of which division",
    former="org.filed_place",
)
def place(system: TextSystem) -> Iterator[Fault]:
    """A description's submitter and division match its folders.

    Source: submission-checker.py, check_system_desc_id.
    Advice: move the description to its organisation's tree, in the right division.
    """
    where, stated = system.place, system.fields
    if stated is None:
        return
    division = fold_name(str(stated.get("division", "")))
    if "division" in stated and division not in [*Division]:
        yield system.build_fault(f"division {stated['division']!r}", " or ".join(Division))
    elif where and where.division and "division" in stated and division != where.division:
        yield system.build_fault(
            f"division {stated['division']!r}", f"{where.division.value}, the folder's name"
        )
    if (
        where
        and "submitter" in stated
        and not is_organisation_name(str(stated["submitter"]), where.org)
    ):
        yield system.build_fault(
            f"submitter {mark_code_points(repr(stated['submitter']), repr(where.org))}",
            f"{mark_code_points(where.org, str(stated['submitter']))}, the folder's name",
        )


@rule("inference-text.system_status", TextSystem, former="org.filed_status")
def status(system: TextSystem) -> Iterator[Fault]:
    """The round has the system's status and type.

    Source: submission_rules.adoc, System description: available, preview, or research, development
    and internal; v0.7: datacenter or edge.
    Advice: use one of the round's values.
    """
    if system.fields is None:
        return
    stated = system.fields.get("status")
    known = [fold_name(each) for each in system.round.filing.statuses]
    if stated is not None and not any(each in fold_name(str(stated)) for each in known):
        yield system.build_fault(f"status {stated!r}", ", ".join(system.round.filing.statuses))
    types = system.round.filing.system_types
    if types and str(system.fields.get("system_type")).casefold() not in types:
        yield system.build_fault(
            f"system_type {system.fields.get('system_type')!r}", " or ".join(types)
        )


@rule("inference-text.described_systems", TextOrganisation, former="org.filed_systems")
def systems(tree: TextOrganisation) -> Iterator[Fault]:
    """Every system with results has a description, and every description has results.

    Source: submission_rules.adoc, systems/<system_desc_id>.json; submission-checker.py,
    check_results_dir.
    Advice: describe the system in systems/<folder name>.json; remove descriptions of systems
    without results.
    """
    if not tree.systems:
        yield tree.build_fault("no results", "results/<system>/<benchmark>/<Scenario>")
    for name in sorted({*tree.systems} - {*tree.described}):
        yield tree.build_fault(
            f"no description of {name}",
            f"systems/{name}.json",
            file=tree.place.organisation_folder / "results" / name,
        )
    for name in sorted({*tree.described} - {*tree.systems}):
        yield tree.build_fault(
            f"no results for {name}",
            f"results/{name}",
            file=tree.place.organisation_folder / "systems" / f"{name}.json",
            severity=Severity.WARNING,
        )


@rule("inference-text.results_folders", TextOrganisation, former="org.filed_folders")
def folders(tree: TextOrganisation) -> Iterator[Fault]:
    """Results folders contain only benchmarks and their scenarios.

    Source: submission_rules.adoc, Directory structure; submission-checker.py, VALID_MODELS.
    Advice: use the round's folder names; a misspelt name hides its results.
    """
    for path in tree.unexpected_paths:
        yield tree.build_fault(
            f"the folder {path.name}",
            "a system, one of the round's benchmarks, or one of its scenarios",
            file=path,
        )
    for model in tree.models:
        if not model.scenarios:
            yield tree.build_fault(
                f"no results for {model.model}", "a folder for each scenario", file=model.folder
            )


@rule(
    "inference-text.required_scenarios",
    TextBenchmarkFolder,
    About.RULES,
    doubt="whether the system was measured in all scenarios that count",
    former="org.filed_scenarios",
)
def scenarios(model: TextBenchmarkFolder) -> Iterator[Fault]:
    """A closed system has results for all scenarios that the round requires of its type.

    Source: submission-checker.py, required-scenarios-datacenter and -edge, from v0.7; v0.5 requires
    none.
    Advice: run the missing scenarios, or submit to the open division.
    """
    row = model.round.benchmarks.get(model.round.find_benchmark(model.model, "closed") or "")
    if row is None or model.place.division is not Division.CLOSED or not row.required:
        return
    if model.system_type is None:
        return
    if model.system_type not in row.required:
        yield model.build_fault(
            f"{model.model} on a system of type {model.system_type}",
            " or ".join(sorted(row.required)),
        )
        return
    filed = {name.casefold() for name in model.scenarios}
    for scenario in row.required[model.system_type]:
        if scenario.folder.casefold() not in filed:
            yield model.build_fault(f"no {scenario.folder}", "a result")
