"""A system under test over a checkpoint: loading, answers, truth, and what it refuses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.engines.torch import TorchEngine
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common import weights
from workloads.common.detection import coco
from workloads.common.inputs.default import draw_picture_view
from workloads.common.pictures.decoding import normalise_pictures, read_rgb_picture
from workloads.ssd import WORKLOAD, data, inference, model, scoring
from workloads.ssd.detector import postprocessing
from workloads.ssd.detector.default_boxes import SMOKE_64, build_default_boxes
from workloads.ssd.inference import SSDInference
from workloads.ssd.training import SSDTraining

MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def checkpoint(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    torch.manual_seed(1)
    description = model.SSDDescription(
        workload="ssd", configuration="64", categories=coco.read_coco_split(tiny, "val").categories
    )
    network = model.build_ssd("64", 4)
    with torch.no_grad():
        for head in network.kinds:
            head.weight.mul_(
                0.02
            )  # an untrained network is sure of everything, and sums decide between equals
    weights.write_exported_weights(network, description, folder)
    return folder


@pytest.fixture
def system(make_run: MakeRun, checkpoint: Path, engine: Any) -> Iterator[SSDInference]:
    found = SSDInference(make_run(batching__max_batch=3), checkpoint, engine)
    yield found
    found.close()


@pytest.mark.slow
def test_sizes(system: SSDInference) -> None:
    """The whole accuracy set; no more in memory than there is."""
    assert (system.sample_count, system.performance_sample_count) == (5, 5)
    assert system.length(0) == system.length(4)


@pytest.mark.slow
def test_answers_are_the_network_s(system: SSDInference, checkpoint: Path, tiny: Path) -> None:
    """Preprocessing, network and detection by another way."""
    system.load([3])
    network, _ = model.load_ssd_checkpoint(checkpoint)
    picture = read_rgb_picture(tiny / "val2017" / "000000000004.jpg")
    picture_HWC = draw_picture_view(picture, data.build_square_view(picture.size, 64))
    with torch.inference_mode():
        offset, logit = network(normalise_pictures(picture_HWC[None]).contiguous())
    assert list(system.open(0, 1)([3])) == postprocessing.encode_ssd_answers(
        [3], offset, logit, build_default_boxes(SMOKE_64)
    )


@pytest.mark.slow
def test_bytes_normalised_on_the_device_have_the_same_answers(
    make_run: MakeRun, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU; over a network go the same bytes, whichever side has one."""
    run, engine = make_run(batching__max_batch=3), TorchEngine()
    usual = SSDInference(run, checkpoint, engine)
    monkeypatch.setattr(inference, "can_serve_bytes", lambda engine, device: True)
    by_bytes = SSDInference(run, checkpoint, engine)
    found = []
    for system in (usual, by_bytes):
        system.load(range(5))
        predict: Any = system.open(0, 3)
        predict.warm_up()
        payloads = [system.payload(sample) for sample in range(5)]
        found.append((predict([0, 1, 2]), predict([3, 4]), payloads, predict.answer(payloads[:2])))
    assert by_bytes._held[0].dtype == torch.uint8 and by_bytes._held[0].shape == (64, 64, 3)
    assert found[0] == found[1]


@pytest.mark.slow
def test_answers_keep_the_order_of_the_samples(system: SSDInference) -> None:
    """In a batch as in another order: each answer names its own sample, and finds the same."""
    system.load(range(5))
    predict = system.open(0, 3)
    first = dict(zip((4, 0, 2), predict([4, 0, 2]), strict=True))
    for sample, answer in zip((0, 2, 4), predict([0, 2, 4]), strict=True):
        best, same = (np.frombuffer(each, dtype="<f4")[:7] for each in (answer, first[sample]))
        assert best[0] == sample and best == pytest.approx(same, abs=1e-3)


@pytest.mark.slow
def test_truth_fits_the_scorer(system: SSDInference, tmp_path: Path) -> None:
    """The scorer reads what is written, and scores the system's own answers."""
    system.truth(tmp_path)
    system.load(range(5))
    predict = system.open(0, 3)
    answers = {sample: predict([sample])[0] for sample in range(5)}
    assert 0.0 <= scoring.score(answers, tmp_path)["box_ap"] <= 1.0


@pytest.mark.slow
def test_unloaded_samples_are_gone(system: SSDInference) -> None:
    """LoadGen's library: memory for the performance set only, and nothing after the run."""
    system.load([0, 1])
    system.unload([0])
    predict = system.open(0, 3)
    predict([1])
    with pytest.raises(KeyError):
        predict([0])
    system.close()
    with pytest.raises(KeyError):
        predict([1])


@pytest.mark.slow
def test_warm_up_runs_every_batch_size_without_samples(system: SSDInference, engine: Any) -> None:
    """Before any load: an engine that compiles per shape would do so inside the clock otherwise."""
    system.open(0, 3).warm_up()
    assert engine.sizes == [1, 2, 3]
    assert engine.network.shapes is not None and engine.network.shapes.maximum == ((3, 3, 64, 64),)
    assert not engine.network.module.training and engine.plan.max_batch == 3


@pytest.mark.slow
def test_other_categories_than_the_checkpoint_s_are_refused(
    make_run: MakeRun, engine: Any, tmp_path: Path
) -> None:
    """A checkpoint of the embedded data over COCO would answer with wrong labels, quietly."""
    description = model.SSDDescription(
        workload="ssd", configuration="64", categories=(coco.CocoCategory(id=1, name="cat"),)
    )
    weights.write_exported_weights(model.build_ssd("64", 2), description, tmp_path)
    with pytest.raises(RequestError, match="differ from the"):
        SSDInference(make_run(), tmp_path, engine)


@pytest.mark.slow
def test_a_checkpoint_of_another_configuration_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: Any
) -> None:
    """With the way to one that fits."""
    with pytest.raises(
        RequestError,
        match=(
            r"configuration 64, but 300 is served; to train one for it, run podium train ssd "
            r"--set model\.configuration=300"
        ),
    ):
        SSDInference(make_run(profile=Profile.FULL, serving=True), checkpoint, engine)


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(Profile))
def test_each_profile_serves_what_it_exports(
    make_run: MakeRun, engine: Any, tmp_path: Path, profile: Profile
) -> None:
    """A campaign that trains for days and is refused then is none."""
    SSDTraining(make_run(profile=profile, model__start_weights="random")).export(tmp_path)
    assert SSDInference(make_run(profile=profile, serving=True), tmp_path, engine).sample_count == 5


@pytest.mark.slow
def test_the_workload_makes_it(make_run: MakeRun, checkpoint: Path, engine: Any) -> None:
    """By the entry point's class."""
    assert WORKLOAD.build_inference(make_run(), checkpoint, engine).sample_count == 5
