"""Positions and checkpoints: what is left of a run, and that a kill at any moment leaves a
checkpoint that is whole.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.distributed import SingleRank
from harness.training.mllog_writer import MllogWriter
from harness.training.state.checkpointing import (
    CheckpointKeeper,
    EpochPhase,
    TrainingPosition,
    list_checkpoint_numbers,
)
from suite.errors import RequestError
from suite.process.signals import UnheardSignals

BLOCKS = [range(1, 3), range(3, 5), range(5, 6)]


class Weights:
    """A training that is one number."""

    value = 0

    def loss(self) -> float:
        """Say what it is like."""
        return float("nan") if self.value < 0 else self.value / 2

    def save(self, folder: Path) -> None:
        """Keep it."""
        (folder / "value").write_text(str(self.value))

    def restore(self, folder: Path) -> None:
        """Take it back."""
        self.value = int((folder / "value").read_text())


def legs(at: TrainingPosition) -> list[tuple[int, bool, tuple[tuple[int, int, int], ...]]]:
    return [(leg.block.start, leg.fresh, leg.epochs) for leg in at.iterate_remaining_blocks(BLOCKS)]


def keeper(folder: Path, log: MllogWriter, interval_s: float = 1e9) -> CheckpointKeeper:
    return CheckpointKeeper(folder, log, SingleRank(), UnheardSignals(), interval_s)


def test_a_new_run_has_everything_before_it():
    """Nothing may be skipped where nothing was done."""
    assert legs(TrainingPosition()) == [
        (1, True, ((1, 0, 0), (2, 0, 0))),
        (3, True, ((3, 0, 0), (4, 0, 0))),
        (5, True, ((5, 0, 0),)),
    ]


@pytest.mark.parametrize(
    ("at", "first"),
    [
        (
            TrainingPosition(epoch=3, step=7, samples=70, phase=EpochPhase.INSIDE),
            (3, False, ((3, 7, 70), (4, 0, 0))),
        ),
        (
            TrainingPosition(epoch=4, step=7, samples=70, phase=EpochPhase.INSIDE),
            (3, False, ((4, 7, 70),)),
        ),
        (TrainingPosition(epoch=3, phase=EpochPhase.TRAINED), (3, False, ((4, 0, 0),))),
        (TrainingPosition(epoch=4, phase=EpochPhase.TRAINED), (3, False, ())),
        (TrainingPosition(epoch=4, phase=EpochPhase.EVALUATED), (5, True, ((5, 0, 0),))),
    ],
)
def test_a_run_goes_on_where_it_stood(
    at: TrainingPosition, first: tuple[int, bool, tuple[tuple[int, int, int], ...]]
):
    """Doing an epoch twice, or leaving out an evaluation, would be another run."""
    assert legs(at)[0] == first


def test_after_the_last_evaluation_nothing_is_left():
    """A run that missed its target must end, not begin again."""
    assert legs(TrainingPosition(epoch=5, phase=EpochPhase.EVALUATED)) == []


@given(st.integers(1, 5), st.integers(0, 9), st.sampled_from(EpochPhase))
def test_what_is_left_is_the_tail_of_the_whole(epoch: int, step: int, phase: EpochPhase):
    """Whatever the position, the epochs that follow are the same as without an interruption."""
    whole = [
        number
        for leg in TrainingPosition().iterate_remaining_blocks(BLOCKS)
        for number, *_ in leg.epochs
    ]
    left = [
        number
        for leg in TrainingPosition(epoch=epoch, step=step, phase=phase).iterate_remaining_blocks(
            BLOCKS
        )
        for number, *_ in leg.epochs
    ]
    assert left == whole[len(whole) - len(left) :]
    assert len(left) == 5 - epoch + (phase is EpochPhase.INSIDE) or phase is EpochPhase.EVALUATED


def test_a_checkpoint_brings_back_state_and_place(tmp_path: Path):
    """Position, offset of the log and scores have to survive as they were."""
    with MllogWriter(tmp_path / "log") as log:
        log.log_point("something")
        training = Weights()
        training.value = 42
        at = TrainingPosition(
            epoch=3,
            step=7,
            phase=EpochPhase.INSIDE,
            log_offset=log.offset,
            run_start_ms=11,
            scores={"top1": 0.5},
        )
        log.log_point("behind it")
        keeper(tmp_path / "state", log).save(training, at)
        again = Weights()
        found = keeper(tmp_path / "state", log).restore(again)
    assert again.value == 42 and 0 < found.log_offset == at.log_offset < log.offset
    assert (found.epoch, found.step, found.phase, found.run_start_ms, found.scores) == (
        3,
        7,
        EpochPhase.INSIDE,
        11,
        {"top1": 0.5},
    )


def test_without_a_checkpoint_the_run_is_at_its_beginning(tmp_path: Path):
    """An empty state folder is a new run, not an error."""
    with MllogWriter(tmp_path / "log") as log:
        assert keeper(tmp_path / "state", log).restore(Weights()) == TrainingPosition()


def test_a_kill_while_saving_leaves_the_checkpoint_before(tmp_path: Path):
    """The older one goes only when the newer has its name."""

    class Killed(Weights):
        def save(self, folder: Path) -> None:
            (folder / "value").write_text("half")
            assert list_checkpoint_numbers(tmp_path / "state") == [1]
            raise KeyboardInterrupt

    with MllogWriter(tmp_path / "log") as log:
        good = Weights()
        good.value = 1
        keeper(tmp_path / "state", log).save(good, TrainingPosition(epoch=1))
        with pytest.raises(KeyboardInterrupt):
            keeper(tmp_path / "state", log).save(Killed(), TrainingPosition(epoch=2))
        after = Weights()
        assert keeper(tmp_path / "state", log).restore(after).epoch == 1 and after.value == 1
        keeper(tmp_path / "state", log).save(good, TrainingPosition(epoch=3))
    assert (
        list_checkpoint_numbers(tmp_path / "state") == [2]
        and len(list((tmp_path / "state").iterdir())) == 1
    )


def test_a_log_shorter_than_its_checkpoint_is_refused(tmp_path: Path):
    """Going on would leave a hole in the log."""
    with MllogWriter(tmp_path / "log") as log:
        log.log_point("something")
        at = TrainingPosition(epoch=1, log_offset=log.offset)
        keeper(tmp_path / "state", log).save(Weights(), at)
        log.truncate_log(0)
        with pytest.raises(RequestError, match="shorter than at the time of the checkpoint"):
            keeper(tmp_path / "state", log).restore(Weights())


def test_a_position_that_cannot_be_read_is_refused(tmp_path: Path):
    """A damaged file is named, and what to do."""
    with MllogWriter(tmp_path / "log") as log:
        keeper(tmp_path / "state", log).save(Weights(), TrainingPosition(epoch=1))
        (tmp_path / "state" / "at_1" / "position.json").write_text(json.dumps({"epoch": "three"}))
        with pytest.raises(RequestError, match="without --resume"):
            keeper(tmp_path / "state", log).restore(Weights())


def test_an_interval_of_nothing_saves_after_every_step(tmp_path: Path):
    """`checkpoint.interval_s=0` is how a test gets a checkpoint at every step."""
    with MllogWriter(tmp_path / "log") as log:
        keep = keeper(tmp_path / "state", log, 0.0)
        for step in range(1, 4):
            keep.save_if_due_in_epoch(Weights(), 1, step, 4 * step, TrainingPosition())
            found = keep.restore(Weights())
            assert (found.step, found.samples) == (step, 4 * step)
        keep.save_if_due_after_epoch(Weights(), TrainingPosition(epoch=1, phase=EpochPhase.TRAINED))
    assert list_checkpoint_numbers(tmp_path / "state") == [4]


def test_a_long_interval_looks_at_the_clock_rarely(tmp_path: Path):
    """Each look is an exchange among the ranks: not one per step."""

    class Counting(SingleRank):
        looks = 0

        def share_value(self, value):  # noqa: ANN001, ANN202  as in Alone
            self.looks += 1
            return value

    ranks = Counting()
    with MllogWriter(tmp_path / "log") as log:
        keep = CheckpointKeeper(tmp_path / "state", log, ranks, UnheardSignals(), 300.0)
        for step in range(10_000):
            keep.save_if_due_in_epoch(Weights(), 1, step, 4 * step, TrainingPosition())
    assert ranks.looks < 100 and list_checkpoint_numbers(tmp_path / "state") == []


def test_slow_steps_behind_fast_ones_are_saved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Mini-Go's optimizer steps take milliseconds, and the groups of games behind them minutes:
    counted in the first, none of the others was saved.
    """
    now = [0.0]
    monkeypatch.setattr(
        "harness.training.state.checkpointing.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    with MllogWriter(tmp_path / "log") as log:
        keep = CheckpointKeeper(tmp_path / "state", log, SingleRank(), UnheardSignals(), 300.0)
        for step in range(240):
            now[0] += 0.03
            keep.save_if_due_in_epoch(Weights(), 1, step, 4 * step, TrainingPosition())
        keep.save_if_due_after_epoch(Weights(), TrainingPosition(epoch=1, phase=EpochPhase.TRAINED))
        before = max(list_checkpoint_numbers(tmp_path / "state"), default=0)
        for step in range(8):
            now[0] += 600.0
            keep.save_if_due_in_epoch(Weights(), 2, step, 0, TrainingPosition())
    assert max(list_checkpoint_numbers(tmp_path / "state")) == before + 8


@pytest.mark.parametrize(
    "content", [b'{"scores": {"\xff": 1}}', b"[" * 100_000, b'{"scores":' * 100_000, b"[]", b""]
)
def test_a_position_of_any_bytes_is_told(tmp_path: Path, content: bytes):
    """What is no UTF-8 or nested too deep was a traceback."""
    with MllogWriter(tmp_path / "log.txt") as log:
        keeper(tmp_path, log).save(Weights(), TrainingPosition())
        (tmp_path / "at_1" / "position.json").write_bytes(content)
        with pytest.raises(RequestError, match="without --resume"):
            keeper(tmp_path, log).restore(Weights())


def test_a_folder_with_odd_digits_is_no_checkpoint(tmp_path: Path):
    """A superscript two is a digit to str.isdigit, and no number to int."""
    for name in ("at_1", "at_²", "at_x"):
        (tmp_path / name).mkdir()
    assert list_checkpoint_numbers(tmp_path) == [1]


@pytest.mark.parametrize(("value", "loss"), [(6, 3.0), (-1, None)])
def test_a_checkpoint_inside_an_epoch_has_the_loss_of_its_last_step(
    tmp_path: Path, value: int, loss: float | None
):
    """If that was the epoch's last step, nothing else can tell it when the run goes on; what is no
    number is not kept as one.
    """
    with MllogWriter(tmp_path / "result_0.txt") as log:
        kept, training = keeper(tmp_path / "state", log, 0.0), Weights()
        training.value = value
        kept.save_if_due_in_epoch(training, 1, 5, 40, TrainingPosition())
    assert json.loads((tmp_path / "state" / "at_1" / "position.json").read_text())["loss"] == loss
