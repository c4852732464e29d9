"""`podium train --dry-run`: everything is checked, little is computed, and nothing stays."""

import gc
import os
import signal
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes import drive, fake
from podium_fakes.drive import options

from harness.training.dry_run import (
    EpochTimes,
    TrainingTrial,
    estimate_training_run_s,
    find_expected_epochs,
    is_measured_enough,
    record_step_time,
    try_training,
)
from harness.training.request import resolve_training_request
from suite.errors import JudgedError, RequestError
from suite.rounds import HyperValue
from suite.workload import StepPreparation


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, which has to be empty afterwards."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.mark.slow
def test_a_dry_run_estimates_a_run_and_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    """Ten steps of 20 ms, and evaluations of 0.1 s, at most six times."""
    settings = ("fake.step_ms=20", "fake.evaluate_s=0.1")
    found = try_training("fake", options(tmp_path / "results", *settings), seed=1)
    (stage,) = found.stages
    assert stage.seconds is not None and 6 * (10 * 0.02 + 0.1) < stage.seconds < 60
    assert "6 epochs, the most of a run" in stage.basis and stage.most_seconds is None
    assert found.memory_bytes > 10_000_000 and 0 < found.disk_bytes < 1_000_000
    assert not (tmp_path / "results").exists() and list(scratch.iterdir()) == []


@pytest.mark.slow
def test_steps_are_prepared_as_a_run_prepares_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the estimate were of other steps than those of the run."""

    class PreparedTraining(fake.FakeTraining):
        """A class of its own: Python remembers which classes have a method."""

        def prepare_steps(self) -> list[StepPreparation]:
            return [StepPreparation(setting="train.compile", seconds=2.5)]

    monkeypatch.setattr(fake, "FakeTraining", PreparedTraining)
    try_training("fake", options(tmp_path / "results"), seed=1)
    said = capsys.readouterr().out
    assert said.index("train.compile: ready after 2.5 s") < said.index("taking the first steps")


@pytest.mark.slow
def test_a_training_in_a_circle_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaders are in circles: their workers took memory from serving, and at the end of the process
    each was waited for until it was killed.
    """
    built: list[weakref.ref[fake.FakeTraining]] = []
    facts = fake.FakeTraining.facts

    def close_circle(training: fake.FakeTraining) -> Mapping[str, HyperValue]:
        training.itself = training  # type: ignore[attr-defined]
        built.append(weakref.ref(training))
        return facts(training)

    monkeypatch.setattr(fake.FakeTraining, "facts", close_circle)
    thresholds = gc.get_threshold()
    try:
        try_training("fake", options(tmp_path / "results"), seed=1)
        assert built and {each() for each in built} == {None}
    finally:
        gc.set_threshold(*thresholds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("refused", RequestError, "."),
        ("setup", JudgedError, "the dry run failed"),
        ("evaluate", JudgedError, "the dry run failed"),
        ("nan_loss", JudgedError, "the loss is nan after"),
    ],
)
def test_a_fault_is_one_sentence_and_leaves_nothing(
    fault: str, error: type[Exception], words: str, tmp_path: Path, scratch: Path
) -> None:
    asked = options(tmp_path / "results", f"fake.fault={fault}", "fake.fault_epoch=1")
    with pytest.raises(error, match=words):
        try_training("fake", asked)
    assert not (tmp_path / "results").exists() and list(scratch.iterdir()) == []


def test_ranks_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RequestError, match="takes one rank; start it without torchrun"):
        try_training("fake", options(tmp_path / "results"))


@pytest.mark.slow
def test_an_interrupt_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    environment = {**drive.slowed(200), "TMPDIR": str(scratch)}
    child = drive.start(drive.words(tmp_path / "results", "--dry-run"), env=environment)
    drive.until(lambda: any(scratch.glob("podium-scratch-*")) or child.poll() is not None)
    os.kill(child.pid, signal.SIGINT)
    output, errors = child.communicate(timeout=120)
    assert child.returncode == 130, (output, errors)
    assert "Traceback" not in errors
    assert not (tmp_path / "results").exists() and list(scratch.iterdir()) == []


def test_the_first_step_counts_once_and_steps_without_samples_as_they_are() -> None:
    """Self-play has no samples, and the first step starts the workers that load data."""
    times = EpochTimes()
    for samples, seconds in ((0, 4.0), (0, 5.0), (10, 3.0), (10, 1.0), (10, 1.0)):
        record_step_time(times, samples, seconds)
    assert times.estimate_epoch_s(100) == pytest.approx(9 + 3 + 90 * 0.1)


def test_an_epoch_of_one_step_takes_its_time() -> None:
    times = EpochTimes()
    record_step_time(times, 50, 2.0)
    assert times.estimate_epoch_s(50) == 2.0


def test_enough_is_measured_after_seconds_but_not_in_the_midst_of_self_play() -> None:
    training = EpochTimes(first_samples=8, later_samples=8)
    assert [is_measured_enough(training, seconds) for seconds in (1.0, 7.0)] == [False, True]
    playing = EpochTimes(unsampled_s=20.0)
    assert [is_measured_enough(playing, seconds) for seconds in (20.0, 91.0)] == [False, True]
    assert not is_measured_enough(replace(playing, first_samples=8), 91.0), "steps have come"
    assert not is_measured_enough(EpochTimes(first_samples=8), 7.0), "one step says too little"


def test_evaluations_and_checkpoints_come_after_blocks() -> None:
    trial = TrainingTrial(
        prepared_s=1.0,
        epoch=EpochTimes(),
        evaluation_s=10.0,
        saving_s=2.0,
        scoring_s=5.0,
        checkpoint_bytes=0,
        exported_bytes=0,
    )
    blocks = [range(1, 3), range(3, 5), range(5, 7)]
    assert estimate_training_run_s(trial, 100.0, blocks, 3.5) == 3.5 * 100 + 2 * 12 + 2 + 5


def test_expected_epochs_are_those_of_the_rows_own_hyper_parameters(tmp_path: Path) -> None:
    """Another learning rate takes another number of epochs, which nobody has counted."""
    known = resolve_training_request("fake", options(tmp_path))
    training = replace(known, row=replace(known.row, expected_epochs=3.0))
    assert find_expected_epochs(training)[0] == 3.0
    other = resolve_training_request("fake", options(tmp_path, "global_batch_size=4"))
    other = replace(other, row=training.row)
    assert find_expected_epochs(other) == (None, "")
    slow = resolve_training_request("fake", options(tmp_path, "fake.step_ms=1"))
    assert find_expected_epochs(replace(slow, row=training.row))[0] == 3.0
