"""One run of training: steps, resume, evaluation, export."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from testbed import narrow

from suite import registry
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common.detection.torchvision_import import torchvision
from workloads.common.optimisation.step import set_learning_rate
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.common.weights import SkippedInitialisation
from workloads.maskrcnn import WORKLOAD, data, model, recipe, scoring
from workloads.maskrcnn.agreement import agree
from workloads.maskrcnn.detector import inference_pipeline
from workloads.maskrcnn.settings import build_region_counts
from workloads.maskrcnn.training import MaskRCNNTraining, build_maskrcnn_optimizer

MakeRun = Callable[..., Run]


def weights(training: MaskRCNNTraining, run: Run, folder: Path) -> dict[str, torch.Tensor]:
    """Take the weights by the way that users have."""
    folder.mkdir()
    training.export(folder)
    return dict(
        model.load_maskrcnn_checkpoint(folder, build_region_counts(run.settings))[0].state_dict()
    )


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@dataclass(frozen=True, kw_only=True)
class Whole:
    """An epoch that was trained without a break, which more than one test looks at."""

    run: Run
    training: MaskRCNNTraining
    batches: list[int]


@pytest.fixture(scope="module", autouse=True)
def small_network() -> Iterator[None]:
    """Train on a narrower backbone of the same kinds of layers. `test_full_size.py` takes a step of
    the reference's.
    """

    def resnet50(*, weights: None, norm_layer: Any) -> Any:
        return narrow(norm_layer=norm_layer)

    with mock.patch.object(torchvision.models.resnet, "resnet50", resnet50):
        yield


@pytest.fixture(scope="module")
def whole(make_with: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Train epoch 2."""
    run = make_with(tmp_path_factory.mktemp("whole"), global_batch_size=4)
    training = MaskRCNNTraining(run)
    torch.manual_seed(
        run.seed
    )  # as the harness does; regions are sampled from the global generator
    return Whole(run=run, training=training, batches=list(training.train_epoch(2)))


@pytest.mark.slow
def test_an_epoch_yields_each_global_batch(whole: Whole) -> None:
    """One orientation a batch: three square, two wide and two tall pictures are batches of 4, 1 and
    2.
    """
    assert sorted(whole.batches) == [1, 2, 4] and np.isfinite(whole.training.loss())
    assert list(whole.training.train_epoch(3, first_step=3)) == []


@pytest.mark.slow
def test_facts(whole: Whole) -> None:
    """Logged as train_samples and eval_samples."""
    facts = whole.training.facts()
    assert (facts["train_samples"], facts["eval_samples"]) == (7, 3)
    assert facts["gradient_accumulation_steps"] == 2
    assert facts["metric_signature"] == "coco_ap|bbox,segm|min:64|max:64|bilinear"


@pytest.mark.slow
def test_blocks_follow_the_round(make_run: MakeRun) -> None:
    """Smoke evaluates after every epoch."""
    run = make_run()
    row = registry.load_round().benchmark("maskrcnn").training[run.profile]
    with SkippedInitialisation():
        training = WORKLOAD.build_training(run)
    assert list(training.blocks()) == [
        range(epoch, epoch + 1) for epoch in range(1, row.max_epochs + 1)
    ]


@pytest.mark.slow
def test_resume_in_an_epoch_is_exact(whole: Whole, tmp_path: Path) -> None:
    """Saved after the first step of epoch 2 and taken up by a fresh process: the same weights as
    without.
    """
    run = whole.run
    cut = MaskRCNNTraining(run)
    torch.manual_seed(run.seed)
    with closing(cut.train_epoch(2)) as steps:
        list(islice(steps, 1))
    (tmp_path / "state").mkdir()
    cut.save(tmp_path / "state")
    resumed = MaskRCNNTraining(run)
    resumed.restore(tmp_path / "state")
    list(resumed.train_epoch(2, first_step=1))
    assert equal(
        weights(whole.training, run, tmp_path / "whole"),
        weights(resumed, run, tmp_path / "resumed"),
    )


@pytest.mark.slow
def test_steps_learn(make_run: MakeRun) -> None:
    """A step that forgets backward, zero_grad or the rate would leave the loss where it was."""
    training = MaskRCNNTraining(
        make_run(
            global_batch_size=4,
            data__micro_batch=4,
            opt_base_learning_rate=0.005,
            opt_learning_rate_warmup_steps=2,
        )
    )
    torch.manual_seed(1)
    losses = [training.loss() for epoch in (1, 2) for _ in training.train_epoch(epoch)]
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])


@pytest.mark.slow
def test_evaluating_scores_both(make_run: MakeRun, tmp_path: Path) -> None:
    """Box and mask AP, under the round's names; weights and statistics stay as they are."""
    run = make_run()
    training = MaskRCNNTraining(run)
    before = weights(training, run, tmp_path / "before")
    scores = training.evaluate()
    assert set(scores) == {"box_ap", "mask_ap"} and all(
        0 <= value <= 1 for value in scores.values()
    )
    assert equal(before, weights(training, run, tmp_path / "after"))


def collect_answers(training: MaskRCNNTraining) -> dict[int, bytes]:
    """Evaluate, and take what would be scored."""
    scored: list[dict[int, bytes]] = []

    def take_answers(answers: dict[int, bytes], _: object) -> dict[str, float]:
        scored.append(answers)
        return {}

    with mock.patch.object(scoring, "score_maskrcnn_answers", take_answers):
        training.evaluate()
    return scored[0]


def detect_one_by_one(training: MaskRCNNTraining) -> dict[int, bytes]:
    """Decode, resize and answer one picture after another, without a loader."""
    detector, found = inference_pipeline.build_eager_detector(training._model.eval()), {}
    split, sizing, host = training._val_split, training._sizing, torch.device("cpu")
    with torch.inference_mode():
        for index in range(len(split)):
            picture = data.resize_picture_to_bgr(read_rgb_picture(split.path(index)), sizing)
            batch, sizes = data.build_padded_batch([torch.from_numpy(picture)], host)
            (raw,) = detector(batch, sizes)
            found[index] = scoring.pack_maskrcnn_answer(
                index,
                inference_pipeline.convert_raw_detections(
                    raw, sizes[0], split.get_picture_size(index)
                ),
            )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_evaluating_answers_as_one_picture_at_a_time(make_run: MakeRun, workers: int) -> None:
    """To the byte, read by a process or by this one; batches of one size differ in the last digits
    of sums alone.
    """
    training = MaskRCNNTraining(make_run(data__workers=workers))
    predictor: Any = training._model.roi_heads.box_predictor
    torch.manual_seed(3)
    torch.nn.init.normal_(predictor.cls_score.weight, std=0.5)
    found, wanted = collect_answers(training), detect_one_by_one(training)
    assert found == wanted
    assert all(scoring.DETECTION_COUNT_FORMAT.unpack_from(each)[0] for each in found.values())
    if not workers:
        together = MaskRCNNTraining(make_run(data__workers=0, data__evaluation_batch=3))
        together._model.load_state_dict(training._model.state_dict())
        others = collect_answers(together)
        assert all(agree(others[index], answer) for index, answer in wanted.items())


@pytest.mark.slow
def test_pictures_that_fill_up_a_batch_teach_nothing(make_run: MakeRun) -> None:
    """A lone picture has another of weight 0 beside it, for batch-norm elsewhere; here it stays
    out.
    """
    training = MaskRCNNTraining(make_run(global_batch_size=4))
    (lone,) = (step for step in training._plan_epoch(1) if step.samples == 1)
    (keys,) = lone.micro_batches
    (batch,) = training._loader.read([list(keys)])
    assert batch.weights == (1.0, 0.0)
    first, second = (data.pack_pictures([sample]) for sample in batch.unpack_pictures())
    torch.manual_seed(1)
    both = training._compute_batch_loss(batch)
    torch.manual_seed(1)
    assert torch.equal(both, training._compute_batch_loss(first))
    torch.manual_seed(1)
    assert float(training._compute_batch_loss(second).detach()) == 0.0


def test_warm_up_and_decay(make_run: MakeRun) -> None:
    """From a third of the rate at step 0, by steps of a tenth afterwards; the reference's
    schedule.
    """
    chosen = {
        "opt_learning_rate_warmup_factor": 1 / 3,
        "opt_learning_rate_warmup_steps": 500,
        "opt_learning_rate_decay_steps": (60, 80_000),
    }
    rate = recipe.MaskRCNNRecipe.build_from_settings(make_run(**chosen).settings).build_schedule()
    assert rate(0) == pytest.approx(0.02 / 3)
    assert rate(50) == pytest.approx(0.02 * (1 / 3 + 2 / 3 * 0.1))
    assert [rate(step) for step in (500, 79_999, 80_000)] == pytest.approx([0.002, 0.002, 0.0002])


def test_hyperparameters_are_those_of_a_log(make_run: MakeRun) -> None:
    """closed_maskrcnn.yaml's keys, all of them, as the judge asks for them."""
    run = make_run()
    row = run.round.benchmark("maskrcnn").training[run.profile]
    assert set(WORKLOAD.select_hyperparameters(run.round, run.settings)) == set(row.required)


@pytest.mark.parametrize("sizes", [(16, 32), (16, 32, 64, 128, 0)])
def test_anchors_fit_the_pyramid(make_run: MakeRun, sizes: tuple[int, ...]) -> None:
    """Five levels, five sizes."""
    with pytest.raises(RequestError, match="anchor_sizes"):
        MaskRCNNTraining(make_run(model__anchor_sizes=sizes))


def test_one_step_of_sgd_by_hand(make_run: MakeRun) -> None:
    """Momentum, decay on weights alone, twice the rate on biases, two steps in float64."""
    layer = torch.nn.Linear(3, 2).double()
    chosen = recipe.MaskRCNNRecipe.build_from_settings(
        make_run(sgd__weight_decay=0.1, sgd__momentum=0.9, opt_base_learning_rate=0.5).settings
    )
    sgd = build_maskrcnn_optimizer(layer, chosen)
    values = {
        name: parameter.detach().numpy().copy() for name, parameter in layer.named_parameters()
    }
    gradients = {
        name: np.random.default_rng(4).normal(size=value.shape) for name, value in values.items()
    }
    momenta = {name: np.zeros_like(value) for name, value in values.items()}
    for _ in range(2):
        for name, parameter in layer.named_parameters():
            parameter.grad = torch.from_numpy(gradients[name].copy())
            momenta[name] = (
                0.9 * momenta[name]
                + gradients[name]
                + (0.0 if name == "bias" else 0.1) * values[name]
            )
            values[name] = values[name] - 0.5 * (2 if name == "bias" else 1) * momenta[name]
        set_learning_rate(sgd, 0.5)
        sgd.step()
    for name, parameter in layer.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), values[name], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.FULL])
def test_the_real_profiles_need_the_file(make_run: MakeRun, profile: Profile) -> None:
    """Nothing is downloaded behind the user's back, and frozen random layers cannot learn."""
    with SkippedInitialisation(), pytest.raises(RequestError, match=r"model\.start_weights"):
        MaskRCNNTraining(make_run(profile=profile))
