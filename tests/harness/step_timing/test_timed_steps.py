"""Optimizer steps as LoadGen's queries: what a query takes, what is kept, and what is refused."""

from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from podium_fakes.drive import options

from harness.step_timing.stepping import StepPredictor, iterate_step_samples
from harness.step_timing.timed_steps import build_step_schedule, time_training_steps
from suite.ab.runs import STEP_RATE_METRIC, find_step_rate
from suite.errors import JudgedError, RequestError
from suite.files.layout import RUN_RECORD
from suite.registry import load_round
from suite.studies.run_facts import read_run_facts

BATCH = 4


class ShortTraining:
    """Epochs of given steps, and a loss."""

    def __init__(self, *epochs: tuple[int, ...], loss: float = 1.0) -> None:
        self.epochs, self.value, self.closed = epochs, loss, 0

    def blocks(self) -> Iterator[range]:
        yield range(1, len(self.epochs) + 1)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        try:
            yield from self.epochs[epoch - 1]
        finally:
            self.closed += 1

    def loss(self) -> float:
        return self.value


def open_predictor(training: ShortTraining) -> StepPredictor:
    return StepPredictor(training, "toy", BATCH)  # type: ignore[arg-type]


def test_epochs_follow_one_another_and_begin_again() -> None:
    training = ShortTraining((4, 4), (4, 2))
    steps = iterate_step_samples(training)  # type: ignore[arg-type]
    assert [*islice(steps, 7)] == [4, 4, 4, 2, 4, 4, 4]
    steps.close()
    assert training.closed == 4


def test_a_small_step_at_the_end_of_an_epoch_is_no_query_of_its_own() -> None:
    predictor = open_predictor(ShortTraining((4, 2)))
    for _ in range(3):
        assert len(predictor(range(BATCH))) == BATCH
    assert next(predictor.steps) == 2  # after 4, 2 + 4 and 2 + 4


def test_each_step_is_a_query_where_a_batch_counts_tokens() -> None:
    """Its number of sentences is another one in each step, and below that of tokens."""
    predictor = open_predictor(ShortTraining((2, 1, 3, 2)))
    for _ in range(2):
        assert len(predictor(range(BATCH))) == BATCH
    assert next(predictor.steps) == 3


@pytest.mark.parametrize(
    ("training", "kind", "sentence"),
    [
        (ShortTraining((4, 0)), RequestError, "steps without samples, such as self-play"),
        (ShortTraining(()), RequestError, "epoch 1 of the training has no steps"),
        (ShortTraining((4,), loss=float("nan")), JudgedError, "the loss is nan"),
    ],
)
def test_steps_that_say_nothing_are_refused(
    training: ShortTraining, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        open_predictor(training).warm_up()


@pytest.mark.parametrize(("batch", "most"), [(64, 2_500), (81_920, 40)])
def test_loadgen_draws_no_more_samples_than_memory_holds(batch: int, most: int) -> None:
    """Steps of many tokens: 2,000 of them for two seconds would be 160 million samples."""
    training = SimpleNamespace(request=SimpleNamespace(round=load_round()))
    schedule = build_step_schedule(training, 2.0, batch)  # type: ignore[arg-type]
    assert schedule.expected_latency_ns is not None
    assert most / 2 < 2e9 / schedule.expected_latency_ns < most


@pytest.mark.slow
def test_steps_of_a_training_are_a_run_with_its_rate(tmp_path: Path) -> None:
    """Steps of 20 ms."""
    asked = options(tmp_path, "fake.step_ms=20")
    time_training_steps("fake", asked, seconds=0.5, seed=1)
    (record,) = tmp_path.rglob(RUN_RECORD)
    run = read_run_facts(record.parent)
    batch = run.record.system.settings["global_batch_size"]
    assert run.find_number("effective_samples_per_query") == batch
    assert isinstance(batch, int)
    rated = find_step_rate(run)
    assert rated is not None
    assert rated[0] == STEP_RATE_METRIC
    assert 0.2 * batch / 0.02 < rated[1] <= batch / 0.02
    assert run.find_number("result_query_count") >= 2  # type: ignore[operator]


@pytest.mark.slow
def test_torchrun_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RequestError, match="takes one rank"):
        time_training_steps("fake", options(tmp_path), seconds=0.5, seed=1)
