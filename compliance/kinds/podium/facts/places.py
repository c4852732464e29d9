"""Read podium's documents as places of facts: each value under the key of the table's row."""

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from compliance.documents.facts import StatingDocument
from compliance.kinds.podium.documents.checkpoint import CheckpointFile
from compliance.kinds.podium.documents.inference import InferenceEntry
from compliance.kinds.podium.documents.ledger import LedgerFile
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.documents.training import TrainingLog, is_logged_count
from compliance.kinds.podium.facts.table import (
    BUILD_DEVICE,
    CPU,
    FIRST_SEED,
    PACKAGE_PREFIX,
    PYTHON,
    SETTING_PREFIX,
    WORKER_THREADS,
    Column,
)
from suite import events
from suite.ledger.steps import LedgerStep
from suite.records import CheckpointRecord, ServedRun, SystemUnderTest
from suite.rounds.settings import PERFORMANCE_PREFIXES

CPU_BUILD_SUFFIX: Final = "+cpu"
"""Of the version of a PyTorch that has no kernels for GPUs (pytorch.org, Previous versions)."""
TORCH: Final = "torch"
WORKERS_SETTING: Final = "data.workers"
"""A training run that lost its data workers may go on with fewer; weights do not depend on it."""
BUILT_SETTINGS: Final = {
    "graph_optimization": "engine.graph_optimization",
    "optimization_level": "engine.optimization_level",
    "workspace_mib": "engine.workspace_mib",
}
"""What an engine says of a network -> the setting that it was built with."""
BUILDING_PACKAGES: Final = ("torch", "onnxruntime", "onnx", "tensorflow", "tensorrt")
"""Packages whose version an engine says of each network."""
NAMESAKE_LIBRARIES: Final = ("TensorRT for RTX",)
"""Libraries whose version stands under the name of another package (extras/tensorrt/library.py)."""
PYTHON_VERSION: Final = re.compile(r"\bPython ([0-9][0-9a-z.]{0,20})")


def read_log_place(log: TrainingLog) -> StatingDocument:
    """Read a training log."""
    values = {record.key: record.value for record in reversed(log.records)}
    table, seed, index = map(log.find_value, (events.SETTINGS, events.SEED, events.RUN_INDEX))
    if isinstance(table, dict):
        values |= prefix_settings(table)
    if is_logged_count(seed) and is_logged_count(index):
        values[FIRST_SEED] = seed - index
    values[events.REFERENCE_ACCURACY] = dict(log.reference) or None
    lines = {FIRST_SEED: events.SEED}

    def find_line(key: str) -> int | None:
        if key.startswith(SETTING_PREFIX):
            return log.find_line(events.SETTINGS)
        return log.find_line(lines.get(key, key))

    return StatingDocument(kind=Column.LOG, file=log.path, values=values, find_line=find_line)


def prefix_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by the keys that every document has for them."""
    return {
        f"{SETTING_PREFIX}{key}": value for key, value in settings.items() if key != WORKERS_SETTING
    }


def get_record_fields(record: SystemUnderTest | CheckpointRecord) -> dict[str, Any]:
    """Return the fields of a record; dataclasses.asdict would copy its settings."""
    return {each.name: getattr(record, each.name) for each in fields(record)}


def read_system_places(entry: InferenceEntry, record: ServedRun) -> list[StatingDocument]:
    """Read system.json, and apart from it the engine's package, which names versions of its own."""
    file = entry.runs[0].system_source.path
    places = [read_system_place(record.system, entry)]
    package = record.system.engine_package.partition(",")[0].rpartition(" ")
    if record.network is None and package[0]:
        places.append(
            StatingDocument(
                kind=Column.ENGINE_PACKAGE,
                file=file,
                part="engine_package",
                values={f"{PACKAGE_PREFIX}{package[0]}": package[2]},
            )
        )
    return places


def read_system_place(system: SystemUnderTest, entry: InferenceEntry) -> StatingDocument:
    """Read the record of a system under test."""
    values = {**get_record_fields(system), **prefix_settings(system.settings)}
    values[WORKER_THREADS] = compute_worker_threads(system, entry)
    return StatingDocument(
        kind=Column.SYSTEM,
        file=entry.runs[0].system_source.path,
        values=values,
    )


def compute_worker_threads(system: SystemUnderTest, entry: InferenceEntry) -> int | None:
    """Return the threads of each worker, as podium shares them out; None if they depend on what
    else an instance was pinned to.
    """
    instances = [run.record.instances for run in entry.runs if run.record]
    if any(each.cores for group in instances for each in group):
        return None
    workers = max(map(len, instances), default=0) or system.settings.get("batching.workers")
    if not is_logged_count(workers) or workers == 0:
        return None
    return max(1, system.threads // workers)


def read_measured_places(entry: InferenceEntry) -> list[StatingDocument]:
    """Read the measurements file, and what it says that the engine built of each network."""
    stated, file = entry.measurements, entry.measurements_path
    if stated is None or file is None:
        return []
    values = {name: getattr(stated, name) for name in stated.__struct_fields__}
    places = [StatingDocument(kind=Column.MEASURED, file=file, values=values)]
    if entry.record and entry.record.network:
        return places
    for network, description in stated.engine_description.items():
        if isinstance(description, Mapping):
            places.append(
                StatingDocument(
                    kind=Column.BUILT,
                    file=file,
                    part=f"engine_description of {network}",
                    values=read_built_values(description),
                )
            )
    return places


def read_built_values(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an engine says of a network, by the keys that every document has for it."""
    values = dict(description)
    for name, setting in BUILT_SETTINGS.items():
        if name in values:
            values[f"{SETTING_PREFIX}{setting}"] = values[name]
    if values.get("library") in NAMESAKE_LIBRARIES:
        return values
    for name in BUILDING_PACKAGES:
        if isinstance(values.get(name), str):
            values[f"{PACKAGE_PREFIX}{name}"] = values[name]
    return values


def read_description_places(system: SystemFile, computing: str) -> list[StatingDocument]:
    """Read a system description, and apart from it its packages.

    Args:
        system: the description.
        computing: the package that computed on the system's device, an engine or a framework.
    """
    description, file = system.description, system.path
    packages = description.podium.packages
    stated: dict[str, Any] = {
        "framework": description.framework,
        "profile": description.podium.profile,
    }
    framework, _, version = (description.framework or "").partition(" ")
    if version and framework in packages:
        stated[f"{PACKAGE_PREFIX}{framework}"] = version
    if match := PYTHON_VERSION.search(str(description.other_software_stack)):
        stated[PYTHON] = match[1]
    installed: dict[str, Any] = {
        PYTHON: description.podium.python,
        **{f"{PACKAGE_PREFIX}{key}": value for key, value in packages.items()},
    }
    if computing == TORCH and packages.get(TORCH, "").endswith(CPU_BUILD_SUFFIX):
        installed[BUILD_DEVICE] = CPU
    return [
        StatingDocument(kind=Column.DESCRIBED, file=file, values=stated),
        StatingDocument(kind=Column.PACKAGES, file=file, part="podium.packages", values=installed),
    ]


def read_weights_place(found: CheckpointFile) -> StatingDocument:
    """Read the record of a checkpoint."""
    values = get_record_fields(found.record)
    return StatingDocument(kind=Column.WEIGHTS, file=found.path, values=values)


def read_step_places(ledger: LedgerFile, step: LedgerStep) -> list[StatingDocument]:
    """Read the step that made a result, and the request of the step that began it."""
    return [
        build_step_place(ledger, begun, Column.REQUEST, read_request_values(begun))
        for begun in find_begin_steps(ledger, step)
    ] + [build_step_place(ledger, step, Column.STEP, {"nonce": step.nonce or None})]


def build_step_place(
    ledger: LedgerFile, step: LedgerStep, kind: Column, values: Mapping[str, Any]
) -> StatingDocument:
    """Build the place of a step, whose values all stand in one line."""
    return StatingDocument(
        kind=kind,
        file=ledger.source.path,
        part=f"step {step.n}",
        values=values,
        find_line=lambda key: step.n + 1,
    )


def find_begin_steps(ledger: LedgerFile, step: LedgerStep) -> list[LedgerStep]:
    """Return the last step before another that began it; none for one that began nothing."""
    key = (step.what, step.of, step.nonce)
    begun = [
        each
        for each in ledger.steps
        if each.options and each.n < step.n and (each.what, each.of, each.nonce) == key
    ]
    return begun[-1:]


def read_request_values(begun: LedgerStep) -> dict[str, Any]:
    """Return what was requested, without the settings that a run may change."""
    left_out = tuple(f"{SETTING_PREFIX}{prefix}" for prefix in PERFORMANCE_PREFIXES)
    values = {
        key: value
        for key, value in begun.options.items()
        if not key.startswith(left_out) and key != f"{SETTING_PREFIX}{WORKERS_SETTING}"
    }
    values[FIRST_SEED] = begun.options.get("seed")
    return values
