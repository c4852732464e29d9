"""The system under test: answers, truth, calibration, what is refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from testbed import PlainEngine

from suite.engine import Precision
from suite.errors import RequestError
from suite.workload import Run
from workloads.common import weights
from workloads.minigo import model, scoring
from workloads.minigo.inference import MiniGoInference

MakeRun = Callable[..., Run]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """An untrained network of smoke's board."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    torch.manual_seed(1)
    description = model.MiniGoDescription(
        workload=model.MINIGO_NAME, board=5, planes=13, filters=4, blocks=1, hidden=8
    )
    weights.write_exported_weights(model.MiniGoNetwork(description), description, folder)
    return folder


def system(run: Run, checkpoint: Path) -> tuple[MiniGoInference, PlainEngine]:
    engine = PlainEngine()
    return MiniGoInference(run, checkpoint, engine), engine


@pytest.mark.slow
def test_answers_are_policies_of_legal_actions(
    make_run: MakeRun, checkpoint: Path, tmp_path: Path
) -> None:
    """In the order of the samples, whatever the batch; what is illegal has no share, and the truth
    fits them.
    """
    made, _ = system(make_run(serving=True), checkpoint)
    samples = list(range(made.sample_count))
    made.load(samples)
    predict = made.open(0, 4)
    predict.warm_up()
    alone = [predict([sample])[0] for sample in samples]
    together = [
        answer
        for start in range(0, len(samples), 4)
        for answer in predict(samples[start : start + 4])
    ]
    for sample, (one, other) in enumerate(zip(alone, together, strict=True)):
        mine, its = scoring.unpack_position_answer(one), scoring.unpack_position_answer(other)
        assert (
            mine
            and its
            and np.allclose(mine.policy, its.policy, atol=1e-5)
            and abs(mine.value - its.value) < 1e-5
        )
        legal_A = made._held[sample][1].numpy()
        assert (
            sum(mine.policy) == pytest.approx(1, abs=1e-5)
            and not np.array(mine.policy)[~legal_A].any()
        )
    made.truth(tmp_path)
    assert len(scoring.read_truth_labels(tmp_path)) == made.sample_count
    assert all(0 <= score < 1 for score in scoring.score(dict(enumerate(alone)), tmp_path).values())
    made.unload(samples)
    made.close()


@pytest.mark.slow
def test_calibration_shows_the_listed_positions(make_run: MakeRun, checkpoint: Path) -> None:
    """All of them, of no position that is scored."""
    _, engine = system(make_run(serving=True, precision=Precision.INT8), checkpoint)
    calibration = engine.plans[0].calibration
    assert (
        calibration
        and len(calibration.inputs) == len(calibration.samples) > 8
        and not calibration.touched
    )
    assert calibration.inputs[0][0].shape == (1, 13, 5, 5) and calibration.inputs[0][0].max() == 1


def test_a_checkpoint_of_another_board_is_refused(make_run: MakeRun, checkpoint: Path) -> None:
    """Its policy has other points."""
    description = model.MiniGoDescription(
        workload=model.MINIGO_NAME, board=9, planes=13, filters=4, blocks=1, hidden=8
    )
    weights.write_exported_weights(model.MiniGoNetwork(description), description, checkpoint)
    with pytest.raises(RequestError, match="it is for a board of 9 x 9, not 5 x 5"):
        system(make_run(serving=True), checkpoint)


def test_an_illegal_move_is_named_before_anything_is_served(
    make_run: MakeRun, checkpoint: Path, tmp_path: Path
) -> None:
    """The survey plays every game."""
    (tmp_path / "own" / "games").mkdir(parents=True)
    (tmp_path / "own" / "games" / "bad.sgf").write_text("(;SZ[5]RE[B+];B[aa];W[aa])")
    with pytest.raises(RequestError, match=r"bad.sgf: move 2, white A5, is illegal"):
        system(make_run(tmp_path / "own", serving=True), checkpoint)
