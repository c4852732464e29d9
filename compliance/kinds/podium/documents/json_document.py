"""Parsed logs as plain documents, and the published schemas that describe them.

`training.<round>.<workload>.json` in a workload's package describes its training document; packages
without a workload bring schemas through the group `podium.schemas`. Importing jsonschema takes a
tenth of a second, so a single log is judged only by typed rules; tests check that both agree.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compliance.kinds.podium.documents.training import (
    AFTER_RUN_EVENTS,
    HEADER_EVENTS,
    INIT_EVENTS,
    OPTIONAL_INIT_EVENTS,
    TrainingLog,
)
from suite import events, plugins, registry

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def build_training_document(log: TrainingLog) -> dict[str, Any]:
    """Return the facts of a training log as one JSON document."""
    settings = log.row.settings if log.row else {}
    counters = (
        events.EPOCH_NUM,
        *((events.SAMPLES_COUNT,) if log.row and log.row.counts_samples else ()),
    )
    return {
        **{
            key: log.find_value(key)
            for key in (*HEADER_EVENTS, *INIT_EVENTS, *OPTIONAL_INIT_EVENTS, *AFTER_RUN_EVENTS)
            if log.list_records(key)
        },
        "hyperparameters": {
            key: log.find_value(key)
            for key, setting in settings.items()
            if setting.log and log.list_records(key)
        },
        "evaluations": [
            {key: record.event.metadata.get(key) for key in counters}
            | {events.EVAL_ACCURACY: record.value}
            for record in log.list_records(events.EVAL_ACCURACY)
        ],
        "status": log.status,
    }


@cache
def read_published_schemas() -> Mapping[str, Mapping[str, Any]]:
    """Load every published schema by file name, from all packages that bring any; if a name
    repeats, the first counts, with podium's own before others.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for file in registry.iterate_package_files(registry.SCHEMA_GROUP, "*.json"):
        try:
            found.setdefault(Path(file.path).name, json.loads(file.text))
        except ValueError as error:
            if plugins.is_own_entry_point(file.point):
                raise
            plugins.warn_about_package(
                file.point,
                f"{file.path} of package {plugins.describe_package(file.point)} is left out:"
                f" {error}",
            )
    return found


@cache
def build_schema_validator(name: str) -> "Validator":
    """Build the validator of a published schema; KeyError if there is none."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(read_published_schemas()[name])


def check_document_schema(name: str, document: Any) -> Iterator[tuple[str, str]]:
    """Yield (where, what) for each violation of a document's schema; nothing if there is no
    schema.
    """
    if name in read_published_schemas():
        for error in build_schema_validator(name).iter_errors(document):
            yield error.json_path, error.message
