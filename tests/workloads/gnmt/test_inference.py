"""A system under test over a checkpoint: loading, answers, truth, and what it refuses."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from testbed import PlainEngine, a_run

from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common import weights
from workloads.common.text.token_answers import pack_token_ids, unpack_token_ids
from workloads.gnmt import WORKLOAD, data, decoding, model, scoring
from workloads.gnmt.inference import GNMTInference
from workloads.gnmt.training import GNMTTraining

MakeRun = Callable[..., Run]
SCALE = 6.0


@pytest.fixture
def checkpoint(make_run: MakeRun, tmp_path: Path) -> Path:
    """Random weights over the tiny text's vocabulary, larger than at the start, so that answers
    differ.
    """
    return written(make_run(), tmp_path / "checkpoint")


def written(run: Run, folder: Path) -> Path:
    subwords = data.prepare_gnmt_text(
        run.data, run.cache, int(str(run.settings["data.merges"])), skip=False
    ).subwords
    network = model.build_seeded_gnmt(1, len(subwords.tokens), 16, 3, 0.0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(SCALE)
    description = model.GNMTDescription(
        workload="gnmt",
        framework="torch",
        width=16,
        layers=3,
        vocabulary=len(subwords.tokens),
        vocabulary_sha256=subwords.sha256,
        max_answer_length=60,
    )
    folder.mkdir()
    weights.write_exported_weights(network, description, folder)
    return folder


@pytest.fixture
def system(make_run: MakeRun, checkpoint: Path, engine: PlainEngine) -> Iterator[GNMTInference]:
    found = GNMTInference(make_run(batching__max_batch=4), checkpoint, engine)
    yield found
    found.close()


def test_sizes(system: GNMTInference) -> None:
    """All sentences of the accuracy set, and no more in memory than there are."""
    assert (system.sample_count, system.performance_sample_count) == (10, 10)


def test_what_the_engine_is_asked_for(system: GNMTInference, engine: PlainEngine) -> None:
    """Two networks, one plan; the decoder's state has one size, and nothing grows with the
    answer.
    """
    reader, writer = (made.network for made in engine.made)
    assert (reader.name, writer.name) == ("gnmt-encoder", "gnmt-decoder")
    assert engine.plans[0] == engine.plans[1] and engine.plans[0].max_batch == 4
    assert writer.state == {"next_hidden": "hidden", "next_cell": "cell"}
    for network in (reader, writer):
        outputs = network.module(*network.inputs)
        assert len(outputs) == len(network.output_names) and len(network.inputs) == len(
            network.input_names
        ) == len(network.dimensions)
        assert network.shapes is not None
        for shapes in (network.shapes.minimum, network.shapes.usual, network.shapes.maximum):
            assert all(
                len(shape) == tensor.dim()
                for shape, tensor in zip(shapes, network.inputs, strict=True)
            )
    assert writer.shapes is not None and writer.shapes.maximum[1] == (40, 3, 16)


def test_warm_up_runs_every_batch_size(system: GNMTInference, engine: PlainEngine) -> None:
    """Before the clock, on no sample of the set."""
    system.open(0, 4).warm_up()
    assert [shapes[0][0] for shapes in engine.made[0].shapes] == [1, 2, 3, 4]


@pytest.mark.slow
def test_answers_are_the_search_s(system: GNMTInference, checkpoint: Path) -> None:
    """Beam 10, length penalty 1, no coverage (inference v0.5), whatever sentences come together;
    raw int32 with the end mark.
    """
    system.load(range(10))
    predict = system.open(0, 4)
    network, _ = model.load_gnmt_checkpoint(checkpoint)
    translator = decoding.GNMTTranslator.build_without_engine(network, torch.device("cpu"))
    beam = decoding.build_gnmt_beam((10, 1.0, 0.0), 60)
    pairs = system._test
    with torch.inference_mode():
        expected = [
            translator.translate_sentences(
                [data.truncate_gnmt_source(pairs.get_pair(index)[0], 60)], beam
            )[0]
            for index in range(10)
        ]
    found = [answer for start in (0, 4, 8) for answer in predict(range(start, min(start + 4, 10)))]
    assert [unpack_token_ids(answer) for answer in found] == [
        (*answer, scoring.GNMT_END_ID) for answer in expected
    ]
    assert len(set(found)) > 1


def test_length_is_the_source_s(system: GNMTInference) -> None:
    """Offline sorts by it, so that batches have little padding."""
    system.load([3, 5])
    assert [system.length(sample) for sample in (3, 5)] == [
        len(system._test.get_pair(sample)[0]) for sample in (3, 5)
    ]
    system.unload([3])
    with pytest.raises(KeyError):
        system.length(3)


def test_sentences_over_the_limit_are_cut(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    """Every sample has an answer, and no answer is longer than the limit and its end mark."""
    system = GNMTInference(make_run(data__max_answer_length=6), checkpoint, engine)
    system.load(range(10))
    assert max(system.length(sample) for sample in range(10)) == 6
    assert all(len(unpack_token_ids(answer)) <= 7 for answer in system.open(0, 10)(range(10)))


def test_truth_is_what_scoring_reads(system: GNMTInference, tmp_path: Path) -> None:
    """References as answers score 1: both sides of the judge's sum are cut alike."""
    (tmp_path / "truth").mkdir()
    system.truth(tmp_path / "truth")
    right = {
        sample: pack_token_ids(system._test.get_pair(sample)[1][1:].tolist())
        for sample in range(10)
    }
    assert scoring.score(right, tmp_path / "truth") == {"bleu": pytest.approx(1.0)}
    copied = {
        sample: pack_token_ids(system._test.get_pair(sample)[0][1:].tolist())
        for sample in range(10)
    }
    assert scoring.score(copied, tmp_path / "truth")["bleu"] < 0.05


@pytest.mark.parametrize("profile", list(Profile))
def test_each_profile_serves_what_it_exports(
    tiny_text: Path, text_cache: Path, tmp_path: Path, engine: PlainEngine, profile: Profile
) -> None:
    """A campaign that trains for days and is refused then is none; the row's own settings, in both
    halves.
    """
    small = {"model.width": 16, "global_batch_size": 8}
    trained, served = (
        a_run("gnmt", tiny_text, text_cache, small, profile=profile, serving=half)
        for half in (False, True)
    )
    GNMTTraining(trained).export(tmp_path)
    assert GNMTInference(served, tmp_path, engine).sample_count == 10


def test_a_checkpoint_of_another_vocabulary_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine, own_text: Path, tmp_path: Path
) -> None:
    """Its token numbers would mean other words, quietly."""
    with pytest.raises(RequestError, match="trained with the vocabulary"):
        GNMTInference(make_run(data__merges=11), checkpoint, engine)
    with (own_text / "train.en").open("a") as source, (own_text / "train.de").open("a") as target:
        source.write("One more sentence.\n")
        target.write("Noch ein Satz.\n")
    with pytest.raises(RequestError, match="trained with the vocabulary"):
        GNMTInference(make_run(data=own_text, cache=tmp_path / "cache"), checkpoint, engine)


def test_a_checkpoint_of_another_framework_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    path = checkpoint / "model.json"
    path.write_text(path.read_text().replace('"torch"', '"tensorflow"'))
    with pytest.raises(RequestError, match="framework is tensorflow"):
        WORKLOAD.build_inference(make_run(), checkpoint, engine)


def test_what_there_is_no_code_for_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    with pytest.raises(RequestError, match="unknown framework of gnmt 'tensorflow'"):
        WORKLOAD.build_inference(replace(make_run(), framework="tensorflow"), checkpoint, engine)
