"""One run of training: steps, resume, evaluation, export, and what it refuses."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from suite.errors import RequestError
from suite.input import Means, Place
from suite.rounds import Profile
from suite.workload import Run
from workloads.common.detection import coco
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.default import DefaultReader
from workloads.common.optimisation import collectives, gradient_exchange
from workloads.common.weights import SkippedInitialisation
from workloads.ssd import WORKLOAD, data, model
from workloads.ssd.detector.default_boxes import SMALL_128
from workloads.ssd.training import SSDTraining

MakeRun = Callable[..., Run]


def weights(training: SSDTraining, folder: Path) -> dict[str, torch.Tensor]:
    """Take the weights by the way that users have."""
    folder.mkdir()
    training.export(folder)
    return dict(model.load_ssd_checkpoint(folder)[0].state_dict())


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@dataclass(frozen=True, kw_only=True)
class Whole:
    """Two epochs that were trained without a break, which more than one test looks at."""

    training: SSDTraining
    losses: list[float]
    """Before and behind epoch 1."""
    states: list[dict[str, torch.Tensor]]
    """The weights before and behind each epoch."""
    batches: list[int]
    """Of epoch 1."""


@pytest.fixture(scope="module")
def whole(make_with: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Train them."""
    folder = tmp_path_factory.mktemp("whole")
    training = SSDTraining(make_with(folder / "cache"))
    made = Whole(
        training=training,
        losses=[training.loss()],
        states=[weights(training, folder / "0")],
        batches=list(training.train_epoch(1)),
    )
    made.losses.append(training.loss())
    made.states.append(weights(training, folder / "1"))
    list(training.train_epoch(2))
    made.states.append(weights(training, folder / "2"))
    return made


@pytest.mark.slow
def test_an_epoch_yields_each_global_batch_and_moves_the_weights(whole: Whole) -> None:
    """The harness counts pictures by these numbers; pictures without annotations are not among
    them.
    """
    facts = whole.training.facts()
    count = facts["train_samples"]
    assert facts["gradient_accumulation_steps"] == 1
    assert isinstance(count, int) and 7 <= count <= 9 and facts["eval_samples"] == 5
    assert np.isnan(whole.losses[0])
    assert sum(whole.batches) == count
    assert whole.losses[1] > 0
    assert not equal(whole.states[0], whole.states[1])
    assert list(whole.training.train_epoch(2, first_step=3)) == []


@pytest.mark.slow
def test_a_seed_is_a_run_and_a_resumed_run_is_exact(
    make_run: MakeRun, whole: Whole, tmp_path: Path
) -> None:
    """Saved after the first step of epoch 2 and taken up afresh: the same weights and score as
    without.
    """
    cut, resumed = SSDTraining(make_run()), SSDTraining(make_run())
    torch.manual_seed(99)
    list(cut.train_epoch(1))
    with closing(cut.train_epoch(2)) as steps:
        assert list(islice(steps, 1)) == [4]
    (tmp_path / "state").mkdir()
    cut.save(tmp_path / "state")
    resumed.restore(tmp_path / "state")
    list(resumed.train_epoch(2, first_step=1))
    assert equal(whole.states[2], weights(resumed, tmp_path / "resumed"))
    assert whole.training.evaluate() == resumed.evaluate()


@pytest.mark.slow
def test_evaluating_changes_no_weights(make_run: MakeRun, tmp_path: Path) -> None:
    """Batch-norm statistics of the accuracy set must not leak into the network; an untrained one
    finds next to nothing.
    """
    training = SSDTraining(make_run())
    before = weights(training, tmp_path / "before")
    assert 0.0 <= training.evaluate()["box_ap"] < 0.1
    assert equal(before, weights(training, tmp_path / "after"))


def test_samples_are_functions_of_their_key(make_run: MakeRun, tiny: Path) -> None:
    """Neither the number of workers nor a resume changes a pixel or a target; another epoch
    does.
    """
    split = coco.read_coco_split(data.resolve_ssd_folder(make_run()), "train").drop_empty_pictures()
    reader = DefaultReader(
        data.SSDTrainingAlbum(split, SMALL_128.picture_px, 3, 1),
        Means(device="cpu", place=Place.CPU, workers=0),
    )
    (first, targets), (again, same), (later, _) = reader.read(
        [[SampleKey(index=2, epoch=epoch)] for epoch in (1, 1, 2)]
    )
    assert torch.equal(first, again) and torch.equal(targets.box_NO4, same.box_NO4)
    assert not torch.equal(first, later)
    assert first.shape == (1, 128, 128, 3)
    assert targets.box_NO4.shape == (*targets.label_NO.shape, 4) and (targets.label_NO > 0).all()


def test_crowds_are_not_learnt(make_run: MakeRun) -> None:
    """A region of many is no object; evaluation passes over it."""
    split = coco.read_coco_split(data.resolve_ssd_folder(make_run()), "train")
    crowded = next(
        index for index in range(len(split)) if split.build_trainable_objects(index).crowd_O.any()
    )
    assert len(data.select_learnable_objects(split, crowded)) == int(
        (~split.build_trainable_objects(crowded).crowd_O).sum()
    )
    assert data.select_learnable_objects(split, crowded).box_O4.max(initial=0) <= 1


@pytest.mark.slow
def test_shuffled_labels_reach_the_loss(make_run: MakeRun) -> None:
    """Only in training: what is evaluated stays as it is."""
    with SkippedInitialisation():
        honest, shuffled = (
            SSDTraining(make_run(data__shuffle_labels=value)) for value in (False, True)
        )
    assert not np.array_equal(honest._train_split.first_I, shuffled._train_split.first_I)
    assert np.array_equal(honest._val_split.first_I, shuffled._val_split.first_I)


def test_the_warm_up_and_the_boundaries_are_the_reference_s(make_run: MakeRun) -> None:
    """Linear from nothing over the steps, then a tenth at each boundary."""
    with SkippedInitialisation():
        training = SSDTraining(
            make_run(
                opt_learning_rate_warmup_steps=2,
                opt_learning_rate_decay_boundary_epochs=(2, 4),
                opt_base_learning_rate=0.1,
            )
        )
    per_epoch = len(training._plan_epoch(1))
    rates = [
        training._schedule(step)
        for step in (0, 1, 2, 2 * per_epoch - 1, 2 * per_epoch, 4 * per_epoch)
    ]
    assert rates == pytest.approx([0.0, 0.05, 0.1, 0.1, 0.01, 0.001])


def test_a_broken_picture_stops_the_run_before_it_starts(
    make_run: MakeRun, tiny: Path, tmp_path: Path
) -> None:
    """Found before the clock, named and counted; left out where that is asked for."""
    own = tmp_path / "own"
    for path in tiny.rglob("*.*"):
        (own / path.relative_to(tiny)).parent.mkdir(parents=True, exist_ok=True)
        (own / path.relative_to(tiny)).write_bytes(path.read_bytes())
    (own / "val2017" / "000000000002.jpg").write_bytes(b"nothing")
    with pytest.raises(RequestError, match=r"1 of 5 images .*000000000002\.jpg"):
        SSDTraining(make_run(data=own))
    with SkippedInitialisation():
        assert SSDTraining(make_run(data=own, data__skip_broken=True)).facts()["eval_samples"] == 4
    document = json.loads((own / "annotations" / "instances_val2017.json").read_text())
    document["categories"][0]["name"] = "hexagon"
    (own / "annotations" / "instances_val2017.json").write_text(json.dumps(document))
    with pytest.raises(RequestError, match="categories differ"):
        SSDTraining(make_run(data=own))


@pytest.mark.parametrize(("name", "value"), [("framework", "tensorflow"), ("input", "dally")])
def test_what_there_is_no_code_for_is_refused(make_run: MakeRun, name: str, value: str) -> None:
    """Asking for DALI and quietly getting something else would make the record wrong."""
    with pytest.raises(RequestError, match=f"unknown {name}( pipeline| of ssd) '{value}'"):
        WORKLOAD.build_training(replace(make_run(), **{name: value}))


def test_real_data_needs_start_weights(make_run: MakeRun) -> None:
    """MLPerf starts from torchvision's ResNet-34: the user names the file, and nothing is
    downloaded.
    """
    with pytest.raises(RequestError, match=r"model\.start_weights has no value .* --set"):
        SSDTraining(make_run(profile=Profile.QUICK))


def test_the_workload_makes_it_and_blocks_follow_the_round(make_run: MakeRun) -> None:
    """Smoke evaluates after every epoch; full at the epochs that the rules name."""
    run = make_run()
    row = run.round.benchmark("ssd").training[run.profile]
    with SkippedInitialisation():
        training = WORKLOAD.build_training(run)
    assert [list(block) for block in training.blocks()] == [
        [epoch] for epoch in range(1, row.max_epochs + 1)
    ]


@pytest.mark.slow
def test_ranks_share_the_pictures_of_an_evaluation(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each picture is answered by one of them, and the score is that of all; a rank's own share
    alone would score less.
    """
    shares: list[list[tuple[int, bytes]]] = []
    monkeypatch.setattr(gradient_exchange, "wrap_for_gradient_exchange", lambda model, run: model)
    monkeypatch.setattr(
        collectives, "average_batch_norm_statistics", lambda model, world_size: None
    )
    monkeypatch.setattr(
        collectives, "gather_from_ranks", lambda found, world_size: shares.append(found) or found
    )
    for rank, world_size in ((0, 1), (0, 2), (1, 2)):
        SSDTraining(
            replace(make_run(global_batch_size=8), rank=rank, world_size=world_size)
        ).evaluate()
    answers = [dict(share) for share in shares if share and isinstance(share[0], tuple)]
    assert [sorted(each) for each in answers] == [[0, 1, 2, 3, 4], [0, 2, 4], [1, 3]]


@pytest.mark.slow
def test_quick_runs_on_any_folder(make_run: MakeRun) -> None:
    """Real data by `--data` is the only difference: 300 px, 8,732 boxes, a step and a score on the
    embedded scenes.
    """
    training = SSDTraining(
        make_run(
            profile=Profile.QUICK,
            model__start_weights="random",
            global_batch_size=2,
            model_bn_span=1,
        )
    )
    with closing(training.train_epoch(1)) as steps:
        next(steps)
    assert set(training.evaluate()) == {"box_ap"}
