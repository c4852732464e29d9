"""One run of training: steps, accumulation, resume, evaluation, export."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from testbed import a_run, shallow

from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Precision, Run, Scores
from workloads.resnet50 import WORKLOAD, model
from workloads.resnet50.training import ResNet50Training

MakeRun = Callable[..., Run]
InOneGo = Callable[[Precision], tuple[dict[str, torch.Tensor], Scores]]


def weights(training: ResNet50Training, folder: Path) -> dict[str, torch.Tensor]:
    """Take the weights by the way that users have."""
    folder.mkdir()
    training.export(folder)
    return dict(model.load_resnet50_checkpoint(folder)[0].state_dict())


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.fixture(autouse=True)
def small_network() -> Iterator[None]:
    """Train a network that takes a quarter of the time; `test_ranks.py` trains and restores
    ResNet-50 itself, by SGD.
    """
    with shallow():
        yield


@pytest.fixture(scope="module")
def make_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> MakeRun:
    """Make a run of the smoke profile on the tiny folder, which is looked over once for all of
    them.
    """
    cache = tmp_path_factory.mktemp("cache")

    def make(data: Path | None = tiny, **asked: Any) -> Run:
        return a_run(
            "resnet50",
            data,
            cache,
            {"global_batch_size": 8, "model_bn_span": 4, "data.workers": 0},
            **asked,
        )

    return make


@pytest.fixture(scope="module")
def in_one_go(make_run: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> InOneGo:
    """Train epoch 2 without a pause; the weights and the score."""

    @cache
    def trained(precision: Precision) -> tuple[dict[str, torch.Tensor], Scores]:
        training = ResNet50Training(make_run(precision=precision))
        list(training.train_epoch(2))
        return weights(training, tmp_path_factory.mktemp("whole") / "weights"), training.evaluate()

    return trained


@pytest.mark.slow
def test_an_epoch_yields_each_global_batch(make_run: MakeRun) -> None:
    """The harness counts pictures by these numbers."""
    training = ResNet50Training(make_run(global_batch_size=10, model_bn_span=5))
    assert list(training.train_epoch(1)) == [10, 10, 4]
    assert list(training.train_epoch(2, first_step=2)) == [4]
    assert list(training.train_epoch(3, first_step=3)) == []


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_weights_do_not_hang_on_the_number_of_workers(make_run: MakeRun, tmp_path: Path) -> None:
    """Order and crops are functions of the sample, so `data.workers = auto` is the machine's."""
    trained: list[dict[str, torch.Tensor]] = []
    for workers in (1, 2, 4):
        training = ResNet50Training(make_run(data__workers=workers))
        assert list(training.train_epoch(1)) == [8, 8, 8]
        trained.append(weights(training, tmp_path / str(workers)))
    assert equal(trained[0], trained[1]) and equal(trained[0], trained[2])


@pytest.mark.slow
def test_facts(make_run: MakeRun) -> None:
    """Logged as train_samples and eval_samples: the sizes of what is really read. A step takes its
    batch in micro-batches.
    """
    facts = ResNet50Training(make_run()).facts()
    assert facts["gradient_accumulation_steps"] == 2
    assert (facts["train_samples"], facts["eval_samples"]) == (24, 12)
    assert facts["metric_signature"] == "top1|resize:36|crop:32|bilinear"


def test_blocks_follow_the_round(make_run: MakeRun) -> None:
    """Smoke evaluates after every epoch."""
    run = make_run()
    row = run.round.benchmark("resnet50").training[run.profile]
    assert list(ResNet50Training(run).blocks()) == [
        range(epoch, epoch + 1) for epoch in range(1, row.max_epochs + 1)
    ]


def test_the_workload_makes_it(make_run: MakeRun) -> None:
    """The entry point's class imports the rest when it is asked."""
    assert isinstance(WORKLOAD.build_training(make_run()), ResNet50Training)


@pytest.mark.slow
def test_a_seed_is_a_run(make_run: MakeRun, tmp_path: Path) -> None:
    """Same seed, same weights to the last bit, whatever the global generator did; another seed,
    others.
    """
    found = []
    for number, seed in enumerate((3, 3, 4)):
        torch.manual_seed(number)
        training = ResNet50Training(make_run(seed=seed, global_batch_size=12))
        assert list(training.train_epoch(1)) == [12, 12]
        found.append(weights(training, tmp_path / str(number)))
    assert equal(found[0], found[1])
    assert not equal(found[0], found[2])


@pytest.mark.slow
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_resume_in_an_epoch_is_exact(
    make_run: MakeRun, in_one_go: InOneGo, tmp_path: Path, precision: Precision
) -> None:
    """Saved after the first step of epoch 2 and taken up by a fresh process: the same weights and
    score as without.
    """
    whole, scores = in_one_go(precision)
    cut, resumed = (ResNet50Training(make_run(precision=precision)) for _ in range(2))
    with closing(cut.train_epoch(2)) as steps:
        assert list(islice(steps, 1)) == [8]
    (tmp_path / "state").mkdir()
    cut.save(tmp_path / "state")
    resumed.restore(tmp_path / "state")
    assert list(resumed.train_epoch(2, first_step=1)) == [8, 8]
    assert equal(whole, weights(resumed, tmp_path / "resumed"))
    assert scores == resumed.evaluate()


@pytest.mark.slow
def test_resume_with_lars_is_exact(make_run: MakeRun, tmp_path: Path) -> None:
    """LARS' momentum is part of the state, and its rates follow the step."""
    chosen = {
        "opt_name": "lars",
        "lars_opt_base_learning_rate": 2.0,
        "lars_opt_end_learning_rate": 1e-4,
        "lars_opt_weight_decay": 1e-4,
    }
    chosen |= {
        "lars_opt_learning_rate_decay_poly_power": 2,
        "lars_opt_learning_rate_decay_steps": 9,
    }
    chosen |= {"lars_opt_learning_rate_warmup_epochs": 1, "lars_opt_momentum": 0.9}
    whole, resumed = (ResNet50Training(make_run(**chosen)) for _ in range(2))
    with closing(whole.train_epoch(2)) as steps:
        assert list(islice(steps, 1)) == [8]
    (tmp_path / "state").mkdir()
    whole.save(tmp_path / "state")
    resumed.restore(tmp_path / "state")
    for training in (whole, resumed):
        list(training.train_epoch(2, first_step=1))
    assert equal(weights(whole, tmp_path / "whole"), weights(resumed, tmp_path / "resumed"))


@pytest.mark.slow
def test_saving_changes_nothing(make_run: MakeRun, in_one_go: InOneGo, tmp_path: Path) -> None:
    """Checkpoints come by the clock; a run must not depend on when they came."""
    saving = ResNet50Training(make_run())
    for number, _ in enumerate(saving.train_epoch(2)):
        (tmp_path / str(number)).mkdir()
        saving.save(tmp_path / str(number))
    assert equal(in_one_go(Precision.FP32)[0], weights(saving, tmp_path / "saving"))


@pytest.mark.slow
def test_evaluating_changes_no_weights(make_run: MakeRun, tmp_path: Path) -> None:
    """Batch-norm statistics of the accuracy set must not leak into the network."""
    training = ResNet50Training(make_run())
    before = weights(training, tmp_path / "before")
    scores = training.evaluate()
    assert 0.0 <= scores["top1"] <= 1.0
    assert equal(before, weights(training, tmp_path / "after"))


@pytest.mark.slow
def test_steps_learn(make_run: MakeRun) -> None:
    """A step that forgets backward, zero_grad or the rate would leave the loss where it was."""
    chosen = {
        "opt_name": "sgd",
        "sgd_opt_base_learning_rate": 0.01,
        "opt_learning_rate_warmup_epochs": 0,
    }
    chosen |= {"data.smallest_crop_area": 1.0, "model.zero_init": True}
    training = ResNet50Training(make_run(global_batch_size=24, model_bn_span=24, **chosen))
    losses = [training.loss() for epoch in range(1, 10) for _ in training.train_epoch(epoch)]
    assert min(losses[-3:]) < losses[0] - 0.3


@pytest.mark.slow
def test_the_rate_of_the_first_step_is_nothing(make_run: MakeRun, tmp_path: Path) -> None:
    """Warm-up starts from 0, so the first step must not move a weight: the schedule counts steps
    from 0.
    """
    training = ResNet50Training(make_run(lars_opt_learning_rate_warmup_epochs=1))
    before = weights(training, tmp_path / "before")
    with closing(training.train_epoch(1)) as steps:
        next(steps)
    after = weights(training, tmp_path / "after")
    assert all(
        torch.equal(before[name], after[name])
        for name in before
        if "running" not in name and "num_batches" not in name
    )


@pytest.mark.slow
def test_accumulation_is_one_step(make_run: MakeRun) -> None:
    """The gradient of a global batch is that of its micro-batches together, weighted by their
    samples.
    """
    training = ResNet50Training(make_run(global_batch_size=24, model_bn_span=8))
    assert list(training.train_epoch(1)) == [24]
    summed = [
        parameter.grad.clone()
        for parameter in training._model.parameters()
        if parameter.grad is not None
    ]
    again = ResNet50Training(make_run(global_batch_size=24, model_bn_span=8))
    network, (step,) = again._stepper.network.train(), again._plan_epoch(1)
    losses = [
        again._compute_batch_loss(batch) / 24
        for batch in again._train_reader.read(list(step.micro_batches))
    ]
    torch.stack(losses).sum().backward()
    expected = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    assert len(summed) == len(expected)
    assert all(
        torch.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(summed, expected, strict=True)
    )
    assert training.loss() == pytest.approx(float(torch.stack(losses).sum().detach()), rel=1e-5)


def test_no_loss_before_the_first_step(make_run: MakeRun) -> None:
    """Not a number, rather than a number that nobody computed."""
    assert np.isnan(ResNet50Training(make_run()).loss())


@pytest.mark.slow
def test_shuffled_labels_reach_the_loss(make_run: MakeRun) -> None:
    """With `data.shuffle_labels=true` the training labels differ, and those that are evaluated do
    not.
    """
    honest, shuffled = (
        ResNet50Training(make_run(data__shuffle_labels=value)) for value in (False, True)
    )
    assert not np.array_equal(honest._train_split.labels, shuffled._train_split.labels)
    assert np.array_equal(honest._val_split.labels, shuffled._val_split.labels)


@pytest.mark.slow
def test_a_broken_picture_stops_the_run_before_it_starts(own_tiny: Path, make_run: MakeRun) -> None:
    """Found before the clock, named and counted; left out where that is asked for."""
    path = own_tiny / "train" / "star" / "star_3.JPEG"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(RequestError, match=r"1 of 24 images .*star_3\.JPEG"):
        ResNet50Training(make_run(data=own_tiny))
    assert (
        ResNet50Training(make_run(data=own_tiny, data__skip_broken=True)).facts()["train_samples"]
        == 23
    )


def test_a_format_that_cannot_train_is_refused(make_run: MakeRun) -> None:
    """Not after the data was generated and looked over."""
    with pytest.raises(RequestError, match="int4"):
        ResNet50Training(make_run(precision=Precision.INT4))


@pytest.mark.parametrize(("name", "value"), [("framework", "tensorflow"), ("input", "dally")])
def test_what_there_is_no_code_for_is_refused(make_run: MakeRun, name: str, value: str) -> None:
    """Asking for DALI and quietly getting something else would make the record wrong."""
    with pytest.raises(RequestError, match=f"unknown {name}( pipeline| of resnet50) '{value}'"):
        WORKLOAD.build_training(replace(make_run(), **{name: value}))


@pytest.mark.slow
def test_quick_runs_on_any_folder(make_run: MakeRun) -> None:
    """Real data by `--data` is the only difference: the quick profile trains and scores on a folder
    of that layout.
    """
    run = make_run(
        profile=Profile.QUICK, data__picture_size=32, global_batch_size=24, model_bn_span=12
    )
    training = ResNet50Training(run)
    assert list(training.train_epoch(1)) == [24]
    assert set(training.evaluate()) == {"top1"}
    assert [len(block) for block in training.blocks()] == [2] * 9
