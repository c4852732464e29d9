"""A system under test over a checkpoint: answers, truth, what an engine is told, and what is
refused.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from testbed import PlainEngine, a_run

from harness.engines.torch import TorchEngine
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common import weights_description
from workloads.common.text.parallel_text import ParallelCorpus
from workloads.common.text.token_answers import pack_token_ids, unpack_token_ids
from workloads.transformer import WORKLOAD, scoring
from workloads.transformer.inference import TransformerInference
from workloads.transformer.training import TransformerTraining
from workloads.transformer.translation.beam_search import TranslationBeams

MakeRun = Callable[..., Run]


@pytest.fixture(scope="module")
def trained(make_with: MakeRun, tmp_path_factory: pytest.TempPathFactory) -> TransformerTraining:
    """A training that tests export or evaluate, and leave alone."""
    run = make_with(
        tmp_path_factory.mktemp("cache"),
        opt_learning_rate_warmup_steps=5,
        opt_base_learning_rate=0.3,
    )
    training = TransformerTraining(run)
    for epoch in range(1, 5):
        list(training.train_epoch(epoch))
    return training


@pytest.fixture
def checkpoint(trained: TransformerTraining, tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    trained.export(folder)
    return folder


@pytest.fixture
def system(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> Iterator[TransformerInference]:
    found = TransformerInference(make_run(), checkpoint, engine)
    yield found
    found.close()


@pytest.mark.slow
def test_sizes(
    system: TransformerInference, corpora: tuple[ParallelCorpus, ParallelCorpus]
) -> None:
    """The whole accuracy set; batches are sorted by the tokens of the source."""
    assert (system.sample_count, system.performance_sample_count) == (12, 12)
    longest = max(range(12), key=lambda sample: len(corpora[1].sources[sample]))
    assert system.length(longest) > min(map(system.length, range(12)))


@pytest.mark.slow
def test_answers_do_not_depend_on_the_batch(system: TransformerInference) -> None:
    """Alone, in a full batch, or in another order: the same bytes for the same sentence."""
    system.load(range(12))
    predict = system.open(0, 4)
    alone = [predict([sample])[0] for sample in range(12)]
    assert list(predict([3, 1, 2, 0])) == [alone[3], alone[1], alone[2], alone[0]]
    assert list(predict(range(4, 12))) == alone[4:]


@pytest.mark.slow
def test_served_is_what_was_evaluated(
    system: TransformerInference, trained: TransformerTraining, tmp_path: Path
) -> None:
    """The same score by training's evaluation and by answers, references and scorer."""
    system.load(range(12))
    answers = dict(enumerate(system.open(0, 4)(range(12))))
    (tmp_path / "truth").mkdir()
    system.truth(tmp_path / "truth")
    assert scoring.score(answers, tmp_path / "truth")["bleu"] == pytest.approx(
        trained.evaluate()["bleu"]
    )


@pytest.mark.slow
def test_answers_hold_the_tokens_of_the_best_translation(system: TransformerInference) -> None:
    """int32 each, the end mark last, none longer than source and extra length allow."""
    system.load(range(12))
    for sample, answer in enumerate(system.open(0, 12)(range(12))):
        ids = unpack_token_ids(answer)
        assert ids[-1] == 1 and 1 not in ids[:-1] and 0 not in ids
        assert len(ids) - 1 <= system.length(sample) + 4


@pytest.mark.slow
def test_truth_fits_the_scorer(
    system: TransformerInference, corpora: tuple[ParallelCorpus, ParallelCorpus], tmp_path: Path
) -> None:
    """References by sample number: perfect answers score 1."""
    system.truth(tmp_path)
    perfect = {
        sample: pack_token_ids([*system._text.words.encode_text(line), 1])
        for sample, line in enumerate(corpora[1].targets)
    }
    assert scoring.score(perfect, tmp_path)["bleu"] == pytest.approx(1.0)


@pytest.mark.slow
def test_the_torch_engine_serves_it(
    make_run: MakeRun, checkpoint: Path, system: TransformerInference
) -> None:
    """Eager, through the real engine: the same answers, and caches that stay where they are."""
    served = TransformerInference(make_run(), checkpoint, TorchEngine())
    for one in (served, system):
        one.load(range(12))
    assert list(served.open(0, 4)(range(4))) == list(system.open(0, 4)(range(4)))


@pytest.mark.slow
def test_what_engines_are_told_fits_the_networks(
    system: TransformerInference, engine: PlainEngine
) -> None:
    """Names, dimensions and examples; the caches are read only, so that no engine has to copy
    them.
    """
    encoder, step = (made.network for made in engine.made)
    assert (encoder.name, step.name) == ("encoder", "decoder-step")
    assert not step.state and step.output_names[2:] == ("new_key", "new_value")
    for network in (encoder, step):
        found = network.module(*network.inputs)
        assert len(found) == len(network.output_names) and len(network.inputs) == len(
            network.input_names
        ) == len(network.dimensions)


@pytest.mark.slow
def test_unloaded_sentences_are_gone(system: TransformerInference) -> None:
    """LoadGen's library: memory for the performance set only."""
    system.load([0, 1])
    system.unload([0])
    predict = system.open(0, 4)
    predict([1])
    with pytest.raises(KeyError):
        predict([0])


@pytest.mark.slow
def test_warm_up_takes_one_step_in_every_batch_size(
    system: TransformerInference, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any load; whole translations would cost each LoadGen run a minute."""
    sizes: list[int] = []

    def counting(self: TranslationBeams, *given: Any) -> None:
        sizes.append(len(self.limit_B))
        advance(self, *given)

    advance = TranslationBeams.extend_hypotheses
    monkeypatch.setattr(TranslationBeams, "extend_hypotheses", counting)
    system.open(0, 3).warm_up()
    assert sizes == [1, 2, 3]


@pytest.mark.parametrize("profile", list(Profile))
def test_each_profile_serves_what_it_exports(
    own_small: Path, tmp_path: Path, engine: PlainEngine, profile: Profile
) -> None:
    """A campaign that trains for days and is refused then is none; the row's own settings, in both
    halves.
    """
    small = {"model.width": 16, "model.filter": 32, "model.heads": 2}
    trained, served = (
        a_run("transformer", own_small, tmp_path, small, profile=profile, serving=half)
        for half in (False, True)
    )
    TransformerTraining(trained).export(tmp_path)
    assert TransformerInference(served, tmp_path, engine).sample_count == 12


@pytest.mark.slow
def test_the_workload_makes_it(make_run: MakeRun, checkpoint: Path, engine: PlainEngine) -> None:
    """By the entry point's class."""
    assert WORKLOAD.build_inference(make_run(), checkpoint, engine).sample_count == 12


def test_another_workload_s_checkpoint_is_refused(
    make_run: MakeRun, engine: PlainEngine, tmp_path: Path
) -> None:
    """Before anything is loaded."""
    (tmp_path / weights_description.DESCRIPTION_FILE).write_text('{"workload": "gnmt"}')
    with pytest.raises(RequestError, match="workload is gnmt"):
        TransformerInference(make_run(), tmp_path, engine)


@pytest.mark.slow
def test_another_vocabulary_is_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    """Its numbers would mean other subtokens, quietly."""
    with pytest.raises(RequestError, match=r"a different vocabulary than .*vocab\.ende\.90"):
        TransformerInference(make_run(data__vocabulary=90), checkpoint, engine)


@pytest.mark.slow
def test_damaged_weights_are_refused(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine
) -> None:
    """Cut off, or those of another shape."""
    path = checkpoint / weights_description.WEIGHTS_FILE
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RequestError, match="does not fit transformer"):
        TransformerInference(make_run(), checkpoint, engine)


@pytest.mark.slow
def test_a_long_sentence_is_translated(
    make_run: MakeRun, checkpoint: Path, engine: PlainEngine, own_small: Path
) -> None:
    """Longer than anything in training: nothing in the network or the caches has a length that was
    fixed then.
    """
    for suffix in ("en", "de"):
        path = own_small / f"test.{suffix}"
        lines = path.read_text("utf-8").split("\n")
        path.write_text("\n".join([" ".join([lines[0]] * 9), *lines[1:]]), "utf-8")
    (own_small / "vocab.ende.200").write_bytes(
        make_run().data.joinpath("vocab.ende.200").read_bytes()
    )  # type: ignore[union-attr]
    system = TransformerInference(make_run(data=own_small), checkpoint, engine)
    system.load([0, 1])
    answers = system.open(0, 4)([0, 1])
    assert len(np.frombuffer(answers[0], "<i4")) > 0 and system.length(0) > 64
