"""Examples of results in INT8: with the calibration that the round asks for, and with each thing
wrong that its rules name.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import making
from spoiling import OFF, SINGLE, Builder, put, then
from system_records import put_system

from suite.loadgen.scenario import Scenario
from workloads.resnet50.images.embedded import (
    RESNET50_CALIBRATION_LIST,
    iterate_embedded_calibration,
)

NAMES: Final = tuple(iterate_embedded_calibration())
HASHES: Final = tuple(hashlib.sha256(name.encode()).hexdigest() for name in NAMES)
MEASURED: Final = "**/*_podium_*.json"
RANGES: Final = {"torch": "2.13.0", "range.picture": [-2.1, 2.6], "range.logit": [-4.0, 9.5]}


def calibration(**changes: Any) -> dict[str, Any]:
    """What a measurements file tells of one network."""
    return {
        "list": RESNET50_CALIBRATION_LIST,
        "method": "min-max",
        "names": NAMES,
        "samples": NAMES,
        "sha256": HASHES,
        "touched": (),
        **changes,
    }


def quantised(folder: Path, *scenarios: Scenario, **networks: Mapping[str, Any]) -> None:
    """A tree in INT8."""
    making.write_tree(folder, *scenarios)
    for path in folder.glob("**/system.json"):
        put_system(precision="int8")(path)
    used = networks or {"resnet50": calibration()}
    described = dict.fromkeys(used, RANGES)
    for path in folder.glob(MEASURED):
        put(
            precision="int8",
            weight_data_types="int8",
            calibration=used,
            engine_description=described,
        )(path)


def spoilt(**changes: Any) -> Builder:
    """The same with other facts of its calibration."""
    return lambda folder: quantised(folder, resnet50=calibration(**changes))


def two_lists(folder: Path) -> None:
    """Two scenarios, and each has a list of its own."""
    quantised(folder, SINGLE, OFF)
    for path in folder.glob("**/*_podium_Offline.json"):
        put(
            calibration={
                "resnet50": calibration(
                    list="mine", names=NAMES[:2], samples=NAMES[:2], sha256=HASHES[:2]
                )
            }
        )(path)


BASES: Final[Mapping[str, Builder]] = {"quantised": quantised}
VALID: Final[Mapping[str, str | Builder]] = dict.fromkeys(
    ("entry.calibrated", "entry.calibration_list", "entry.calibration_samples", "tree.calibration"),
    "quantised",
)
INVALID: Final[Mapping[str, Builder]] = {
    "entry.calibrated": then(quantised, MEASURED, put(calibration={})),
    "entry.calibration_list": spoilt(names=NAMES[:2], samples=NAMES[:2], sha256=HASHES[:2]),
    "entry.calibration_samples": spoilt(touched=NAMES[:1]),
    "tree.calibration": two_lists,
}
