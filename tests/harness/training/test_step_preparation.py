"""What is said and logged of steps that were compiled or recorded before the clock."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.training.mllog_writer import MllogWriter
from harness.training.step_preparation import prepare_training_steps
from suite.workload import StepPreparation

DONE = (
    StepPreparation(setting="train.compile", seconds=34.1234),
    StepPreparation(setting="train.graphs", seconds=0.2, problem="no graphs here"),
)


class Prepared:
    """A training that prepares what it is given."""

    def __init__(self, *done: StepPreparation) -> None:
        self.done = list(done)

    def prepare_steps(self) -> list[StepPreparation]:
        return self.done


def prepare(training: Any, path: Path, *, fresh: bool = True, leads: bool = True) -> list[Any]:
    """Return the value and the problems of each logged line."""
    job: Any = SimpleNamespace(
        name="toy",
        ranks=SimpleNamespace(leads=leads),
        request=SimpleNamespace(settings={"train.compile": True, "train.graphs": False}),
    )
    with MllogWriter(path / "result_0.txt" if leads else None) as log:
        prepare_training_steps(job, training, log, fresh)
    lines = (path / "result_0.txt.partial").read_text().splitlines() if leads else []
    events = [json.loads(line.partition(" ")[2]) for line in lines]
    assert all(event["key"] == "step_preparation" for event in events)
    return [(event["value"], event["metadata"].get("problems")) for event in events]


def test_seconds_and_failures_are_said_and_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line each, and one event."""
    assert prepare(Prepared(*DONE), tmp_path) == [
        (
            {"train.compile": 34.123, "train.graphs": None},
            {"train.graphs": "no graphs here"},
        )
    ]
    assert capsys.readouterr().out.splitlines() == [
        "toy: train.compile: preparing the steps",
        "toy: train.compile: ready after 34.1 s, before the clock",
        "toy: train.graphs: no graphs here; the steps run as without it",
    ]


def test_nothing_is_logged_of_what_was_not_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor of a training that cannot prepare its steps."""
    assert prepare(Prepared(), tmp_path) == []
    capsys.readouterr()
    assert prepare(object(), tmp_path) == []
    assert capsys.readouterr().out == ""


def test_a_run_that_resumes_has_logged_it(tmp_path: Path) -> None:
    """Its log has begun long ago."""
    assert prepare(Prepared(*DONE), tmp_path, fresh=False) == []


def test_other_ranks_speak_of_failures_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What went as it should, the first rank says."""
    prepare(Prepared(*DONE), tmp_path, leads=False)
    assert capsys.readouterr().out.splitlines() == [
        "toy: train.graphs: no graphs here; the steps run as without it"
    ]
