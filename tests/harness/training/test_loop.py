"""The timed loop, against a training that is a script."""

import math
import shutil
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import events, marks, partial

from harness.distributed import SingleRank
from harness.progress import Progress
from harness.training.loop import RunEnding, TrainingGoal, TrainingOutcome, train_to_quality
from harness.training.mllog_writer import LogError, MllogWriter
from harness.training.state.checkpointing import CheckpointKeeper
from suite.errors import JudgedError
from suite.process.signals import Interrupted, UnheardSignals
from suite.workload import Block

ONE = TrainingGoal(targets={"top1": 0.7}, metrics={"top1": ""})
TWO = TrainingGoal(targets={"box": 0.3, "mask": 0.2}, metrics={"box": "BBOX", "mask": "SEGM"})


LOSS = TrainingGoal(
    targets={"loss": 3.3}, metrics={"loss": ""}, lower_is_better=("loss",), counts_samples=True
)


class Script:
    """Evaluations as given, two steps an epoch, a block per evaluation."""

    def __init__(self, *scores: dict[str, float], epochs: int = 1, loss: float = 1.0) -> None:
        self.scores, self.epochs, self.loss_value = list(scores), epochs, loss
        self.closed = 0
        self.asked: list[tuple[int, int]] = []

    def facts(self) -> dict[str, int]:
        """Give sizes."""
        return {"train_samples": 8, "eval_samples": 1}

    def blocks(self) -> Iterator[Block]:
        """One per evaluation."""
        return (
            range(1 + index * self.epochs, 1 + (index + 1) * self.epochs)
            for index in range(len(self.scores))
        )

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Two steps."""
        self.asked.append((epoch, first_step))
        try:
            for _ in range(first_step, 2):
                yield 4
        finally:
            self.closed += 1

    def loss(self) -> float:
        """Give the loss."""
        return self.loss_value

    def evaluate(self) -> dict[str, float]:
        """Give the next scores."""
        return self.scores.pop(0)

    def save(self, folder: Path) -> None:
        """Nothing to keep."""

    def restore(self, folder: Path) -> None:
        """Nothing to take back."""

    def export(self, folder: Path) -> None:
        """Nothing to export."""


def run(
    folder: Path, training: Script, goal: TrainingGoal = ONE, interval_s: float = 1e9
) -> TrainingOutcome:
    with MllogWriter(folder / "log") as log:
        progress = Progress("script", 8, training.loss, goal.targets, silent=True)
        return train_to_quality(
            training,
            goal,
            log,
            CheckpointKeeper(folder / "state", log, SingleRank(), UnheardSignals(), interval_s),
            SingleRank(),
            progress,
        )


def told(folder: Path) -> list[tuple[str, Any]]:
    return [
        (event["key"], event["metadata"].get("epoch_num", event["metadata"].get("first_epoch_num")))
        for event in events(partial(folder / "log"))
    ]


def test_the_markers_stand_in_the_order_of_the_rules(tmp_path: Path):
    """The judge and the official checker read nesting from this order."""
    outcome = run(tmp_path, Script({"top1": 0.5}, {"top1": 0.8}, epochs=2))
    one = [
        ("block_start", 1),
        ("epoch_start", 1),
        ("epoch_stop", 1),
        ("tracked_stats", 1),
        ("epoch_start", 2),
        ("epoch_stop", 2),
        ("tracked_stats", 2),
    ]
    end = [("block_stop", 1), ("eval_start", 2), ("eval_accuracy", 2), ("eval_stop", 2)]
    assert told(tmp_path)[:12] == [("run_start", None), *one, *end]
    assert (
        told(tmp_path)[-1] == ("run_stop", None)
        and outcome.ending is RunEnding.REACHED
        and outcome.epoch == 4
    )


def test_the_first_evaluation_at_the_target_stops_the_run(tmp_path: Path):
    """Training on would cost time that the score counts; equal is enough."""
    training = Script({"top1": 0.69}, {"top1": 0.7}, {"top1": 0.99})
    assert run(tmp_path, training).scores == {"top1": 0.7}
    assert (
        events(partial(tmp_path / "log"))[-1]["metadata"]["status"] == "success"
        and len(training.scores) == 1
    )


def test_every_metric_has_to_reach_its_target(tmp_path: Path):
    """Mask R-CNN has two; one of them is not enough."""
    outcome = run(tmp_path, Script({"box": 0.4, "mask": 0.1}, {"box": 0.3, "mask": 0.2}), TWO)
    values = [
        event["value"]
        for event in events(partial(tmp_path / "log"))
        if event["key"] == "eval_accuracy"
    ]
    assert outcome.ending is RunEnding.REACHED and values == [
        {"BBOX": 0.4, "SEGM": 0.1},
        {"BBOX": 0.3, "SEGM": 0.2},
    ]


def counted(folder: Path) -> list[tuple[str, Any]]:
    """The samples that each event counts."""
    return [
        (event["key"], event["metadata"]["samples_count"])
        for event in events(partial(folder / "log"))
        if "samples_count" in event["metadata"]
    ]


def test_a_loss_ends_the_run_once_it_is_low_enough(tmp_path: Path):
    """The first loss is far above the target, which an accuracy would pass."""
    training = Script({"loss": 10.8}, {"loss": 3.301}, {"loss": 3.3}, {"loss": 1.0}, epochs=2)
    outcome = run(tmp_path, training, LOSS)
    assert outcome.ending is RunEnding.REACHED and outcome.scores == {"loss": 3.3}
    assert len(training.scores) == 1


def test_a_loss_that_stays_high_misses_its_target(tmp_path: Path):
    assert run(tmp_path, Script({"loss": 9.9}), LOSS).ending is RunEnding.MISSED


def test_blocks_and_evaluations_count_samples_where_the_row_asks_for_it(tmp_path: Path):
    """A block begins with those before it, and ends with its own: as in MLPerf's logs of v5.1."""
    run(tmp_path, Script({"loss": 9.9}, {"loss": 3.0}, epochs=2), LOSS)
    one, two = (
        [
            ("block_start", end - 16),
            ("block_stop", end),
            ("eval_start", end),
            ("eval_accuracy", end),
            ("eval_stop", end),
        ]
        for end in (16, 32)
    )
    assert counted(tmp_path) == one + two
    run(tmp_path / "other", Script({"top1": 0.9}))
    assert counted(tmp_path / "other") == []


def test_epochs_that_run_out_are_a_target_missed(tmp_path: Path):
    """The status is aborted, and the log says so in its last line."""
    assert run(tmp_path, Script({"top1": 0.1})).ending is RunEnding.MISSED
    assert events(partial(tmp_path / "log"))[-1]["metadata"]["status"] == "aborted"


@pytest.mark.parametrize(
    "training",
    [
        Script({"top1": math.nan}, {"top1": 0.9}),
        Script({"top1": 0.9}, {"top1": 0.9}, loss=math.nan),
    ],
)
def test_a_number_that_is_none_stops_the_run(tmp_path: Path, training: Script):
    """NaN compares false with everything: it must neither pass nor train on; the log stays JSON."""
    assert run(tmp_path, training).ending is RunEnding.NOT_A_NUMBER and len(training.scores) == 1
    last = events(partial(tmp_path / "log"))
    assert last[-1]["metadata"]["status"] == "aborted"
    assert None in [
        event["value"] if event["key"] == "eval_accuracy" else (event["value"] or {}).get("loss", 0)
        for event in last
    ]


@pytest.mark.parametrize("place", ["evaluate", "loss", "train_epoch"])
def test_an_exception_ends_the_log_as_aborted(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
):
    """A log without run_stop would read as a run that is still going."""
    training = Script({"top1": 0.9})

    def broken(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(training, place, broken)
    with pytest.raises(ValueError, match="broken"):
        run(tmp_path, training)
    assert events(partial(tmp_path / "log"))[-1]["metadata"]["status"] == "aborted"


def test_the_generator_is_closed_when_the_loop_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An open generator keeps its loader's workers."""
    training = Script({"top1": 0.9})
    monkeypatch.setattr(
        CheckpointKeeper,
        "save_if_due_in_epoch",
        lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, training)
    assert training.closed == 1


def test_a_log_that_cannot_be_written_is_not_written_to_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The first error is the cause; a second one would hide it."""

    def full(log: MllogWriter, line: str) -> None:
        raise LogError("full")

    training = Script({"top1": 0.9})
    monkeypatch.setattr(
        training,
        "evaluate",
        lambda: monkeypatch.setattr(MllogWriter, "_append_line", full) or {"top1": 0.1},
    )
    with pytest.raises(LogError, match="full"):
        run(tmp_path, training)
    assert told(tmp_path)[-1][0] == "eval_start"


def test_a_run_goes_on_inside_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The steps that were done are not done again, and `resumed` says from where the log counts."""

    def killed() -> dict[str, float]:
        raise KeyboardInterrupt

    training = Script({"top1": 0.1}, epochs=2)
    monkeypatch.setattr(training, "evaluate", killed)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, training, interval_s=0.0)
    before = len(told(tmp_path))
    state = tmp_path / "state" / "at_6"
    position = state / "position.json"
    position.write_text(
        position.read_text()
        .replace('"trained"', '"inside"')
        .replace('"epoch": 2', '"epoch": 2')
        .replace('"step": 0', '"step": 1')
    )
    again = Script({"top1": 0.9}, epochs=2)
    assert run(tmp_path, again).ending is RunEnding.REACHED and again.asked == [(2, 1)]
    assert [key for key, _ in told(tmp_path)[before:]] == [
        "resumed",
        "epoch_stop",
        "tracked_stats",
        "block_stop",
        "eval_start",
        "eval_accuracy",
        "eval_stop",
        "run_stop",
    ]
    resumed = events(partial(tmp_path / "log"))[before]
    assert (
        resumed["metadata"]["epoch_num"] == 2
        and resumed["metadata"]["step"] == 1
        and resumed["metadata"]["log_offset"] > 0
    )


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_a_run_that_goes_on_counts_the_samples_of_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    """From inside an epoch, between two, before an evaluation: what was trained before counts."""

    def killed() -> dict[str, float]:
        raise KeyboardInterrupt

    training = Script({"loss": 9.9}, epochs=2)
    monkeypatch.setattr(training, "evaluate", killed)
    monkeypatch.setattr(CheckpointKeeper, "remove_checkpoints", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, training, LOSS, interval_s=0.0)
    for folder in (tmp_path / "state").iterdir():
        if int(folder.name.removeprefix("at_")) > number:
            shutil.rmtree(folder)
    assert run(tmp_path, Script({"loss": 1.0}, epochs=2), LOSS).ending is RunEnding.REACHED
    assert counted(tmp_path)[-4:] == [
        ("block_stop", 16),
        ("eval_start", 16),
        ("eval_accuracy", 16),
        ("eval_stop", 16),
    ]


class Stopped(Script):
    """A training that a signal stops in some of its evaluations."""

    def __init__(
        self, *scores: dict[str, float], stops: tuple[int, ...], loss: float = 1.0
    ) -> None:
        super().__init__(*scores, loss=loss)
        self.stops, self.evaluations = list(stops), len(scores)

    def blocks(self) -> Iterator[Block]:
        """One per evaluation, whatever was evaluated before the run was stopped."""
        return (range(number, number + 1) for number in range(1, 1 + self.evaluations))

    def evaluate(self) -> dict[str, float]:
        """Give the next scores, unless a signal comes."""
        number = 1 + self.evaluations - len(self.scores)
        if number in self.stops:
            self.stops.remove(number)
            raise Interrupted("interrupted by SIGINT")
        return super().evaluate()


def resume_until_ended(folder: Path, training: Stopped) -> TrainingOutcome:
    """Run and resume a training, as often as a signal stops it."""
    while training.stops:
        with pytest.raises(Interrupted, match="before its evaluation"):
            run(folder, training)
        assert told(folder)[-1][0] == "run_stop"
    return run(folder, training)


@pytest.mark.parametrize("stops", [(1,), (2,), (1, 1), (2, 2, 2), (1, 2)])
def test_a_run_that_is_stopped_in_an_evaluation_logs_each_event_once(
    tmp_path: Path, stops: tuple[int, ...]
):
    """The position was the one before block_stop, its offset that behind eval_start: both stood
    twice once the run had resumed, and a finished training was broken for good.
    """
    scores: list[dict[str, float]] = [{"top1": 0.1}, {"top1": 0.9}]
    run(tmp_path / "whole", Script(*scores))
    outcome = resume_until_ended(tmp_path / "stopped", Stopped(*scores, stops=stops))
    assert outcome.ending is RunEnding.REACHED
    assert marks(partial(tmp_path / "stopped" / "log")) == marks(partial(tmp_path / "whole/log"))


def test_a_diverged_run_that_is_stopped_in_its_evaluation_is_not_saved_as_another(tmp_path: Path):
    """The position was that of an earlier epoch, of the first one none: run_start stood twice."""
    training = Stopped({"top1": 0.1}, stops=(1,), loss=math.nan)
    with pytest.raises(Interrupted):
        run(tmp_path, training)
    assert not (tmp_path / "state").exists()


class Showing(Script):
    """A training that shows what its evaluations look at."""

    def example(self) -> dict[str, object]:
        """Give what is left to evaluate."""
        return {"left": len(self.scores)}


def test_an_evaluation_s_example_stands_inside_of_it(tmp_path: Path):
    """The report draws the last one; an evaluation without a number has looked at nothing."""
    run(tmp_path, Showing({"top1": 0.5}, {"top1": math.nan}))
    found = [
        (event["key"], event["value"], event["metadata"].get("epoch_num"))
        for event in events(partial(tmp_path / "log"))
    ]
    place = [key for key, *_ in found].index("evaluation_example")
    assert found[place] == ("evaluation_example", {"left": 1}, 1)
    assert [key for key, *_ in found[place - 1 : place + 3]] == [
        "eval_start",
        "evaluation_example",
        "eval_accuracy",
        "eval_stop",
    ]
    assert [key for key, *_ in found].count("evaluation_example") == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (87.5, "after epoch 1 top1 is 87.5, and the judge expects a finite number, at least 0 and"),
        (87.5, "shares of 1, not percentages"),
        (-0.5, "never negative"),
    ],
)
def test_a_score_that_the_judge_refuses_ends_the_run_at_once(
    tmp_path: Path, value: float, words: str
) -> None:
    """Nothing more is trained or served for a result that cannot count."""
    script = Script({"top1": value}, {"top1": 0.8})
    with pytest.raises(JudgedError) as caught:
        run(tmp_path, script)
    assert words in str(caught.value) and len(script.scores) == 1


def test_a_perfect_score_reaches_the_target_unless_the_row_forbids_it(tmp_path: Path) -> None:
    """Of 200 samples all may be right."""
    assert run(tmp_path / "a", Script({"top1": 1.0})).ending is RunEnding.REACHED
    with pytest.raises(JudgedError, match="own round takes no perfect score"):
        run(tmp_path / "b", Script({"top1": 1.0}), replace(ONE, evaluations_below={"top1": 1.0}))
