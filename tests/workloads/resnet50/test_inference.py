"""A system under test over a checkpoint: loading, answers, truth, and what it refuses."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import PlainEngine, a_run

from harness.engines.torch import TorchEngine
from suite.engine import Precision
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common import weights
from workloads.common.inputs.default import draw_picture_view
from workloads.common.pictures.decoding import normalise_pictures, read_rgb_picture
from workloads.resnet50 import WORKLOAD, data, inference, model, scoring
from workloads.resnet50.inference import ResNet50Inference, build_torch_tensors
from workloads.resnet50.training import ResNet50Training

MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(1)
    weights.write_exported_weights(
        model.build_resnet50(3),
        model.ResNet50Description(
            workload="resnet50", classes=("circle", "cross", "star"), picture_size=32
        ),
        folder,
    )
    return folder


@pytest.fixture
def engine() -> PlainEngine:
    return PlainEngine()


@pytest.fixture
def system(make_run: MakeRun, checkpoint: Path, engine: PlainEngine) -> Iterator[ResNet50Inference]:
    found = ResNet50Inference(make_run(batching__max_batch=4), checkpoint, engine)
    yield found
    found.close()


@pytest.mark.slow
def test_sizes(system: ResNet50Inference) -> None:
    """The whole accuracy set; no more in memory than there is."""
    assert (system.sample_count, system.performance_sample_count) == (12, 12)
    assert system.length(0) == system.length(11)


@pytest.mark.slow
def test_answers_do_not_depend_on_the_batch(system: ResNet50Inference) -> None:
    """Alone, in a full batch, or in another order: the same four bytes for the same sample."""
    system.load(range(12))
    predict = system.open(0, 4)
    alone = [predict([sample])[0] for sample in range(12)]
    assert list(predict([3, 1, 2, 0])) == [alone[3], alone[1], alone[2], alone[0]]
    assert all(len(answer) == 4 for answer in alone)


@pytest.mark.slow
def test_answers_are_the_network_s(system: ResNet50Inference, checkpoint: Path, tiny: Path) -> None:
    """Preprocessing, network and argmax by another way."""
    system.load([5])
    network, _ = model.load_resnet50_checkpoint(checkpoint)
    picture = read_rgb_picture(tiny / "val" / "cross" / "cross_1.JPEG")
    seen_HWC = draw_picture_view(picture, data.build_centre_crop_view(picture.size, 32))
    with torch.inference_mode():
        label = int(network(normalise_pictures(seen_HWC[None])).argmax())
    assert system.open(0, 1)([5]) == [scoring.pack_class_answer([label])]


@pytest.mark.slow
def test_bytes_normalised_on_the_device_have_the_same_answers(
    make_run: MakeRun, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU; over a network go the same bytes, whichever side has one."""
    run, engine = make_run(batching__max_batch=4), TorchEngine()
    usual = ResNet50Inference(run, checkpoint, engine)
    monkeypatch.setattr(inference, "can_serve_bytes", lambda engine, device: True)
    by_bytes = ResNet50Inference(run, checkpoint, engine)
    answers, payloads, over_network = [], [], []
    for system in (usual, by_bytes):
        system.load(range(12))
        predict: Any = system.open(0, 4)
        predict.warm_up()
        answers.append([predict([first, first + 1, first + 2]) for first in range(0, 12, 3)])
        payloads.append([system.payload(sample) for sample in range(12)])
        over_network.append(predict.answer(payloads[-1][:4]))
    assert by_bytes._held[0].dtype == torch.uint8 and by_bytes._held[0].shape == (32, 32, 3)
    assert answers[0] == answers[1]
    assert payloads[0] == payloads[1] and over_network[0] == over_network[1]


def test_an_answer_has_one_class_or_five() -> None:
    """The likeliest first, as the scorer reads them; a result has one, as MLPerf's, unless it was
    asked for five.
    """
    logit_NK = torch.tensor([[0.0, 5.0, 4.0, 1.0, 3.0, 2.0], [9.0, 0.0, 1.0, 2.0, 3.0, 4.0]])
    tensors = build_torch_tensors("cpu", PlainEngine(), 32)
    best = tensors.select_best_classes(logit_NK, 5)
    assert best == [[1, 2, 4, 5, 3], [0, 5, 4, 3, 2]]
    assert tensors.select_best_classes(logit_NK, 1) == [[1], [0]]
    assert scoring.unpack_class_answer(scoring.pack_class_answer(best[0])) == (1, 2, 4, 5, 3)


@pytest.mark.slow
def test_truth_fits_the_scorer(system: ResNet50Inference, tmp_path: Path) -> None:
    """Labels by sample number: perfect answers score 1, and shifted ones do not."""
    system.truth(tmp_path)
    labels = scoring.read_image_labels(tmp_path)
    assert labels == [0] * 4 + [1] * 4 + [2] * 4
    assert scoring.score(
        {i: scoring.pack_class_answer([label]) for i, label in enumerate(labels)}, tmp_path
    ) == {"top1": 1.0}


@pytest.mark.slow
def test_unloaded_samples_are_gone(system: ResNet50Inference) -> None:
    """LoadGen's library: memory for the performance set only."""
    system.load([0, 1])
    system.unload([0])
    predict = system.open(0, 4)
    predict([1])
    with pytest.raises(KeyError):
        predict([0])


@pytest.mark.slow
def test_closing_forgets_all(system: ResNet50Inference) -> None:
    """Nothing is held after the run."""
    system.load([0])
    system.close()
    with pytest.raises(KeyError):
        system.open(0, 1)([0])


@pytest.mark.slow
def test_warm_up_runs_every_batch_size_without_samples(
    system: ResNet50Inference, engine: PlainEngine
) -> None:
    """Before any load: an engine that compiles per shape would do so inside the clock otherwise."""
    system.open(0, 4).warm_up()
    assert engine.made[0].shapes == [((size, 3, 32, 32),) for size in (1, 2, 3, 4)]


@pytest.mark.slow
def test_the_engine_is_told_all(system: ResNet50Inference, engine: PlainEngine) -> None:
    """Shapes for engines that build for them, and the plan that the user asked for."""
    network, plan = engine.made[0].network, engine.plans[0]
    assert network.shapes is not None
    assert network.shapes.maximum == ((4, 3, 32, 32),)
    assert network.shapes.minimum == ((1, 3, 32, 32),)
    assert network.dimensions == ({0: "batch"},)
    assert not network.module.training
    assert (plan.max_batch, plan.precision) == (4, Precision.FP32)
    assert plan.options["engine.compile"] is False and all(
        name.startswith("engine.") for name in plan.options
    )


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(Profile))
def test_each_profile_serves_what_it_exports(
    tiny: Path, tmp_path: Path, engine: PlainEngine, profile: Profile
) -> None:
    """A campaign that trains for days and is refused then is none; the row's own settings, in both
    halves.
    """
    asked = {"opt_name": "sgd", "global_batch_size": 8, "model_bn_span": 4}
    trained, served = (
        a_run("resnet50", tiny, tmp_path, asked, profile=profile, serving=half)
        for half in (False, True)
    )
    ResNet50Training(trained).export(tmp_path)
    assert ResNet50Inference(served, tmp_path, engine).sample_count == 12


@pytest.mark.slow
def test_the_workload_makes_it(make_run: MakeRun, checkpoint: Path, engine: PlainEngine) -> None:
    """By the entry point's class."""
    assert WORKLOAD.build_inference(make_run(), checkpoint, engine).sample_count == 12


def test_another_workload_s_checkpoint_is_refused(
    make_run: MakeRun, engine: PlainEngine, tmp_path: Path
) -> None:
    """Before anything is loaded."""
    (tmp_path / weights.DESCRIPTION_FILE).write_text(
        '{"workload": "gnmt", "classes": [], "picture_size": 1}'
    )
    with pytest.raises(RequestError, match="workload is gnmt"):
        ResNet50Inference(make_run(), tmp_path, engine)


@pytest.mark.slow
def test_other_data_than_the_checkpoint_s_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine, own_tiny: Path
) -> None:
    """A checkpoint of the embedded data over ImageNet would answer with wrong class numbers,
    quietly.
    """
    for split in ("train", "val"):
        (own_tiny / split / "cross").rename(own_tiny / split / "hexagon")
    with pytest.raises(RequestError, match="differ from the"):
        ResNet50Inference(make_run(data=own_tiny), checkpoint, engine)


@pytest.mark.slow
def test_another_picture_size_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    """A setting that is silently passed over would be logged and not true."""
    with pytest.raises(RequestError, match="32-pixel images.*picture_size is 64"):
        ResNet50Inference(make_run(data__picture_size=64), checkpoint, engine)


@pytest.mark.slow
def test_broken_pictures_are_refused_or_left_out(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine, own_tiny: Path
) -> None:
    """As in training, so that labels and sample numbers stay together."""
    path = own_tiny / "val" / "circle" / "circle_0.JPEG"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(RequestError, match="1 of 12 images"):
        ResNet50Inference(make_run(data=own_tiny), checkpoint, engine)
    assert (
        ResNet50Inference(
            make_run(data=own_tiny, data__skip_broken=True), checkpoint, engine
        ).sample_count
        == 11
    )


@pytest.mark.slow
def test_profiles_without_inference_are_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    """One sentence instead of a KeyError."""
    run = make_run()
    row = replace(run.round.benchmark("resnet50"), inference={})
    bare = replace(run, round=replace(run.round, benchmarks={"resnet50": row}))
    with pytest.raises(RequestError, match="no inference in profile smoke"):
        ResNet50Inference(bare, checkpoint, engine)


@pytest.mark.slow
def test_another_number_of_classes_is_refused(checkpoint: Path, make_run: MakeRun) -> None:
    """The scorer knows answers of one class and of five alone."""
    with pytest.raises(RequestError, match=r"answer\.classes=3: 1 or 5"):
        ResNet50Inference(make_run(answer__classes=3), checkpoint, PlainEngine())
