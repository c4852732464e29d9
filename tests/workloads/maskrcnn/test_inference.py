"""A system under test over a checkpoint: answers, batches, truth, and what it refuses."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from testbed import a_run

from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common import weights
from workloads.common.detection import coco
from workloads.maskrcnn import WORKLOAD, model, scoring
from workloads.maskrcnn.agreement import agree
from workloads.maskrcnn.inference import MaskRCNNInference
from workloads.maskrcnn.training import MaskRCNNTraining

MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def checkpoint(
    make_network: Callable[[], model.MaskRCNNNetwork],
    described: model.MaskRCNNDescription,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    weights.write_exported_weights(make_network(), described, folder)
    return folder


@pytest.fixture
def system(make_run: MakeRun, checkpoint: Path, engine: Any) -> Iterator[MaskRCNNInference]:
    found = MaskRCNNInference(make_run(batching__max_batch=2), checkpoint, engine)
    yield found
    found.close()


@pytest.mark.slow
def test_answers_do_not_depend_on_the_batch(system: MaskRCNNInference) -> None:
    """Alone and again: the same bytes. With others, in any order: the same detections, but for the
    last digits of sums.
    """
    system.load(range(3))
    predict = system.open(0, 3)
    alone = [predict([sample])[0] for sample in range(3)]
    assert [predict([sample])[0] for sample in (2, 1, 0)] == alone[::-1]
    assert all(
        agree(found, alone[sample])
        for sample, found in zip((2, 0, 1), predict([2, 0, 1]), strict=True)
    )
    assert all(scoring.DETECTION_COUNT_FORMAT.unpack_from(answer)[0] > 0 for answer in alone)


@pytest.mark.slow
def test_answers_are_scored(system: MaskRCNNInference, tmp_path: Path) -> None:
    """Every detection is one that the judge takes: labels, boxes and run lengths of the picture's
    own size.
    """
    system.load(range(3))
    answers = dict(enumerate(system.open(0, 2)(range(3))))
    (tmp_path / "truth").mkdir()
    system.truth(tmp_path / "truth")
    assert set(scoring.score(answers, tmp_path / "truth")) == {"box_ap", "mask_ap"}
    document = coco.read_coco_document(tmp_path / "truth" / coco.TRUTH_ANNOTATIONS_FILE)
    for sample, answer in answers.items():
        kept = scoring.unpack_maskrcnn_answer(
            answer, sample, document.images[sample], len(document.categories)
        )[1]
        assert len(kept) == scoring.DETECTION_COUNT_FORMAT.unpack_from(answer)[0] <= 5


@pytest.mark.slow
def test_three_networks_are_compiled(system: MaskRCNNInference, engine: Any) -> None:
    """Each with what it is told to expect, so that no engine meets a shape outside its profile."""
    system.open(0, 2).warm_up()
    assert set(engine.networks) == {"trunk", "box", "mask"}
    for name, shape in engine.shapes:
        profile = engine.networks[name].shapes
        assert profile is not None
        assert all(
            low <= side <= high
            for low, side, high in zip(profile.minimum[0], shape, profile.maximum[0], strict=True)
        )


@pytest.mark.slow
def test_warm_up_runs_every_size(system: MaskRCNNInference, engine: Any) -> None:
    """Each padded size at each batch size, before the clock."""
    system.open(0, 2).warm_up()
    shapes = {shape for name, shape in engine.shapes if name == "trunk"}
    assert shapes == {(count, 3, *size) for count in (1, 2) for size in system.list_padded_sizes()}


@pytest.mark.slow
def test_unloaded_samples_are_gone(system: MaskRCNNInference) -> None:
    """Memory for the performance set only."""
    system.load([0, 1])
    system.unload([0])
    predict = system.open(0, 2)
    predict([1])
    with pytest.raises(KeyError):
        predict([0])


@pytest.mark.slow
def test_sizes(system: MaskRCNNInference) -> None:
    """The whole accuracy set; batches are sorted by pixels."""
    assert (system.sample_count, system.performance_sample_count) == (3, 3)
    assert system.length(0) == 64 * 64 >= system.length(1)


@pytest.mark.slow
def test_other_classes_are_refused(
    make_run: MakeRun,
    network: model.MaskRCNNNetwork,
    described: model.MaskRCNNDescription,
    tmp_path: Path,
    engine: Any,
) -> None:
    """A checkpoint of other data would answer with labels that mean something else."""
    weights.write_exported_weights(network, replace(described, classes=("a", "b", "c")), tmp_path)
    with pytest.raises(RequestError, match="differ from the"):
        WORKLOAD.build_inference(make_run(), tmp_path, engine)


@pytest.mark.slow
@pytest.mark.parametrize("profile", list(Profile))
def test_each_profile_serves_what_it_exports(
    tiny: Path, tmp_path: Path, engine: Any, profile: Profile
) -> None:
    """A campaign that trains for days and is refused then is none; the row's own settings, in both
    halves.
    """
    asked = {
        "model.frozen_norm": False,
        "global_batch_size": 2,
        "data.micro_batch": 2,
        "data.workers": 0,
    }  # frozen ones need start weights
    trained, served = (
        a_run("maskrcnn", tiny, tmp_path, asked, profile=profile, serving=half)
        for half in (False, True)
    )
    with weights.SkippedInitialisation():
        MaskRCNNTraining(trained).export(tmp_path)
    assert MaskRCNNInference(served, tmp_path, engine).sample_count == 3


@pytest.mark.slow
def test_other_sizes_are_refused(make_run: MakeRun, checkpoint: Path, engine: Any) -> None:
    """What was trained at 64 pixels is not served at 96 and reported as the same."""
    with pytest.raises(RequestError, match="trained for images of 64 to 64 px"):
        MaskRCNNInference(make_run(min_image_size=96), checkpoint, engine)
