"""The published schema of a training log names what the row names, and says of everything else what
other workloads' schemas say.
"""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from compliance.kinds.podium.documents import json_document
from suite import registry

OWN = (
    "hyperparameters",
    "submission_benchmark",
    "podium_workload",
    "quality_target",
    "reference_accuracy",
)


def schema(workload: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        json.dumps(
            dict(json_document.read_published_schemas()[f"training.podium-v1.{workload}.json"])
        )
    )
    return found


def test_it_names_the_hyper_parameters_of_the_row() -> None:
    """A key that one has and the other has not would be judged by chance."""
    settings = registry.load_round().benchmark("gnmt").settings
    assert set(schema("gnmt")["properties"]["hyperparameters"]["properties"]) == {
        key for key, setting in settings.items() if setting.log
    }


def test_the_rest_is_resnet50_s() -> None:
    """The facts of a log are the same for all workloads."""
    own, other = schema("gnmt"), schema("resnet50")
    for found in (own, other):
        del found["$id"], found["title"]
        for key in OWN:
            del found["properties"][key]
    assert own == other


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("quality_target", {"bleu": 0.24}, {"bleu": 24.0}),
        ("reference_accuracy", {"bleu": 0.24}, {"top1": 0.24}),
        ("submission_benchmark", "gnmt", "transformer"),
        ("podium_workload", "gnmt", "resnet50"),
    ],
)
def test_it_refuses_other_metrics_and_names(key: str, good: object, bad: object) -> None:
    """BLEU in percent would pass every target."""
    part = Draft202012Validator(schema("gnmt")["properties"][key])
    assert part.is_valid(good) and not part.is_valid(bad)
