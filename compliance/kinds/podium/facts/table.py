"""The table of facts: what more than one document of a result states, and where each states it.

A row's first place that states a fact is the one that the others repeat. `facts.agree` reports what
differs; a document that leaves a fact out contradicts nothing.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from compliance.documents.facts import Fact, Place
from compliance.verdict import Severity
from suite import events
from suite.files.layout import fold_name
from suite.process.devices import CUDA
from suite.rounds.legality import is_within_tolerance

CPU: Final = "cpu"
SETTING_PREFIX: Final = "setting "
"""Begin of a setting's key in every document, as in the options of a ledger's step."""
PACKAGE_PREFIX: Final = "package "
"""Begin of the key of a package's version."""
FIRST_SEED: Final = "seed of run 0"
"""Run i of a set has the seed of run 0, and i."""
WORKER_THREADS: Final = "threads of one worker"
PODIUM_PACKAGE: Final = f"{PACKAGE_PREFIX}podium-suite"
PYTHON: Final = "Python"
BUILD_DEVICE: Final = "device of the build"
PROVIDER_DEVICES: Final = {
    "CPUExecutionProvider": CPU,
    "CUDAExecutionProvider": CUDA,
    "TensorrtExecutionProvider": CUDA,
}
"""ONNX Runtime's execution providers (onnxruntime.ai, Execution Providers) -> kind of device."""
LEADING_NUMBERS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")


class Column(StrEnum):
    """Kinds of documents that state facts."""

    LOG = "training log"
    SYSTEM = "system.json"
    ENGINE_PACKAGE = "engine_package"
    MEASURED = "measurements"
    BUILT = "engine_description"
    DESCRIBED = "system description"
    PACKAGES = "packages"
    WEIGHTS = "record of the checkpoint"
    REQUEST = "begin step"
    STEP = "step"


def read_device_kind(device: object) -> str | None:
    """Return cpu or cuda for a device's name; None for another kind."""
    kind = str(device).partition(":")[0]
    return kind if kind in (CPU, CUDA) else None


def is_part_of_name(one: str, other: str) -> bool:
    """Return whether one name contains the other: a user may write `PyTorch 2.13` for torch."""
    names = (fold_name(one), fold_name(other))
    return names[0] in names[1] or names[1] in names[0]


def is_same_name(one: object, other: object) -> bool:
    """Return whether two names are one, but for case, spaces and punctuation."""
    return fold_name(str(one)) == fold_name(str(other))


def is_same_version(one: str, other: str) -> bool:
    """Compare two versions without build suffixes: 2.13.0 is 2.13.0+cpu."""
    return not one or one.startswith(other) or other.startswith(one)


def is_not_older(stated: str, installed: str) -> bool:
    """Return whether a version is not older than another; a source tree that was updated is newer
    than its installation.
    """
    numbers = [
        tuple(int(part) for part in match[0].split("."))
        for each in (stated, installed)
        if (match := LEADING_NUMBERS.match(each))
    ]
    return len(numbers) < 2 or numbers[0] >= numbers[1]


def has_equal_scores(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Compare scores metric by metric."""
    return left.keys() == right.keys() and all(
        is_within_tolerance(left[name], right[name]) for name in left
    )


RUN_FACTS: Final = (
    Fact(
        name="round",
        places=(
            Place(Column.LOG, events.ROUND),
            Place(Column.SYSTEM, "round"),
            Place(Column.MEASURED, "round"),
            Place(Column.WEIGHTS, "round"),
            Place(Column.REQUEST, "round"),
        ),
    ),
    Fact(
        name="profile",
        places=(
            Place(Column.LOG, events.PROFILE),
            Place(Column.SYSTEM, "profile"),
            Place(Column.MEASURED, "profile"),
            Place(Column.DESCRIBED, "profile"),
            Place(Column.WEIGHTS, "profile"),
            Place(Column.REQUEST, "profile"),
        ),
    ),
    Fact(
        name="workload",
        places=(
            Place(Column.LOG, events.WORKLOAD),
            Place(Column.SYSTEM, "workload"),
            Place(Column.MEASURED, "workload"),
            Place(Column.WEIGHTS, "workload"),
        ),
    ),
    Fact(
        name="organisation",
        places=(
            Place(Column.LOG, events.SUBMISSION_ORG),
            Place(Column.SYSTEM, "org"),
            Place(Column.REQUEST, "org"),
        ),
        is_same=is_same_name,
    ),
    Fact(
        name="system",
        places=(
            Place(Column.LOG, events.SUBMISSION_PLATFORM),
            Place(Column.SYSTEM, "name"),
            Place(Column.REQUEST, "system"),
        ),
        is_same=is_same_name,
    ),
    Fact(
        name="framework",
        places=(
            Place(Column.LOG, events.FRAMEWORK),
            Place(Column.SYSTEM, "framework"),
            Place(Column.MEASURED, "framework"),
            Place(Column.WEIGHTS, "framework"),
            Place(Column.REQUEST, "framework"),
        ),
    ),
    Fact(
        name="name of the framework",
        places=(
            Place(Column.LOG, events.FRAMEWORK),
            Place(Column.SYSTEM, "framework"),
            Place(Column.DESCRIBED, "framework"),
        ),
        is_same=is_part_of_name,
    ),
    Fact(
        name="engine",
        places=(
            Place(Column.SYSTEM, "engine"),
            Place(Column.MEASURED, "engine"),
            Place(Column.REQUEST, "engine"),
        ),
    ),
    Fact(
        name="precision",
        places=(
            Place(Column.LOG, events.PRECISION),
            Place(Column.SYSTEM, "precision"),
            Place(Column.MEASURED, "precision"),
            Place(Column.MEASURED, "weight_data_types"),
            Place(Column.BUILT, "precision"),
            Place(Column.REQUEST, "precision"),
        ),
    ),
    Fact(
        name="input pipeline",
        places=(
            Place(Column.LOG, events.INPUT),
            Place(Column.SYSTEM, "input"),
            Place(Column.REQUEST, "input"),
        ),
    ),
    Fact(
        name="device",
        places=(
            Place(Column.LOG, events.DEVICE),
            Place(Column.SYSTEM, "device"),
            Place(Column.MEASURED, "device"),
            Place(Column.REQUEST, "device"),
        ),
    ),
    Fact(
        name="kind of device",
        places=(
            Place(Column.LOG, events.DEVICE, read_device_kind),
            Place(Column.SYSTEM, "device", read_device_kind),
            Place(Column.BUILT, "provider", PROVIDER_DEVICES.get),
            Place(Column.PACKAGES, BUILD_DEVICE),
        ),
    ),
    Fact(
        name="threads",
        places=(
            Place(Column.LOG, events.THREADS),
            Place(Column.SYSTEM, "threads"),
            Place(Column.MEASURED, "threads"),
            Place(Column.REQUEST, "threads"),
        ),
    ),
    Fact(
        name=WORKER_THREADS,
        places=(Place(Column.SYSTEM, WORKER_THREADS), Place(Column.BUILT, "threads")),
    ),
    Fact(
        name="ranks",
        places=(
            Place(Column.LOG, events.WORLD_SIZE),
            Place(Column.REQUEST, events.WORLD_SIZE),
        ),
    ),
    Fact(
        name="checkpoint",
        places=(
            Place(Column.SYSTEM, "checkpoint_sha256"),
            Place(Column.MEASURED, "checkpoint_sha256"),
        ),
    ),
    Fact(
        name="nonce",
        places=(
            Place(Column.LOG, events.NONCE),
            Place(Column.SYSTEM, "nonce"),
            Place(Column.WEIGHTS, "nonce"),
            Place(Column.STEP, "nonce"),
        ),
    ),
    Fact(
        name="seed",
        places=(Place(Column.LOG, events.SEED), Place(Column.WEIGHTS, "seed")),
    ),
    Fact(
        name="seed of the set",
        places=(Place(Column.LOG, FIRST_SEED), Place(Column.REQUEST, FIRST_SEED)),
    ),
    Fact(
        name="index of the run",
        places=(Place(Column.LOG, events.RUN_INDEX), Place(Column.WEIGHTS, "run_index")),
    ),
    Fact(
        name="version of podium",
        places=(
            Place(Column.LOG, events.VERSION),
            Place(Column.SYSTEM, "version"),
            Place(Column.WEIGHTS, "version"),
            Place(Column.ENGINE_PACKAGE, PODIUM_PACKAGE),
            Place(Column.PACKAGES, PODIUM_PACKAGE),
        ),
        severity=Severity.WARNING,
    ),
    Fact(
        name="least version of podium",
        places=(
            Place(Column.SYSTEM, "version"),
            Place(Column.ENGINE_PACKAGE, PODIUM_PACKAGE),
        ),
        is_same=is_not_older,
    ),
    Fact(
        name=PYTHON,
        places=(Place(Column.PACKAGES, PYTHON), Place(Column.DESCRIBED, PYTHON)),
        is_same=is_same_version,
        severity=Severity.WARNING,
    ),
)
"""Facts of one run, or of one system under test."""
CAMPAIGN_FACTS: Final = (
    Fact(
        name="nonce",
        places=(Place(Column.SYSTEM, "nonce"), Place(Column.LOG, events.NONCE)),
    ),
    Fact(
        name="profile",
        places=(Place(Column.SYSTEM, "profile"), Place(Column.LOG, events.PROFILE)),
    ),
    Fact(
        name="workload",
        places=(Place(Column.SYSTEM, "workload"), Place(Column.LOG, events.WORKLOAD)),
    ),
    Fact(
        name="reference accuracy",
        places=(
            Place(Column.LOG, events.REFERENCE_ACCURACY),
            Place(Column.MEASURED, "reference_accuracy"),
        ),
        is_same=has_equal_scores,
    ),
)
"""Facts that a served checkpoint shares with its training."""
SCENARIO_FACTS: Final = (
    Fact(
        name="file of the engine",
        places=(Place(Column.BUILT, "file"),),
        severity=Severity.WARNING,
    ),
)
"""Facts that the scenarios of one system share."""
