"""One run of training: steps, resume, evaluation, export."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.failures import describe_machine_error
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common.text import synthetic_language
from workloads.common.text.bleu import BleuForm, compute_bleu
from workloads.gnmt import WORKLOAD, model
from workloads.gnmt.recipe import GNMTRecipe
from workloads.gnmt.training import GNMTTraining, build_gnmt_optimizer

MakeRun = Callable[..., Run]


def weights(training: GNMTTraining, folder: Path) -> dict[str, torch.Tensor]:
    """Take the weights by the way that users have."""
    folder.mkdir()
    training.export(folder)
    return dict(model.load_gnmt_checkpoint(folder)[0].state_dict())


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.mark.slow
def test_an_epoch_yields_each_global_batch(make_run: MakeRun) -> None:
    """The harness counts pairs by these numbers; each is trained on once."""
    training = GNMTTraining(make_run())
    counts = list(training.train_epoch(1))
    assert sum(counts) == 120 and max(counts) <= 8
    assert list(training.train_epoch(2, first_step=len(counts) - 1)) == [
        training._plan_epoch(2)[-1].samples
    ]
    assert list(training.train_epoch(3, first_step=len(counts))) == []


def test_facts(make_run: MakeRun) -> None:
    """Pairs over the limit are not counted as trained on."""
    facts = GNMTTraining(make_run()).facts()
    assert (facts["train_samples"], facts["eval_samples"]) == (120, 10)
    assert str(facts["metric_signature"]).startswith(
        "bleu|form:sacrebleu|nrefs:1|case:lc|eff:no|tok:intl|smooth:exp"
    )
    shorter = GNMTTraining(make_run(max_sequence_length=40)).facts()
    assert (
        int(str(shorter["train_samples"]))
        < 120
        == facts["corpus_samples"]
        == shorter["corpus_samples"]
    )


def test_the_workload_makes_it(make_run: MakeRun) -> None:
    """The entry point's class imports the rest when it is asked; blocks follow the round."""
    training = WORKLOAD.build_training(make_run())
    assert isinstance(training, GNMTTraining)
    assert next(training.blocks()) == range(1, 2)


@pytest.mark.slow
def test_a_seed_is_a_run(make_run: MakeRun, tmp_path: Path) -> None:
    """Same seed, same weights to the last bit, dropout included, whatever the global generator did;
    another seed, others.
    """
    found = []
    for number, seed in enumerate((3, 3, 4)):
        torch.manual_seed(number)
        training = GNMTTraining(make_run(seed=seed))
        list(training.train_epoch(1))
        found.append(weights(training, tmp_path / str(number)))
    assert equal(found[0], found[1])
    assert not equal(found[0], found[2])


@pytest.mark.slow
def test_resume_in_an_epoch_is_exact(make_run: MakeRun, tmp_path: Path) -> None:
    """Saved after the second step of epoch 2 and taken up by a fresh process: the same weights as
    without.
    """
    whole = GNMTTraining(make_run())
    for epoch in (1, 2):
        list(whole.train_epoch(epoch))
    cut = GNMTTraining(make_run())
    list(cut.train_epoch(1))
    with closing(cut.train_epoch(2)) as steps:
        assert len(list(islice(steps, 2))) == 2
    (tmp_path / "state").mkdir()
    cut.save(tmp_path / "state")
    torch.manual_seed(99)
    resumed = GNMTTraining(make_run())
    resumed.restore(tmp_path / "state")
    list(resumed.train_epoch(2, first_step=2))
    assert equal(weights(whole, tmp_path / "whole"), weights(resumed, tmp_path / "resumed"))


def test_evaluating_changes_nothing(make_run: MakeRun, tmp_path: Path) -> None:
    """An evaluation must leave weights and dropout's stream alone, and says the same twice."""
    training = GNMTTraining(make_run())
    before = weights(training, tmp_path / "before")
    state = torch.get_rng_state()
    first, second = training.evaluate(), training.evaluate()
    assert first == second and 0.0 <= first["bleu"] < 0.05
    assert torch.equal(state, torch.get_rng_state())
    assert equal(before, weights(training, tmp_path / "after"))


def test_evaluation_holds_each_answer_against_its_own_reference(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are sorted by length; answers must find back to their sentences, detokenised."""
    training = GNMTTraining(make_run())
    right = {index: training._test_pairs.get_pair(index)[1][1:-1].tolist() for index in range(10)}
    monkeypatch.setattr(
        training,
        "_translate_rank_share",
        lambda: iter(sorted(right.items(), key=lambda entry: len(entry[1]))),
    )
    assert training.evaluate()["bleu"] == pytest.approx(1.0)
    asked = [index for index, _ in GNMTTraining(make_run())._translate_rank_share()]
    assert sorted(asked) == list(range(10)) != asked


@pytest.mark.slow
def test_steps_learn_by_heart(make_run: MakeRun) -> None:
    """A step that forgets backward, zero_grad or the rate would leave the loss where it was."""
    chosen = {
        "opt_base_learning_rate": 0.02,
        "opt_learning_rate_warmup_steps": 0,
        "model.dropout": 0.0,
        "global_batch_size": 120,
        "data.buckets": 1,
    }
    training = GNMTTraining(make_run(**chosen))
    losses = [training.loss() for epoch in range(1, 11) for _ in training.train_epoch(epoch)]
    assert losses[-1] < 0.85 * losses[0]


def test_the_first_steps_follow_the_warm_up(make_run: MakeRun) -> None:
    """Adam's first step moves each weight by its rate: a hundredth of the base."""
    training = GNMTTraining(
        make_run(opt_base_learning_rate=0.01, opt_learning_rate_warmup_steps=10)
    )
    before = training._network.decoder.classifier.bias.detach().clone()
    with closing(training.train_epoch(1)) as steps:
        next(steps)
    moved = (training._network.decoder.classifier.bias.detach() - before).abs().max()
    assert float(moved) == pytest.approx(1e-4, rel=0.01)


def test_loss_is_per_sentence(make_run: MakeRun) -> None:
    """Of the last step; not a number before the first."""
    training = GNMTTraining(make_run(model__dropout=0.0))
    assert np.isnan(training.loss())
    step = training._plan_epoch(1)[0]
    batch = next(training._loader.read(list(step.micro_batches)))
    expected = float(training._compute_batch_loss(batch).detach()) / step.samples
    with closing(training.train_epoch(1)) as steps:
        next(steps)
    assert training.loss() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("largest", [3, 0])
def test_memory_that_does_not_suffice_names_the_micro_batch_that_fits(
    make_run: MakeRun, largest: int
) -> None:
    """Found by trying halves, as PyTorch words the error on a GPU; with that setting it trains."""
    run = make_run(global_batch_size=24, data__buckets=1, model__dropout=0.0)

    def limit_memory(training: GNMTTraining) -> GNMTTraining:
        compute = training._limit.compute_loss

        def compute_or_fail(batch: Any) -> torch.Tensor:
            if len(batch) > largest:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return compute(batch)

        training._limit = replace(training._limit, compute_loss=compute_or_fail)
        return training

    with (
        pytest.raises(torch.OutOfMemoryError) as caught,
        closing(limit_memory(GNMTTraining(run)).train_epoch(1)) as steps,
    ):
        next(steps)
    said = describe_machine_error(caught.value, run.settings)
    assert said.startswith("memory does not suffice (CUDA out of memory. Tried")
    if not largest:
        assert said.endswith("; a smaller batch needs less: --set global_batch_size=N")
        return
    key, value = said.partition("; what fits: --set ")[2].split("=")
    assert key == "data.micro_batch"
    again = limit_memory(GNMTTraining(replace(run, settings={**run.settings, key: int(value)})))
    with closing(again.train_epoch(1)) as steps:
        assert next(steps) > largest


def test_micro_batches_have_the_gradients_of_the_batch(make_run: MakeRun) -> None:
    """The loss is a sum over pairs, so nothing depends on how a rank divides its share."""
    found = []
    for asked in ({}, {"data__micro_batch": 3}):
        training = GNMTTraining(
            make_run(global_batch_size=24, data__buckets=1, model__dropout=0.0, **asked)
        )
        with closing(training.train_epoch(1)) as steps:
            next(steps)
        found.append((list(training._network.parameters()), training.loss()))
    assert len(training._plan_epoch(1)[0].micro_batches) == 8
    (whole, whole_loss), (parts, parts_loss) = found
    assert parts_loss == pytest.approx(whole_loss, rel=1e-5)
    for first, second in zip(whole, parts, strict=True):
        assert first.grad is not None and second.grad is not None
        assert torch.allclose(first.grad, second.grad, rtol=1e-4, atol=1e-6)


def test_a_gpu_updates_all_weights_in_one_kernel(make_run: MakeRun) -> None:
    """With the same results; the optimizer's state is known to PyTorch under the same names."""
    recipe = GNMTRecipe.build_from_settings(make_run().settings)
    weights, states = [], []
    for kind in ("cpu", "cuda"):
        network = model.build_seeded_gnmt(1, 13, 6, 2, 0.0)
        adam = build_gnmt_optimizer(network, recipe, torch.device(kind))
        assert bool(adam.defaults["fused"]) is (kind == "cuda")
        for _ in range(3):
            for number, weight in enumerate(network.parameters()):
                weight.grad = torch.full_like(weight, 0.1 * (number + 1))
            adam.step()
        weights.append(list(network.parameters()))
        states.append({name for entry in adam.state.values() for name in entry})
    assert states[0] == states[1]
    for first, second in zip(*weights, strict=True):
        assert torch.allclose(first, second, rtol=1e-5, atol=1e-7)


def test_shuffled_pairs_reach_the_loss(make_run: MakeRun) -> None:
    """With `data.shuffle_labels=true` the training pairs differ, and those that are evaluated do
    not.
    """
    honest, shuffled = (
        GNMTTraining(make_run(data__shuffle_labels=value)) for value in (False, True)
    )
    assert not np.array_equal(
        honest._training_pairs.translation, shuffled._training_pairs.translation
    )
    assert np.array_equal(honest._test_pairs.translation, shuffled._test_pairs.translation)


def test_a_broken_line_stops_the_run_before_it_starts(
    own_text: Path, make_run: MakeRun, tmp_path: Path
) -> None:
    (own_text / "train.de").write_bytes(
        b"\n" + (own_text / "train.de").read_bytes().partition(b"\n")[2]
    )
    with pytest.raises(RequestError, match=r"train\.de:1 is empty"):
        GNMTTraining(make_run(data=own_text, cache=tmp_path / "cache"))
    kept = GNMTTraining(make_run(data=own_text, cache=tmp_path / "cache", data__skip_broken=True))
    assert kept.facts()["train_samples"] == 119


def test_quick_runs_on_any_folder(make_run: MakeRun) -> None:
    """Real data by `--data` is the only difference: the quick profile trains and scores on a folder
    of that layout.
    """
    training = GNMTTraining(make_run(profile=Profile.QUICK))
    assert sum(training.train_epoch(1)) == 120
    assert set(training.evaluate()) == {"bleu"}


def test_an_untrained_network_is_far_from_the_target(make_run: MakeRun) -> None:
    """And so is one sentence for all."""
    training = GNMTTraining(make_run())
    same = [training._text.translations[0]] * 10
    assert training.evaluate()["bleu"] < 0.02
    assert compute_bleu(BleuForm.SACREBLEU, same, training._text.translations) < 0.2


@pytest.mark.slow
def test_shuffled_pairs_teach_nothing(make_run: MakeRun, tmp_path: Path) -> None:
    """On short sentences six epochs teach honest pairs to translate; other sentences' translations
    teach one answer for all, whose BLEU is 0.06.
    """
    plain = replace(
        synthetic_language.NEAR_LANGUAGE,
        adjective=0.0,
        proper_name=0.0,
        preposition=0.0,
        adverb=0.0,
        second_clause=0.0,
    )
    synthetic_language.write_synthetic_text(
        replace(plain, skew=4.0, train=1200, test=40), tmp_path / "short"
    )
    learns = {
        "model.width": 64,
        "global_batch_size": 16,
        "data.merges": 2000,
        "opt_base_learning_rate": 0.01,
        "opt_learning_rate_warmup_steps": 10,
    }
    scores = []
    for shuffled in (False, True):
        training = GNMTTraining(
            make_run(
                data=tmp_path / "short",
                cache=tmp_path,
                data__shuffle_labels=shuffled,
                model__dropout=0.0,
                **learns,
            )
        )
        assert sum(sum(training.train_epoch(epoch)) for epoch in range(1, 7)) == 6 * 1200
        scores.append(training.evaluate()["bleu"])
    assert scores[0] > 0.1 and scores[0] > 1.5 * scores[1]
