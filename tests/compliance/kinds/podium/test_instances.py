"""What the judge holds of systems with several instances."""

from pathlib import Path
from typing import Any

import pytest
from making_inference import SRV
from spoiling import SYSTEM, put, run, then
from system_records import put_system

from compliance.judge import Judge

EACH = 2  # batches; the run has 4, of 459 samples


def found(
    tmp_path: Path, setting: int, *instances: dict[str, Any], **more: Any
) -> list[tuple[str, str]]:
    system = {"settings__sut.instances": setting}
    system |= {key: each for key, each in more.items() if key.startswith(("settings", "device"))}
    own = {key: each for key, each in more.items() if key not in system}
    asked = then(run(SRV), SYSTEM, put_system(**system))
    then(asked, "**/run.json", put(instances=list(instances), **own))(tmp_path)
    return [
        (str(each.severity), each.found)
        for each in Judge().judge_path(str(tmp_path)).findings
        if each.rule == "loadgen.instances"
    ]


def instance(samples: int, *cores: int, batches: int = EACH) -> dict[str, Any]:
    return {"cores": list(cores), "batches": batches, "samples": samples}


def test_instances_that_add_up_are_no_finding(tmp_path: Path) -> None:
    """Pinned or not."""
    assert found(tmp_path, 2, instance(230, 0), instance(229, 1)) == []


@pytest.mark.parametrize(
    ("setting", "instances", "words"),
    [
        (3, [instance(230, 0), instance(229, 1)], "2 instances"),
        (2, [instance(230, 0, 1), instance(229, 1)], "cores [0, 1, 1]"),
        (2, [instance(230, 0), instance(228, 1)], "458 samples"),
        (2, [instance(230, 0), instance(229, 1, batches=3)], "5 batches"),
        (2, [instance(689, 0), instance(-230, 1)], "459 samples"),
        (2, [], "0 instances"),
        (0, [instance(459, 0, batches=4)], "1 instances"),
    ],
    ids=[
        "fewer than set",
        "one core twice",
        "samples lost",
        "a batch more",
        "a negative count",
        "none told",
        "none set",
    ],
)
def test_what_does_not_add_up_is_an_error(
    setting: int, instances: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    """Whoever adds devices to a record has to make them answer."""
    ((severity, text),) = found(tmp_path, setting, *instances)
    assert severity == "error" and words in text


def on(device: str, samples: int, *cores: int, batches: int = EACH) -> dict[str, Any]:
    return {"device": device, **instance(samples, *cores, batches=batches)}


@pytest.mark.parametrize(
    ("setting", "device", "instances"),
    [
        (0, "cuda:0-1", [on("cuda:0", 230, 0), on("cuda:1", 229, 1)]),
        (1, "cuda:0,6", [on("cuda:6", 230, 0), on("cuda:0", 229, 1)]),
        (
            2,
            "cuda:0-1",
            [
                on("cuda:0", 200, 0, batches=1),
                on("cuda:0", 100, 1, batches=1),
                on("cuda:1", 100, 2, batches=1),
                on("cuda:1", 59, batches=1),
            ],
        ),
        (2, "cuda:3", [instance(230, 0), on("cuda:3", 229, 1)]),
    ],
    ids=["one each", "other numbers", "two each", "two of one device"],
)
def test_devices_with_their_instances_are_no_finding(
    setting: int, device: str, instances: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The setting counts for each device of several, and 0 is 1 there."""
    assert found(tmp_path, setting, *instances, device=device) == []


@pytest.mark.parametrize(
    ("setting", "device", "instances", "words"),
    [
        (0, "cuda:0,0", [on("cuda:0", 230, 0), on("cuda:0", 229, 1)], "device cuda:0,0"),
        (0, "cuda:1-0", [on("cuda:0", 230, 0), on("cuda:1", 229, 1)], "device cuda:1-0"),
        (
            0,
            "cuda:0-999999999999",
            [on("cuda:0", 230, 0), on("cuda:1", 229, 1)],
            "device cuda:0-999999999999",
        ),
        (0, "cuda:0-1", [on("cuda:0", 230, 0), on("cuda:0", 229, 1)], "2 instances: 2 on cuda:0"),
        (0, "cuda:0-1", [on("cuda:0", 230, 0), on("cuda:2", 229, 1)], "1 on cuda:2"),
        (0, "cuda:0-1", [instance(230, 0), instance(229, 1)], "2 on cuda:0-1"),
        (0, "cuda:0-2", [on("cuda:0", 230, 0), on("cuda:1", 229, 1)], "2 instances"),
        (0, "cuda:0-7", [], "0 instances"),
        (2, "cuda:0-1", [on("cuda:0", 230, 0), on("cuda:1", 229, 1)], "2 instances"),
        (2, "cuda:0", [on("cuda:0", 230, 0), on("cuda:1", 229, 1)], "1 on cuda:1"),
        (2, "cpu", [on("cpu", 230, 0), on("cuda:0", 229, 1)], "1 on cuda:0"),
        (0, "cuda:0-1", [on("cuda:0", 230, 0), on("cuda:1", 229, 0)], "cores [0, 0]"),
    ],
    ids=[
        "twice",
        "backwards",
        "beyond reason",
        "one idle",
        "other's",
        "untold",
        "one without",
        "none",
        "too few",
        "two for one",
        "GPU beside",
        "core twice",
    ],
)
def test_devices_without_their_own_instances_are_an_error(
    setting: int, device: str, instances: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    """Eight GPUs are eight times the rate; who names them has to have used them."""
    ((severity, text),) = found(tmp_path, setting, *instances, device=device)
    assert severity == "error" and words in text


def test_an_instance_that_did_little_is_a_warning(tmp_path: Path) -> None:
    """Enough batches to tell: a device that is idle should be seen."""
    told = [instance(400, 0, batches=20), instance(59, 1, batches=3)]
    many = {"batches__count": 23.0, "batches__mean_size": 459 / 23}
    assert found(tmp_path, 2, *told, **many) == [("warning", "59 samples answered by instance 1")]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"settings__sut.pin": "on"}, ""),
        (
            {
                "settings__sut.pin": "auto",
                "settings__sut.loadgen_cores": "3,2",
                "loadgen_cores": [2, 3],
            },
            "",
        ),
        ({"settings__sut.pin": "off"}, "instances on the cores [0, 1]"),
        ({"settings__sut.loadgen_cores": "2"}, "LoadGen on the cores []"),
        ({"loadgen_cores": [2]}, "LoadGen on the cores [2]"),
        ({"settings__sut.loadgen_cores": "2", "loadgen_cores": [3]}, "LoadGen on the cores [3]"),
        (
            {"settings__sut.loadgen_cores": "0-99999999999", "loadgen_cores": [2]},
            "LoadGen on the cores [2]",
        ),
        (
            {"settings__sut.loadgen_cores": "1-2", "loadgen_cores": [1, 2]},
            "instances and LoadGen on the same cores [1]",
        ),
    ],
)
def test_cores_are_those_of_the_settings(told: dict[str, Any], words: str, tmp_path: Path) -> None:
    """A record that claims an isolated LoadGen, or pinned instances, has to show the cores."""
    faults = found(tmp_path, 2, instance(230, 0), instance(229, 1), **told)
    assert (
        (faults == [])
        if not words
        else (len(faults) == 1 and faults[0][0] == "error" and words in faults[0][1])
    )


def test_pinned_instances_have_cores(tmp_path: Path) -> None:
    """`sut.pin=on` leaves none without."""
    ((severity, text),) = found(
        tmp_path, 2, instance(230, 0), instance(229), **{"settings__sut.pin": "on"}
    )
    assert severity == "error" and text == "instances on the cores [0]"
