"""Parsed logs as plain documents, and the published schemas that describe them.

A workload's training document is described by `training.<round>.<workload>.json` in a package of
the group `podium.schemas`.
Importing jsonschema takes a tenth of a second, so a single log is judged only by typed rules; tests
check that both agree.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compliance.documents.podium.training import AFTER, FACTS, HEADER, SOME_FACTS, TrainingLog
from suite import events, plugins, registry

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def training_document(log: TrainingLog) -> dict[str, Any]:
    """Return the facts of a training log as one JSON document."""
    settings = log.row.settings if log.row else {}
    return {
        **{key: log.value(key) for key in (*HEADER, *FACTS, *SOME_FACTS, *AFTER) if log.all(key)},
        "hyperparameters": {
            key: log.value(key) for key, setting in settings.items() if setting.log and log.all(key)
        },
        "evaluations": [
            {
                events.EPOCH_NUM: record.event.metadata.get(events.EPOCH_NUM),
                events.EVAL_ACCURACY: record.value,
            }
            for record in log.all(events.EVAL_ACCURACY)
        ],
        "status": log.status,
    }


@cache
def schemas() -> Mapping[str, Mapping[str, Any]]:
    """Load every published schema by file name, from all packages of the group; if a name repeats,
    the first counts, with podium's own before others.
    """
    found: dict[str, Mapping[str, Any]] = {}
    for file in registry.package_files(registry.SCHEMAS, ".json"):
        try:
            found.setdefault(Path(file.path).name, json.loads(file.text))
        except ValueError as error:
            if plugins.own(file.point):
                raise
            plugins.warn(
                file.point,
                f"{file.path} of package {plugins.package(file.point)} is left out: {error}",
            )
    return found


@cache
def validator(name: str) -> "Validator":
    """Build the validator of a published schema; KeyError if there is none."""
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schemas()[name])


def problems(name: str, document: Any) -> Iterator[tuple[str, str]]:
    """Yield (where, what) for each violation of a document's schema; nothing if there is no
    schema.
    """
    if name in schemas():
        for error in validator(name).iter_errors(document):
            yield error.json_path, error.message
