"""Check the documents of a closed entry: measurements, the system's description, and the scenarios
of a benchmark.
"""

from collections.abc import Iterator
from typing import Final

from compliance.documents.accelerators import COUNTED_ACCELERATORS, find_uncounted_accelerator
from compliance.documents.organisation_name import is_organisation_name, mark_code_points
from compliance.kinds.inference_mllog.documents.entry_documents import (
    SYSTEM_CATEGORIES,
    MllogBenchmark,
    MllogEntryDocuments,
    MllogSystem,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import fold_name

CONFIRMING_WORDS: Final = ("y", "yes", "true")
LOADGEN_SETTINGS_FILE: Final = "user.conf"
EITHER_SCENARIOS: Final = ("Server", "Interactive")
"""If both of these are optional, a system submits one. Source: submission_checker/loader.py,
check_scenarios.
"""
MIN_SYSTEM_COUNTS: Final = {
    "number_of_nodes": 1,
    "host_processors_per_node": 1,
    "accelerators_per_node": 0,
}
"""Whole numbers in a description, and their minimums."""
FILLED_SYSTEM_FIELDS: Final = (
    "division",
    "submitter",
    "status",
    "system_name",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_memory_capacity",
    "framework",
    "operating_system",
    "system_type",
)
"""Fields that no accepted description leaves empty."""


@rule("inference-mllog.measurements", MllogEntryDocuments, former="later.measurements")
def measurements(filing: MllogEntryDocuments) -> Iterator[Fault]:
    """A closed entry contains its settings, instructions for running it, and a description of how
    its model was made.

    Source: submission-checker.py, REQUIRED_MEASURE_FILES and SYSTEM_IMP_REQUIRED_FILES;
    check_measurement_dir.
    Advice: add the missing document; fill every field, if necessary with "none".
    """
    for name in filing.round.rules.measurement_files:
        if name not in filing.names and (filing.loadgen or name != LOADGEN_SETTINGS_FILE):
            yield filing.build_fault(f"no {name}", f"{name}")
    if filing.document is None:
        name = "<system>_<implementation>_<Scenario>.json"
        if filing.round.rules.together:
            name = "measurements.json"
        yield filing.build_fault("no description of the model", name)
        return
    for name in filing.round.rules.measurement_fields:
        stated = filing.fields.get(name)
        if name not in filing.fields or filing.round.rules.meaningful:
            severity = None
        else:
            severity = Severity.WARNING
        if (
            not isinstance(stated, str | dict | list)
            or not stated
            or (isinstance(stated, str) and not stated.strip())
        ):
            yield filing.build_fault(
                f"{name} {stated!r}" if name in filing.fields else f"no {name}",
                f"{name}, as text",
                file=filing.document,
                severity=severity,
            )


@rule(
    "inference-mllog.retraining",
    MllogEntryDocuments,
    About.RULES,
    doubt="whether the model is the reference's",
)
def retraining(filing: MllogEntryDocuments) -> Iterator[Fault]:
    """The model of a closed entry was not trained again.

    Source: inference_rules.adoc, Model: retraining is not allowed in the closed division; all 131
    published entries at hand deny it.
    Advice: submit the entry to the open division.
    """
    stated = filing.fields.get("retraining")
    if isinstance(stated, str) and stated.strip().casefold() in CONFIRMING_WORDS:
        yield filing.build_fault(f"retraining {stated}", "no", file=filing.document)


@rule(
    "inference-mllog.tests",
    MllogEntryDocuments,
    About.RULES,
    doubt="whether the system keeps the rules that the tests are for",
    former="later.tests",
)
def tests(filing: MllogEntryDocuments) -> Iterator[Fault]:
    """A closed entry has the compliance tests of its benchmark.

    Source: submission-checker.py, check_compliance_dir; since v5.0 MODEL_CONFIG, models_TEST01 to
    models_TEST09.
    Advice: run the missing test with its audit.config, and add the output of its verification
    script.
    """
    if filing.model and filing.loadgen:
        for name in filing.model.tests:
            if not any(each == name or each.startswith(f"{name}-") for each in filing.done):
                yield filing.build_fault(f"no {name}", f"the folder {name}", file=filing.tests)


MACHINE_FIELDS: Final = frozenset(
    {
        "number_of_nodes",
        "host_processor_model_name",
        "host_processors_per_node",
        "accelerator_model_name",
        "accelerators_per_node",
    }
)
"""Fields that say which machine it is."""


@rule(
    "inference-mllog.system_fields",
    MllogSystem,
    doubt="which machine the figures are of",
    former="later.system_fields",
)
def system_fields(system: MllogSystem) -> Iterator[Fault]:
    """A system description has the round's fields, and its counts are whole numbers. A named
    accelerator beside a count of 0 is a warning.

    Source: submission-checker.py, SYSTEM_DESC_REQUIRED_FIELDS and
    SYSTEM_DESC_MEANINGFUL_RESPONSE_REQUIRED_FIELDS.
    Advice: fill the field; use "N/A" if it does not apply.
    """
    if system.fields is None:
        return
    for name in system.round.rules.system_fields:
        if name not in system.fields:
            about = None
            if name in MACHINE_FIELDS:
                about = About.IDENTITY
            yield system.build_fault(f"no {name}", name, about=about)
    for name in FILLED_SYSTEM_FIELDS:
        stated = system.fields.get(name, "")
        if name in system.fields and (
            stated is None or isinstance(stated, list | dict) or not str(stated).strip()
        ):
            yield system.build_fault(
                f"{name} {stated!r}",
                "a value",
                severity=None if system.round.rules.meaningful else Severity.WARNING,
            )
    for name, least in MIN_SYSTEM_COUNTS.items():
        stated = system.fields.get(name)
        if isinstance(stated, int | float) and (stated < least or stated != int(stated)):
            yield system.build_fault(
                f"{name} {stated!r}", f"a whole number of at least {least}", about=About.IDENTITY
            )
    if uncounted := find_uncounted_accelerator(system.fields):
        yield system.build_fault(uncounted, COUNTED_ACCELERATORS, severity=Severity.WARNING)


@rule(
    "inference-mllog.system_place",
    MllogSystem,
    About.IDENTITY,
    doubt="whose system it is, and of which division",
    former="later.system_place",
)
def system_place(system: MllogSystem) -> Iterator[Fault]:
    """A system description is in its division's and submitter's folder, with a status and a type
    from the round.

    Source: submission-checker.py, check_system_desc_id: submitter, division, status, system_type.
    Advice: use the round's values, and the names of the folders.
    """
    stated, place = system.fields, system.place
    if stated is None:
        return
    if "submitter" in stated and not is_organisation_name(str(stated["submitter"]), place.org):
        yield system.build_fault(
            f"submitter {mark_code_points(repr(stated['submitter']), repr(place.org))}",
            f"{mark_code_points(place.org, str(stated['submitter']))}, the folder's name",
        )
    if (
        "division" in stated
        and place.division
        and fold_name(str(stated["division"])) != place.division
    ):
        yield system.build_fault(
            f"division {stated['division']!r}", f"{place.division.value}, the folder's name"
        )
    if "status" in stated and not any(
        fold_name(each) in fold_name(str(stated["status"])) for each in system.round.rules.statuses
    ):
        yield system.build_fault(
            f"status {stated['status']!r}", ", ".join(system.round.rules.statuses)
        )
    if "system_type" in stated and system.category is None:
        yield system.build_fault(
            f"system_type {stated['system_type']!r}", " or ".join(SYSTEM_CATEGORIES)
        )


@rule(
    "inference-mllog.scenarios",
    MllogBenchmark,
    About.RULES,
    doubt="whether the system was measured in all scenarios that count",
    former="later.scenarios",
)
def scenarios(model: MllogBenchmark) -> Iterator[Fault]:
    """A closed system has results for all scenarios that the round requires of its category, and
    only for scenarios of the benchmark.

    Source: submission-checker.py, MODEL_CONFIG, required- and optional-scenarios-datacenter, -edge
    and -datacenter-edge.
    Advice: run the missing scenarios, or submit to the open division.
    """
    if model.model is None or model.category is None or not model.model.required:
        return
    required = model.model.required.get(model.category)
    if required is None:
        yield model.build_fault(
            f"{model.benchmark} on a system of category {model.category}",
            " or ".join(model.model.required),
        )
        return
    optional = model.model.optional.get(model.category, ())
    for name in required:
        if name not in model.scenarios:
            yield model.build_fault(f"no {name}", "a result")
    if {*EITHER_SCENARIOS} <= {*optional} and not {*EITHER_SCENARIOS} & {*model.scenarios}:
        yield model.build_fault(f"neither {' nor '.join(EITHER_SCENARIOS)}", "one of the two")
    for name in model.scenarios:
        if name not in (*required, *optional):
            yield model.build_fault(
                f"the scenario {name}",
                ", ".join((*required, *optional)),
                file=model.folder / name,
                severity=Severity.WARNING,
            )
