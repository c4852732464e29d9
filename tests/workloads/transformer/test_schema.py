"""The published schema of a training log: it is one, is found, and names what the row names."""

import json
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from compliance.kinds.podium.documents import json_document
from suite import registry

NAME = "training.podium-v1.transformer.json"
SCHEMA = json_document.read_published_schemas()[NAME]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(dict(SCHEMA))
    assert SCHEMA["$id"].endswith(NAME)


def test_it_names_the_hyper_parameters_of_the_row() -> None:
    """A key that one has and the other has not would be judged by chance."""
    settings = registry.load_round().benchmark("transformer").settings
    assert set(SCHEMA["properties"]["hyperparameters"]["properties"]) == {
        key for key, setting in settings.items() if setting.log
    }


def test_it_is_resnet50_s_but_for_names_metric_and_hyper_parameters() -> None:
    """The facts of a log are the same for all workloads."""
    own, other = (
        json.loads(
            json.dumps(
                dict(json_document.read_published_schemas()[f"training.podium-v1.{name}.json"])
            )
        )
        for name in ("transformer", "resnet50")
    )
    for schema, metric in ((own, "bleu"), (other, "top1")):
        for key in ("$id", "title"):
            schema.pop(key)
        for key in ("hyperparameters", "submission_benchmark", "podium_workload"):
            schema["properties"].pop(key)
        for key in ("quality_target", "reference_accuracy"):
            assert schema["properties"].pop(key)["required"] == [metric]
    assert own == other


DOCUMENT = {
    "podium_workload": "transformer",
    "submission_benchmark": "transformer",
    "quality_target": {"bleu": 0.25},
}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("quality_target", {"bleu": 25.0}),
        ("quality_target", {"top1": 0.5}),
        ("submission_benchmark", "gnmt"),
        ("hyperparameters", {"opt_name": "sgd"}),
    ],
)
def test_it_refuses_what_is_wrong(key: str, value: object) -> None:
    """BLEU in percent, another metric, another benchmark, an optimizer that the reference has
    not.
    """
    part = {"$schema": SCHEMA["$schema"], "properties": {key: SCHEMA["properties"][key]}}
    assert list(Draft202012Validator(part).iter_errors(DOCUMENT | {key: value}))
    if key in DOCUMENT:
        assert not list(Draft202012Validator(part).iter_errors(DOCUMENT))


def test_it_lies_in_the_workload_s_folder() -> None:
    """A sixth workload is one folder and its entry points."""
    assert files("workloads.transformer").joinpath(NAME).is_file()
