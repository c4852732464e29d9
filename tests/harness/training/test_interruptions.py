"""Ctrl-C, SIGTERM, kill -9 and a full disk in training: nothing goes on, nothing reads as valid,
and the run can go on.
"""

import json
import resource
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from podium_fakes import drive
from podium_fakes.drive import (
    events,
    keys,
    log_path,
    marks,
    options,
    partial,
    slowed,
    start,
    until,
    valid_events,
    weights,
    words,
)
from warm import Warm

from compliance.judge import Judge
from compliance.verdict import Verdict
from harness.training import export, timed_run
from harness.training.run_set import train_run_set
from harness.training.state.checkpointing import (
    CheckpointKeeper,
    TrainingPosition,
    list_checkpoint_numbers,
)
from suite.errors import JudgedError
from suite.process.signals import Interrupted

SLOW = ("fake.step_ms=10", "fake.gain=0.02")
SET = [word for setting in SLOW for word in ("--set", setting)]


def state(results: Path) -> Path:
    return results / ".podium" / "fake" / "run_0"


def reference(folder: Path, *more: str) -> Path:
    """Run the same without an interruption."""
    train_run_set("fake", options(folder, *SLOW, *more), seed=4)
    return folder


def interrupt(
    light: Warm, results: Path, how: signal.Signals, *more: str, checkpoints: int = 2
) -> tuple[int, str]:
    """Start a run, wait for checkpoints, send a signal; exit code and stderr."""
    child = light.start(words(results, "--seed", "4", *SET, *more), slowed())
    until(lambda: max(list_checkpoint_numbers(state(results)), default=0) >= checkpoints)
    child.send_signal(how)
    _, stderr = child.communicate(timeout=40)
    return child.returncode, stderr


@pytest.mark.slow
@pytest.mark.parametrize("inside", [True, False])
def test_a_killed_run_goes_on_to_the_same_weights(light: Warm, tmp_path: Path, inside: bool):
    """kill -9 in the middle of an epoch, or after an evaluation: weights, scores and valid markers
    as without it.
    """
    setting = f"checkpoint.interval_s={0.04 if inside else 300}"
    whole = reference(tmp_path / "whole", setting)
    results = tmp_path / "killed"
    code, _ = interrupt(
        light, results, signal.SIGKILL, "--set", setting, checkpoints=8 if inside else 2
    )
    assert code == -signal.SIGKILL and not log_path(results).exists()
    assert not (results / "checkpoints").exists(), "nothing may read as valid"
    at = json.loads(
        (
            state(results) / f"at_{list_checkpoint_numbers(state(results))[-1]}" / "position.json"
        ).read_text()
    )
    assert (at["phase"] == "inside") is inside or at["phase"] == "evaluated"
    train_run_set("fake", options(results, *SLOW, setting), resume=True)
    assert weights(results) == weights(whole)
    assert marks(log_path(results)) == marks(log_path(whole))
    assert (
        keys(log_path(results)).count("resumed") == 1
        and keys(log_path(results)).count("run_start") == 1
    )


@pytest.mark.slow
def test_a_run_may_be_killed_again_and_again(light: Warm, tmp_path: Path):
    """Each time it goes on from the newest checkpoint; what is void is void once for all."""
    whole = reference(tmp_path / "whole", "checkpoint.interval_s=0.04")
    results, more = tmp_path / "killed", ("--set", "checkpoint.interval_s=0.04")
    interrupt(light, results, signal.SIGKILL, *more, checkpoints=3)
    before = list_checkpoint_numbers(state(results))[-1]
    child = light.start(words(results, "--resume", *SET, *more), slowed())
    until(lambda: list_checkpoint_numbers(state(results))[-1] >= before + 4)
    child.kill()
    child.communicate()
    train_run_set("fake", options(results, *SLOW, "checkpoint.interval_s=0.04"), resume=True)
    assert weights(results) == weights(whole) and marks(log_path(results)) == marks(log_path(whole))
    assert keys(log_path(results)).count("resumed") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_run_and_leaves_it_resumable(
    light: Warm, tmp_path: Path, how: signal.Signals, code: int
):
    """run_stop aborted stands in the log, which keeps `.partial`; the sentence says how to go
    on.
    """
    results = tmp_path / "results"
    found, stderr = interrupt(light, results, how, "--set", "checkpoint.interval_s=0.04")
    assert found == code and "--resume" in stderr and "Traceback" not in stderr
    assert not log_path(results).exists() and not (results / "checkpoints").exists()
    last = events(partial(log_path(results)))[-1]
    assert last["key"] == "run_stop" and last["metadata"]["status"] == "aborted"
    train_run_set("fake", options(results, *SLOW, "checkpoint.interval_s=0.04"), resume=True)
    assert [key for key, *_ in marks(log_path(results))].count("run_stop") == 1
    assert (
        next(event for event in valid_events(log_path(results)) if event["key"] == "run_stop")[
            "metadata"
        ]["status"]
        == "success"
    )


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_begins_again(light: Warm, tmp_path: Path):
    """There is nothing to go on from; the torn log is moved aside, the set's nonce and seed
    stay.
    """
    results = tmp_path / "results"
    child = light.start(words(results, "--seed", "4", *SET), slowed())
    until(
        lambda: (
            partial(log_path(results)).exists()
            and "epoch_start" in partial(log_path(results)).read_text()
        )
    )
    child.kill()
    child.communicate()
    nonce = json.loads((results / ".podium" / "fake" / "campaign.json").read_text())["nonce"]
    train_run_set("fake", options(results, *SLOW), resume=True)
    found = {event["key"]: event["value"] for event in events(log_path(results))}
    assert found["campaign_nonce"] == nonce and found["seed"] == 4 and "resumed" not in found
    assert list((results / ".podium" / "superseded").rglob("result_0.txt.partial"))


@pytest.mark.slow
def test_without_resume_an_unfinished_run_is_moved_aside(light: Warm, tmp_path: Path):
    """A new run begins with its own nonce; the old one is kept, and told."""
    results = tmp_path / "results"
    interrupt(light, results, signal.SIGKILL)
    old = json.loads((results / ".podium" / "fake" / "campaign.json").read_text())["nonce"]
    train_run_set("fake", options(results, "fake.gain=0.06"), seed=1)
    assert old not in log_path(results).read_text() and not partial(log_path(results)).exists()
    assert list((results / ".podium" / "superseded" / "1").rglob("result_0.txt.partial"))
    assert list((results / ".podium" / "superseded" / "1").rglob("campaign.json"))


@pytest.mark.slow
def test_a_disk_that_is_full_ends_the_run(tmp_path: Path):
    """One sentence and exit 3, whatever is torn keeps `.partial`, and with room again the run goes
    on.
    """
    results = tmp_path / "results"

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, resource.RLIM_INFINITY))

    child = start(
        words(results, "--seed", "4", *SET, "--set", "fake.gain=0.01"), preexec_fn=small_files
    )
    _, stderr = child.communicate(timeout=40)
    assert (
        child.returncode == 3
        and "cannot write the log" in stderr
        and "this run does not count" in stderr
        and "Traceback" not in stderr
    )
    assert not log_path(results).exists() and not (results / "checkpoints").exists()
    with pytest.raises(
        JudgedError
    ):  # so small a gain misses the target, but the run comes to its end
        train_run_set("fake", options(results, *SLOW, "fake.gain=0.01"), resume=True)
    assert log_path(results).exists() and keys(log_path(results)).count("resumed") == 1


@pytest.mark.slow
def test_a_killed_torch_run_goes_on_bit_by_bit(light: Warm, tmp_path: Path):
    """Dropout, batch-norm, momentum and three random generators, killed in the middle of an
    epoch.
    """
    more = ("checkpoint.interval_s=0.04", "fake.torch=true")
    whole = reference(tmp_path / "whole", *more)
    results = tmp_path / "killed"
    interrupt(
        light,
        results,
        signal.SIGKILL,
        *[word for setting in more for word in ("--set", setting)],
        checkpoints=8,
    )
    train_run_set("fake", options(results, *SLOW, *more), resume=True)
    assert "model.safetensors" in weights(whole) and weights(results) == weights(whole)
    assert drive.keys(log_path(results)).count("resumed") == 1


@pytest.mark.slow
@pytest.mark.parametrize("torch", ["true", "false"])
def test_a_run_that_was_saved_behind_the_last_step_of_an_epoch_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str
):
    """No step was left that could tell a loss: it was none, and the run ended as one that does not
    converge.
    """
    results, setting, last = tmp_path / "results", f"fake.torch={torch}", 10
    step = CheckpointKeeper.save_if_due_in_epoch

    def stopped(
        keeper: CheckpointKeeper,
        training: Any,
        epoch: int,
        number: int,
        samples: int,
        at: TrainingPosition,
    ) -> None:
        """A signal comes while the last step is taken."""
        if (epoch, number) == (2, last):
            monkeypatch.setattr(keeper, "_describe_signal", lambda: "interrupted by SIGTERM")
            keeper._countdown = 0
        step(keeper, training, epoch, number, samples, at)

    train_run_set("fake", options(tmp_path / "whole", setting), seed=4, runs=1)
    monkeypatch.setattr(CheckpointKeeper, "save_if_due_in_epoch", stopped)
    with pytest.raises(Interrupted):
        train_run_set("fake", options(results, setting), seed=4, runs=1)
    monkeypatch.undo()
    train_run_set("fake", options(results, setting), resume=True)
    losses = [
        [
            event["value"]["loss"]
            for event in events(log_path(place))
            if event["key"] == "tracked_stats"
        ]
        for place in (tmp_path / "whole", results)
    ]
    assert losses[0] == losses[1] and len(losses[0]) > 1
    assert weights(results) == weights(tmp_path / "whole")


def stop(*_: object) -> None:
    raise Interrupted("interrupted by SIGTERM")


@pytest.mark.slow
@pytest.mark.parametrize("module", [timed_run, export])
def test_a_run_stopped_behind_its_clock_is_valid_once_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType
):
    """In the export, which follows run_stop, the last epoch is trained again; in the scoring that
    follows it, nothing is. Neither may stand in the log twice.
    """
    name = {timed_run: "export_weights", export: "score_reference_accuracy"}[module]
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(module, name, stop)
        train_run_set("fake", options(tmp_path), seed=4)
    train_run_set("fake", options(tmp_path), resume=True)
    judged = Judge().judge_path(str(tmp_path))
    assert judged.verdict is Verdict.VALID, judged.findings
    assert keys(log_path(tmp_path)).count("resumed") == (module is timed_run)
