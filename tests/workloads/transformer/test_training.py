"""One run of training: loss, schedule and Adam against float64 by hand; steps, resume, evaluation,
export.
"""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.utils import counters
from torch.utils._python_dispatch import TorchDispatchMode

from harness.failures import describe_machine_error
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Precision, Run
from workloads.common.inputs.batches import SampleKey
from workloads.common.optimisation import recomputation
from workloads.common.weights_description import WEIGHTS_FILE
from workloads.transformer import WORKLOAD, data
from workloads.transformer.recipe import (
    TransformerRecipe,
    build_inverse_root_schedule,
    compute_smoothed_label_entropy,
)
from workloads.transformer.subwords import PAD_ID
from workloads.transformer.training import (
    TransformerTraining,
    build_transformer_optimizer,
    compute_summed_loss,
)

MakeRun = Callable[..., Run]


def exported(training: TransformerTraining, folder: Path) -> dict[str, torch.Tensor]:
    """Take the weights by the way that users have."""
    folder.mkdir()
    training.export(folder)
    return load_file(folder / WEIGHTS_FILE)


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_reference_s(smoothing: float) -> None:
    """In float64, word by word: the right one has 1 - s, each other one s / (V - 1); less what a
    perfect model would have.
    """
    rng = np.random.default_rng(2)
    logit_NV, label_N = rng.normal(0, 2, (5, 9)), [3, 1, 8, 3, 0]
    expected = 0.0
    for logit_V, label in zip(logit_NV.tolist(), label_N, strict=True):
        norm = math.log(sum(math.exp(logit) for logit in logit_V))
        shares = [1 - smoothing if word == label else smoothing / 8 for word in range(9)]
        expected += sum(
            share * (norm - logit) for share, logit in zip(shares, logit_V, strict=True)
        )
        expected -= sum(-share * math.log(share) for share in shares if share)
    found = compute_summed_loss(torch.from_numpy(logit_NV), torch.tensor(label_N), smoothing)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_a_perfect_model_has_no_loss() -> None:
    """Logits that are the smoothed labels themselves."""
    logit_NV = torch.full((1, 9), 0.1 / 8, dtype=torch.float64).log()
    logit_NV[0, 4] = math.log(0.9)
    assert compute_summed_loss(logit_NV, torch.tensor([4]), 0.1).item() == pytest.approx(
        0.0, abs=1e-12
    )
    assert compute_smoothed_label_entropy(0.0, 9) == 0.0


def test_the_schedule_is_the_paper_s() -> None:
    """Up to 1976e-6 in a thousand steps, as the v0.6 submissions have it, then down with the root
    of the step.
    """
    rate = build_inverse_root_schedule(2.0, 1024, 1000)
    assert rate(999) == pytest.approx(1.976e-3, rel=1e-3)
    assert rate(0) == pytest.approx(rate(999) / 1000)
    assert rate(3999) == pytest.approx(rate(999) / 2)
    assert build_inverse_root_schedule(2.0, 1024, 0)(3) == pytest.approx(2.0 / 32 / 2)


def test_steps_of_adam_are_the_paper_s(make_run: MakeRun) -> None:
    """Three steps in float64 by hand: both means, both corrections, epsilon."""
    recipe = replace(
        TransformerRecipe.build_from_settings(make_run().settings), base_rate=0.01, epsilon=1e-4
    )
    weight = torch.nn.Parameter(torch.tensor([0.5, -1.0]))
    adam = build_transformer_optimizer(torch.nn.ParameterList([weight]), recipe)
    by_hand, mean, square = [0.5, -1.0], [0.0, 0.0], [0.0, 0.0]
    for step, gradient in enumerate(([0.1, -2.0], [0.3, 0.0], [-0.2, 1e-5]), 1):
        weight.grad = torch.tensor(gradient)
        adam.step()
        for place, slope in enumerate(gradient):
            mean[place] = recipe.beta_1 * mean[place] + (1 - recipe.beta_1) * slope
            square[place] = recipe.beta_2 * square[place] + (1 - recipe.beta_2) * slope**2
            corrected = (
                mean[place] / (1 - recipe.beta_1**step),
                square[place] / (1 - recipe.beta_2**step),
            )
            by_hand[place] -= 0.01 * corrected[0] / (math.sqrt(corrected[1]) + 1e-4)
    assert weight.tolist() == pytest.approx(by_hand, rel=1e-5)


def test_an_epoch_yields_each_sentence_once(make_run: MakeRun) -> None:
    """The harness counts sentences by these numbers, and resumes by their place."""
    training = TransformerTraining(make_run())
    found = list(training.train_epoch(1))
    assert sum(found) == 48
    assert list(training.train_epoch(2, first_step=len(found) - 1))[0] in range(1, 49)
    assert list(training.train_epoch(3, first_step=len(found))) == []


def test_facts(make_run: MakeRun) -> None:
    """Logged as train_samples and eval_samples; the metric says how it is taken."""
    facts = TransformerTraining(make_run()).facts()
    assert (facts["train_samples"], facts["corpus_samples"], facts["eval_samples"]) == (48, 48, 12)
    shorter = TransformerTraining(make_run(max_sequence_length=40)).facts()
    assert int(str(shorter["train_samples"])) < 48 == shorter["corpus_samples"]
    assert "case:lc" in str(facts["metric_signature"]) and "tok:t2t" in str(
        facts["metric_signature"]
    )


def test_blocks_follow_the_round(make_run: MakeRun) -> None:
    """Evaluated after every epoch."""
    assert all(len(block) == 1 for block in TransformerTraining(make_run()).blocks())


@pytest.mark.slow
def test_a_seed_is_a_run(make_run: MakeRun, tmp_path: Path) -> None:
    """Same seed, same weights to the last bit, dropout included, whatever the global generator did;
    another seed, others.
    """
    found = []
    for number, seed in enumerate((3, 3, 4)):
        torch.manual_seed(number)
        training = TransformerTraining(make_run(seed=seed, model__dropout=0.2))
        list(training.train_epoch(1))
        found.append(exported(training, tmp_path / str(number)))
    assert equal(found[0], found[1])
    assert not equal(found[0], found[2])


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_resume_in_an_epoch_is_exact(make_run: MakeRun, tmp_path: Path, dropout: float) -> None:
    """Saved after the second step of epoch 2 and taken up by a fresh process: the same weights and
    score as without.
    """
    make = lambda: TransformerTraining(make_run(model__dropout=dropout))  # noqa: E731
    torch.manual_seed(1)
    whole = make()
    for epoch in (1, 2):
        list(whole.train_epoch(epoch))
    torch.manual_seed(1)
    cut = make()
    list(cut.train_epoch(1))
    with closing(cut.train_epoch(2)) as steps:
        list(islice(steps, 2))
    (tmp_path / "state").mkdir()
    cut.save(tmp_path / "state")
    torch.manual_seed(99)
    resumed = make()
    resumed.restore(tmp_path / "state")
    list(resumed.train_epoch(2, first_step=2))
    assert equal(exported(whole, tmp_path / "whole"), exported(resumed, tmp_path / "resumed"))
    assert whole.evaluate() == resumed.evaluate()


def test_evaluating_changes_no_weights(make_run: MakeRun, tmp_path: Path) -> None:
    """And gives a score between 0 and 1."""
    training = TransformerTraining(make_run())
    before = exported(training, tmp_path / "before")
    assert 0.0 <= training.evaluate()["bleu"] <= 1.0
    assert equal(before, exported(training, tmp_path / "after"))


@pytest.mark.slow
def test_steps_learn(make_run: MakeRun) -> None:
    """A step that forgets backward, zero_grad or the rate would leave the loss where it was."""
    training = TransformerTraining(
        make_run(
            opt_learning_rate_warmup_steps=10, opt_base_learning_rate=0.2, global_batch_size=2000
        )
    )
    losses = [training.loss() for epoch in range(1, 9) for _ in training.train_epoch(epoch)]
    assert sum(losses[-5:]) / 5 < losses[0] - 1.0


def test_the_loss_is_a_mean_over_target_tokens(make_run: MakeRun) -> None:
    """Whatever the batch: padding and pairs without weight count nothing."""
    training = TransformerTraining(make_run(global_batch_size=10**6))
    pairs = training._data.train
    planned = data.plan_transformer_batches(pairs, training._recipe, 7, 1)
    tokens = [pairs.count_target_tokens(batch_N) for batch_N in planned]
    assert sum(tokens) == sum(map(len, pairs.targets))
    step = data.plan_transformer_step(pairs, training._recipe, planned[0], 1)
    one = training._compute_batch_loss(pairs.collate_pairs(step.micro_batches[0])) / tokens[0]
    alone = [
        training._compute_batch_loss(pairs.collate_pairs([key])) for key in step.micro_batches[0]
    ]
    assert one.item() == pytest.approx(sum(loss.item() for loss in alone) / tokens[0], rel=1e-4)


def take_first_step(training: TransformerTraining) -> tuple[dict[str, torch.Tensor], float]:
    """Return the gradients of the first step of an epoch, and its loss."""
    with closing(training.train_epoch(1)) as steps:
        next(steps)
    named = training._model.named_parameters()
    return {name: value.grad for name, value in named if value.grad is not None}, training.loss()


@pytest.mark.parametrize("largest", [3, 0])
def test_memory_that_does_not_suffice_names_the_micro_batch_that_fits(
    make_run: MakeRun, largest: int
) -> None:
    """Found by trying halves, as PyTorch words the error on a GPU; with that setting it trains."""
    run = make_run(global_batch_size=1200)

    def limit_memory(training: TransformerTraining) -> TransformerTraining:
        compute = training._limit.compute_loss

        def compute_or_fail(batch: Any) -> torch.Tensor:
            if len(batch) > largest:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return compute(batch)

        training._limit = replace(training._limit, compute_loss=compute_or_fail)
        return training

    with (
        pytest.raises(torch.OutOfMemoryError) as caught,
        closing(limit_memory(TransformerTraining(run)).train_epoch(1)) as steps,
    ):
        next(steps)
    said = describe_machine_error(caught.value, run.settings)
    assert said.startswith("memory does not suffice (CUDA out of memory. Tried")
    if not largest:
        assert said.endswith("; a smaller batch needs less: --set global_batch_size=N")
        return
    key, value = said.partition("; what fits: --set ")[2].split("=")
    assert key == "data.micro_tokens"
    again = limit_memory(
        TransformerTraining(replace(run, settings={**run.settings, key: int(value)}))
    )
    with closing(again.train_epoch(1)) as steps:
        assert next(steps) > largest


def test_micro_batches_have_the_gradients_of_the_batch(make_run: MakeRun) -> None:
    """The loss is a sum over target tokens, so nothing depends on how a rank divides its share."""
    whole, whole_loss = take_first_step(TransformerTraining(make_run(global_batch_size=1200)))
    parts, parts_loss = take_first_step(
        TransformerTraining(make_run(global_batch_size=1200, data__micro_tokens=200))
    )
    assert parts_loss == pytest.approx(whole_loss, rel=1e-6)
    assert whole.keys() == parts.keys() and len(whole) > 10
    for name, gradient in whole.items():
        assert torch.allclose(parts[name], gradient, rtol=1e-4, atol=1e-6), name


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_chunks_of_logits_have_the_gradients_of_all(
    make_run: MakeRun, monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    """Recomputed in the backward pass, in the precision of the forward pass."""
    make = lambda: TransformerTraining(make_run(precision=precision))  # noqa: E731
    whole, whole_loss = take_first_step(make())
    monkeypatch.setattr(recomputation, "LARGEST_KEPT_BYTES", 10 * 200 * 4)
    chunked, chunked_loss = take_first_step(make())
    assert chunked_loss == pytest.approx(whole_loss, rel=1e-6)
    rounding = 1e-6 if precision is Precision.FP32 else 1e-2 * float(whole["embedding"].abs().max())
    for name, gradient in whole.items():
        assert torch.allclose(chunked[name], gradient, rtol=1e-4, atol=rounding), name


class WaitingOperators(TorchDispatchMode):
    """Notes the operators whose results a host would wait for on a GPU."""

    NAMES: ClassVar = ("nonzero", "_local_scalar_dense", "masked_select", "is_nonzero", "equal")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        chosen = [each for each in (*args[1:], *(kwargs or {}).values()) if isinstance(each, list)]
        masks = [
            part
            for parts in chosen
            for part in parts
            if isinstance(part, torch.Tensor) and part.dtype is torch.bool
        ]
        if name in self.NAMES or (name.startswith("index") and masks):
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def test_a_micro_batch_waits_for_nothing(make_run: MakeRun) -> None:
    """Places of tokens come from the host, which knows them; a boolean index would ask the
    device.
    """
    training = TransformerTraining(make_run())
    batch = training._data.train.collate_pairs([SampleKey(index=number) for number in range(4)])
    assert (batch.target_NT == PAD_ID).any()
    with WaitingOperators() as waiting:
        training._compute_batch_loss(batch).backward()  # type: ignore[no-untyped-call]
        assert waiting.found == []
        torch.arange(3)[torch.tensor([True, False, True])]
        assert waiting.found


@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns of itself
def test_a_compiler_sees_the_network_in_one_piece(make_run: MakeRun) -> None:
    """Neither a constant nor the places of tokens, which are known to the host, break it; what it
    sees computes the same to the bit.
    """
    torch._dynamo.reset()
    counters.clear()
    training = TransformerTraining(make_run(model__dropout=0.0))
    pairs = training._data.train
    step = data.plan_transformer_step(pairs, training._recipe, np.arange(4), 1)
    batch = pairs.collate_pairs(step.micro_batches[0])
    inputs = [torch.from_numpy(each) for each in (batch.source_NS, batch.target_NT, batch.token_X)]
    network = training._stepper.network
    seen_NW = torch.compile(network, backend="eager")(*inputs)
    assert torch.equal(seen_NW, network(*inputs))
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1


def test_no_loss_before_the_first_step(make_run: MakeRun) -> None:
    """Not a number, rather than a number that nobody computed."""
    assert np.isnan(TransformerTraining(make_run()).loss())


def test_shuffled_translations_reach_the_loss(make_run: MakeRun) -> None:
    """With `data.shuffle_labels=true` the targets of training differ, and the references do not."""
    honest, shuffled = (
        TransformerTraining(make_run(data__shuffle_labels=value)) for value in (False, True)
    )
    moved = [
        not np.array_equal(*pair)
        for pair in zip(honest._data.train.targets, shuffled._data.train.targets, strict=True)
    ]
    assert sum(moved) > 40
    assert honest._data.test == shuffled._data.test


def test_a_format_that_cannot_train_is_refused(make_run: MakeRun) -> None:
    """Not after the data was generated."""
    with pytest.raises(RequestError, match="int4"):
        TransformerTraining(make_run(precision=Precision.INT4))


@pytest.mark.slow
def test_bf16_trains(make_run: MakeRun) -> None:
    """Autocast reaches the network, and the search that evaluates it."""
    training = TransformerTraining(make_run(precision=Precision.BF16))
    list(training.train_epoch(1))
    assert math.isfinite(training.loss())
    assert training.evaluate()["bleu"] <= 1.0


def test_what_there_is_no_code_for_is_refused(make_run: MakeRun) -> None:
    """Asking for DALI and quietly getting something else would make the record wrong."""
    with pytest.raises(RequestError, match="unknown input of transformer 'dali'"):
        WORKLOAD.build_training(replace(make_run(), input="dali"))


@pytest.mark.slow
def test_quick_runs_on_any_folder(make_run: MakeRun) -> None:
    """Real data by `--data` is the only difference: the quick profile trains and scores on a folder
    of that layout.
    """
    training = TransformerTraining(make_run(profile=Profile.QUICK))
    assert sum(training.train_epoch(1)) == 48
    assert set(training.evaluate()) == {"bleu"}
