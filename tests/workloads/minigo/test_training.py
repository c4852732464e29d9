"""A run: a function of its seed, whoever plays its games and wherever it was interrupted; what it
refuses; its end where numbers end.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boards import SMALL
from testbed import a_run

from suite.dataset import StaleError
from suite.errors import RequestError
from suite.files.layout import compute_folder_sha256
from suite.workload import Run, Scores
from workloads.common import weights
from workloads.minigo import model
from workloads.minigo.survey import MiniGoDataSet
from workloads.minigo.training import MiniGoTraining

MakeRun = Callable[..., Run]
Trained = tuple[MiniGoTraining, list[list[int]]]
"""With the samples of each epoch's steps."""
Ended = tuple[dict[str, torch.Tensor], Scores]
"""What a run comes to: weights, and an evaluation."""


def state(training: MiniGoTraining) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in training._network.state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def trained(run: Run, epochs: int = 2) -> Trained:
    training = MiniGoTraining(run)
    return training, [list(training.train_epoch(epoch)) for epoch in range(1, epochs + 1)]


def ended(training: MiniGoTraining) -> Ended:
    return state(training), training.evaluate()


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Make runs of what several tests look at."""
    return partial(a_run, "minigo", None, tmp_path_factory.mktemp("shared"), SMALL)


@pytest.fixture(scope="module")
def once(make: MakeRun) -> Trained:
    """One epoch, which tests read only."""
    return trained(make(), 1)


@pytest.fixture(scope="module")
def whole(make: MakeRun) -> Ended:
    """Two epochs in one go, played by this process."""
    return ended(trained(make())[0])


@pytest.fixture(scope="module")
def others(make: MakeRun) -> MiniGoTraining:
    """The same, played by two others."""
    return trained(make(data__workers=2))[0]


@pytest.mark.slow
def test_an_epoch_is_groups_of_games_and_then_steps(once: Trained) -> None:
    """Groups are steps without samples; the last step takes what is left, and the samples add up to
    the fact that is logged.
    """
    training, steps = once
    assert steps == [[0, 0, 16, 16, 8]] and training.facts()["train_samples"] == 40
    assert math.isfinite(training.loss()) and training.facts()["eval_samples"] == 8


@pytest.mark.slow
def test_workers_change_nothing(whole: Ended, others: MiniGoTraining) -> None:
    """Games of other processes are the same games, and so is what is learnt and won."""
    network, scores = ended(others)
    assert same(whole[0], network) and whole[1] == scores


@pytest.mark.slow
def test_processes_that_play_compute_in_the_run_s_format(others: MiniGoTraining) -> None:
    """On a GPU, cuDNN takes TF32 unless it is told not to: the same games would be others there."""
    pool = others._workers._pool
    assert pool
    told = [
        pool.submit(eval, f"__import__('torch').backends.{name}.allow_tf32").result()
        for name in ("cudnn", "cuda.matmul")
    ]
    assert told == [False, False]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_resumed_run_is_the_same_run(
    make_run: MakeRun, whole: Ended, tmp_path: Path, stop: int
) -> None:
    """Killed after a group, after all groups, or after a step: bit for bit, the window and the
    finished groups too.
    """
    first = MiniGoTraining(make_run())
    list(first.train_epoch(1))
    steps = first.train_epoch(2)
    for _ in range(stop):
        next(steps)
    first.save(tmp_path)
    steps.close()
    second = MiniGoTraining(make_run())
    second.restore(tmp_path)
    list(second.train_epoch(2, stop))
    network, scores = ended(second)
    assert same(whole[0], network) and whole[1] == scores


@pytest.mark.slow
def test_another_seed_is_another_run(make_run: MakeRun, once: Trained) -> None:
    """The control of the tests above."""
    assert not same(state(once[0]), state(trained(make_run(seed=8), 1)[0]))


@pytest.mark.slow
def test_shuffled_labels_are_those_of_other_positions(make_run: MakeRun, once: Trained) -> None:
    """The same games, the same draws, other moves and results; the planes stay."""
    shuffled, _ = trained(make_run(data__shuffle_labels=True), 1)
    one, other = (training._window.sample_batch(1, 0, 16) for training in (once[0], shuffled))
    assert (one[0] == other[0]).all() and not (one[1] == other[1]).all()
    assert np.allclose(other[1].sum(axis=1), 1)


@pytest.mark.slow
def test_a_network_without_numbers_ends_the_run(make_run: MakeRun) -> None:
    """In self-play by its loss, in an evaluation by its score: the harness stops at both."""
    training, _ = trained(make_run(), 1)
    with torch.no_grad():
        training._network.policy_out.bias.fill_(float("nan"))
    assert list(training.train_epoch(2)) == [] and math.isnan(training.loss())
    assert math.isnan(training.evaluate()["win_rate"])


@pytest.mark.slow
def test_a_match_without_a_loss_is_logged_below_one(
    once: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """eval_accuracy has to be below 1."""
    training, _ = once

    class Won:
        points_N = np.ones(8)

    monkeypatch.setattr(training, "_played", training._played)  # other tests look at it
    monkeypatch.setattr(training._workers, "play_evaluation_groups", lambda *_: [Won()])
    assert training.evaluate() == {"win_rate": 7.5 / 8}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"selfplay__games_per_group": 3}, "group size"),
        ({"eval__games_per_group": 1}, "group size"),
        ({"lr_boundaries": (5,)}, "must be one rate more than steps"),
        ({"board__size": 20}, "boards from 2 to 19"),
        ({"model__planes": 14}, "13 or 17"),
        ({"train_batch_size": 0}, "at least 1"),
        ({"eval__opponent": "checkpoint"}, "does not contain a checkpoint; the opponent must be"),
        ({"model__start": "checkpoint"}, "does not contain a checkpoint; the start must be"),
    ],
)
def test_what_does_not_go_together_is_refused(
    make_run: MakeRun, asked: dict[str, Any], told: str
) -> None:
    """By one sentence, before the clock."""
    with pytest.raises(RequestError, match=told):
        MiniGoTraining(
            with_settings(
                make_run(), {key.replace("__", "."): value for key, value in asked.items()}
            )
        )


def with_settings(run: Run, settings: dict[str, Any]) -> Run:
    return replace(run, settings={**run.settings, **settings})


def test_ranks_are_refused(make_run: MakeRun) -> None:
    """Two ranks would play the same games."""
    with pytest.raises(RequestError, match="trains on one rank"):
        MiniGoTraining(replace(make_run(), world_size=2))


def own_data(folder: Path, board: int = 5, **changed: Any) -> Path:
    """A record, and an opponent to start from, too."""
    (folder / "games").mkdir(parents=True)
    (folder / "games" / "a.sgf").write_text("(;SZ[5]RE[B+3];B[cc];W[bb])")
    for name in ("opponent", "start"):
        (folder / name).mkdir()
        torch.manual_seed(5)
        description = replace(
            model.MiniGoDescription(
                workload=model.MINIGO_NAME, board=board, planes=13, filters=4, blocks=1, hidden=8
            ),
            **changed,
        )
        weights.write_exported_weights(model.MiniGoNetwork(description), description, folder / name)
    return folder


@pytest.mark.slow
def test_an_opponent_and_a_start_of_the_user_s(make_run: MakeRun, tmp_path: Path) -> None:
    """v0.6's way: the run goes on from the checkpoint's weights, and plays against one."""
    run = with_settings(
        make_run(own_data(tmp_path / "own")),
        {"eval.opponent": "checkpoint", "model.start": "checkpoint"},
    )
    training = MiniGoTraining(run)
    steps = training.train_epoch(1)
    next(steps)
    assert same(
        state(training), model.load_minigo_checkpoint(tmp_path / "own" / "start").state_dict()
    )
    assert 0 <= training.evaluate()["win_rate"] < 1
    steps.close()


def test_an_opponent_of_another_board_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    """Before the clock, and by its folder."""
    with pytest.raises(RequestError, match="opponent: it is for a board of 9 x 9, not 5 x 5"):
        MiniGoTraining(make_run(own_data(tmp_path / "own", board=9)))


@pytest.mark.parametrize(
    ("changed", "part", "told"),
    [
        ({"planes": 17}, "opponent", r"opponent: its model.planes is 17, but the run's is 13"),
        ({"planes": 17}, "start", r"start: its model.planes is 17, but the run's is 13"),
        ({"filters": 8}, "start", r"start: its model.filters is 8, but the run's is 4"),
        ({"blocks": 2}, "start", r"start: its model.blocks is 2, but the run's is 1"),
        ({"hidden": 16}, "start", r"start: its model.hidden is 16, but the run's is 8"),
    ],
)
def test_a_checkpoint_of_another_network_is_refused(
    make_run: MakeRun, tmp_path: Path, changed: dict[str, int], part: str, told: str
) -> None:
    """Before the clock: it would end the run where its weights are taken, or in the first
    evaluation.
    """
    asked = {"opponent": {"eval.opponent": "checkpoint"}, "start": {"model.start": "checkpoint"}}[
        part
    ]
    with pytest.raises(RequestError, match=told):
        MiniGoTraining(with_settings(make_run(own_data(tmp_path / "own", **changed)), asked))


@pytest.mark.slow
def test_an_opponent_may_be_a_larger_network(make_run: MakeRun, tmp_path: Path) -> None:
    """It only has to see the same planes."""
    training = MiniGoTraining(
        with_settings(
            make_run(own_data(tmp_path / "own", filters=8, blocks=2, hidden=16)),
            {"eval.opponent": "checkpoint"},
        )
    )
    list(training.train_epoch(1))
    assert 0 <= training.evaluate()["win_rate"] < 1


@pytest.mark.parametrize("part", ["opponent", "start"])
def test_a_checkpoint_without_numbers_is_refused(
    make_run: MakeRun, tmp_path: Path, part: str
) -> None:
    """Before the clock: the run's own network would be blamed."""
    own = own_data(tmp_path / "own")
    network = model.load_minigo_checkpoint(own / part)
    with torch.no_grad():
        network.value_out.bias.fill_(float("nan"))
    weights.write_exported_weights(network, network.description, own / part)
    with pytest.raises(
        RequestError, match=rf"{part}: value_out.bias contains values that are not finite"
    ):
        MiniGoTraining(make_run(own))


def test_the_metric_names_the_checkpoint_that_is_played_against(
    make_run: MakeRun, tmp_path: Path
) -> None:
    """Half of the games won says nothing without whom against."""
    own = own_data(tmp_path / "own")
    signature = str(
        MiniGoTraining(with_settings(make_run(own), {"eval.opponent": "checkpoint"})).facts()[
            "metric_signature"
        ]
    )
    assert f"|opponent:{compute_folder_sha256(own / 'opponent')}|" in signature
    assert "opponent" not in str(MiniGoTraining(make_run(own)).facts()["metric_signature"])


def test_findings_of_an_earlier_podium_are_stale(make_run: MakeRun) -> None:
    """They had the board's side alone."""
    with pytest.raises(StaleError, match="by an older podium"):
        MiniGoDataSet(make_run()).check({"val": 1, "opponent": 5})
    MiniGoDataSet(make_run()).check({"val": 1})


@pytest.mark.slow
def test_a_damaged_window_is_refused(make_run: MakeRun, once: Trained, tmp_path: Path) -> None:
    """A checkpoint that was cut off is no reason for a traceback."""
    once[0].save(tmp_path)
    (tmp_path / "window.npz").write_bytes((tmp_path / "window.npz").read_bytes()[:200])
    with pytest.raises(RequestError, match="the positions of the checkpoint are unreadable"):
        MiniGoTraining(make_run()).restore(tmp_path)
