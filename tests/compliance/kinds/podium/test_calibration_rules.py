"""Quantised results: everything that a calibration tells is judged, and nothing of the accuracy set
passes unnamed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from examples import EXAMPLES
from kinds.calibration import HASHES, MEASURED, NAMES, RANGES, calibration, quantised
from making import ROUND
from spoiling import put
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.podium.rules.inference import calibration as rules
from compliance.kinds.podium.rules.inference.calibration import find_calibration_problems
from compliance.verdict import Severity
from suite.records import CalibrationRecord

OTHERS = tuple(f"ILSVRC2012_val_{number:08d}.JPEG" for number in range(1, 501))


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    def make(**networks: Any) -> Path:
        folder = tmp_path_factory.mktemp("tree")
        quantised(folder, **networks)
        return folder

    return make


def errors(path: Path) -> dict[str, str]:
    """Rule -> what it found."""
    return {
        finding.rule: finding.found
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    }


def used(**changes: Any) -> CalibrationRecord:
    return CalibrationRecord(**{**calibration(), **changes})


def test_a_calibration_by_the_rules_raises_no_alarm(write: Callable[..., Path]) -> None:
    assert errors(write()) == {}


def test_two_networks_share_a_list_and_may_not_have_two(write: Callable[..., Path]) -> None:
    """The README of MLPerf's lists: at most one of them."""
    assert (
        errors(write(trunk=calibration(), head=calibration(samples=NAMES[:4], sha256=HASHES[:4])))
        == {}
    )
    two = errors(write(head=calibration(), trunk=calibration(list="mine")))
    assert two == {"entry.calibration_list": "calibration lists mine, woven"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"list": "mine"}, "the calibration list 'mine'"),
        ({"list": "cal_image_list_option_1"}, "the calibration list 'cal_image_list_option_1'"),
        ({"names": NAMES[:-1], "samples": NAMES[:3], "sha256": HASHES[:3]}, "woven with 95 names"),
        (
            {
                "names": ("val/bars-cross/bars-cross_00000.JPEG", *NAMES[1:]),
                "samples": NAMES[1:],
                "sha256": HASHES[1:],
            },
            "woven with names whose SHA-256",
        ),
    ],
)
def test_a_list_that_is_not_the_rounds_is_refused(
    write: Callable[..., Path], changes: dict[str, Any], words: str
) -> None:
    """Under its own name or under the round's: the hash of its names tells."""
    found = errors(write(resnet50=calibration(**changes)))
    assert found.keys() == {"entry.calibration_list"} and words in found["entry.calibration_list"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"samples": (), "sha256": ()}, "no samples"),
        ({"samples": ("val/a.JPEG", *NAMES[1:])}, "val/a.JPEG not on the list woven"),
        ({"samples": (NAMES[1], *NAMES[1:])}, f"{NAMES[1]} twice"),
        ({"sha256": HASHES[1:]}, "95 hashes for 96 samples"),
        ({"sha256": ("0" * 64,) * 96}, "1 different hashes for 96 samples"),
        ({"sha256": ("none", *HASHES[1:])}, "96 hashes for 96 samples"),
        ({"touched": NAMES[:4]}, f"{', '.join(NAMES[:3])} and 1 more from the accuracy set"),
        (
            {"touched": ("x",), "list": "cal_image_list_option_1"},
            "x from the accuracy set, listed but not used",
        ),
    ],
)
def test_samples_that_are_not_what_the_list_allows_are_named(
    changes: dict[str, Any], words: str
) -> None:
    found = [
        text
        for text, _ in find_calibration_problems(
            used(**changes), of_accuracy_set="touched" in changes and "list" in changes
        )
    ]
    assert words in found


def test_a_list_of_the_accuracy_set_may_touch_it() -> None:
    """MLPerf's ImageNet lists name validation pictures, though the rule speaks of training data."""
    listed = used(
        list="cal_image_list_option_1",
        names=OTHERS,
        samples=OTHERS,
        sha256=tuple(f"{number:064x}" for number in range(500)),
        touched=OTHERS,
    )
    assert not list(find_calibration_problems(listed, of_accuracy_set=True))
    assert list(find_calibration_problems(listed, of_accuracy_set=False))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"calibration": {}}, "int8 with no calibration"),
        ({"engine_description": {}}, "no range for network resnet50"),
        (
            {"engine_description": {"resnet50": {"torch": "2.13.0", "range.picture": [2.0, -2.0]}}},
            "no range for network resnet50",
        ),
        (
            {"engine_description": {"resnet50": {"torch": "2.13.0", "range.picture": "all"}}},
            "no range for network resnet50",
        ),
        ({"calibration": {"resnet50": calibration(method="guess")}}, "method 'guess'"),
    ],
)
def test_a_quantised_result_tells_its_ranges_and_their_method(
    write: Callable[..., Path], changes: dict[str, Any], words: str
) -> None:
    folder = write()
    for path in folder.glob(MEASURED):
        put(**changes)(path)
    assert errors(folder) == {"entry.calibrated": words}


def test_a_result_in_fp32_was_not_calibrated(write: Callable[..., Path]) -> None:
    """An fp32 result with a calibration was either not fp32 or not calibrated."""
    folder = write()
    for path in folder.glob("**/system.json"):
        put_system(precision="fp32")(path)
    for path in folder.glob(MEASURED):
        put(precision="fp32", weight_data_types="fp32")(path)
    assert errors(folder) == {"entry.calibrated": "fp32 with a calibration"}


@pytest.mark.parametrize(
    ("precision", "networks"), [("fp32", {}), ("int8", {"head": calibration()})]
)
def test_ranges_without_samples_are_refused(
    write: Callable[..., Path], precision: str, networks: dict[str, Any]
) -> None:
    """A network in INT8 among others in INT8, or under fp32's name: what its ranges come from stays
    untold.
    """
    folder = write(**networks)
    for path in folder.glob("**/system.json"):
        put_system(precision=precision)(path)
    described = {**dict.fromkeys(networks, RANGES), "trunk": RANGES}
    for path in folder.glob(MEASURED):
        put(
            precision=precision,
            weight_data_types=precision,
            calibration=networks,
            engine_description=described,
        )(path)
    assert errors(folder) == {
        "entry.calibrated": "ranges of network trunk, which was not calibrated"
    }


def test_a_network_in_another_format_than_the_result_s_is_refused(
    write: Callable[..., Path],
) -> None:
    """The engine's own word on what it built: an INT8 network's speed under fp32's name, or the
    other way round.
    """
    folder = write()
    for path in folder.glob(MEASURED):
        put(engine_description={"resnet50": {"precision": "fp32", **RANGES}})(path)
    assert errors(folder) == {"facts.agree": "precision 'fp32' in engine_description of resnet50"}


def test_two_scenarios_with_two_lists_are_refused() -> None:
    assert (
        errors(EXAMPLES / "invalid" / "tree.calibration")["tree.calibration"]
        == "the calibration list woven"
    )


def test_methods_are_those_of_the_setting() -> None:
    """A method that the setting offers and the judge does not know would be refused after hours of
    work.
    """
    assert tuple(ROUND.settings["calibration.method"].choices) == rules.ALLOWED_CALIBRATION_METHODS
