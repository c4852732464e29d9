"""One run of training: data, schedule and loss by hand; steps, resume, evaluation, export."""

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from testbed import a_run

from suite.engine import Precision
from suite.errors import RequestError
from suite.rounds import Profile
from suite.workload import Run
from workloads.common.inputs.batches import plan_epoch_steps
from workloads.common.optimisation.schedules import build_cosine_decay
from workloads.llama import data
from workloads.llama.model import LlamaNetwork
from workloads.llama.news import compute_sample_floor, generate_documents, shuffle_summaries
from workloads.llama.recipe import LlamaRecipe
from workloads.llama.survey import LlamaDataSet
from workloads.llama.training import LlamaTraining, WeightedSequences
from workloads.llama.vocabulary import BEGIN_ID, END_ID, encode_document
from workloads.llama.weights import load_llama_checkpoint

MakeRun = Callable[..., Run]
pytestmark = pytest.mark.usefixtures("registered")
SMALL = {
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 4,
    "model.key_value_heads": 2,
    "model.feed_forward": 48,
    "global_batch_size": 8,
}


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A small network on a few of the generated news."""

    def make(**settings: Any) -> Run:
        run = a_run("llama", None, tmp_path / "cache", SMALL, **settings)
        benchmark = run.round.benchmark("llama")
        row = replace(
            benchmark.training[Profile.SMOKE], max_epochs=2, train_samples=48, eval_samples=16
        )
        few = replace(benchmark, training={Profile.SMOKE: row})
        rounds = {**run.round.benchmarks, "llama": few}
        return replace(run, round=replace(run.round, benchmarks=rounds))

    return make


def take_steps(training: LlamaTraining, epoch: int, count: int, first: int = 0) -> list[int]:
    with closing(training.train_epoch(epoch, first)) as steps:
        return [*islice(steps, count)]


def weigh(training: LlamaTraining, folder: Path) -> dict[str, torch.Tensor]:
    """Take the weights by the way that users have."""
    folder.mkdir()
    training.export(folder)
    return dict(load_llama_checkpoint(folder).state_dict())


def test_sequences_follow_one_another_without_padding() -> None:
    documents = list(generate_documents(1, 4))
    token_ST = data.pack_documents(documents, 128)
    stream = [number for each in documents for number in encode_document(each)] + [BEGIN_ID]
    assert token_ST.shape == (2, 129) and token_ST.dtype == np.int32
    assert token_ST[0].tolist() == stream[:129] and token_ST[1].tolist() == stream[128:]
    assert token_ST[0, 63] == END_ID and token_ST[0, 64] == BEGIN_ID


@pytest.mark.parametrize(
    ("precision", "settings", "words", "micro_batch"),
    [
        (Precision.FP32, {"gradient_accumulation_steps": 1}, ("fp32", "fp32"), 8),
        (Precision.BF16, {"gradient_accumulation_steps": 4}, ("bfloat16", "fp32"), 2),
        (Precision.FP32, {"train__gradient_format": "fp16"}, ("fp32", "fp16"), None),
    ],
)
def test_a_log_discloses_precision_and_parallelism(
    make_run: MakeRun,
    precision: Precision,
    settings: dict[str, Any],
    words: tuple[str, str],
    micro_batch: int | None,
) -> None:
    """As MLPerf Training asks for from v6.1 on, in its words."""
    training = LlamaTraining(replace(make_run(**settings), precision=precision))
    facts = training.facts()
    computed, exchanged = words
    for part in ("linear", "attn"):
        assert facts[f"lowest_numerical_precision_in_{part}"] == computed
    assert facts["lowest_numerical_precision_in_comm"] == exchanged
    assert {
        facts[f"{each}_parallelism"] for each in ("tensor", "pipeline", "context", "expert")
    } == {1}
    assert micro_batch is None or facts["micro_batch_size"] == micro_batch
    assert (Path(__file__).parents[3] / str(facts["config_filename"])).is_file()


def test_the_rate_rises_linearly_and_falls_along_a_cosine(make_run: MakeRun) -> None:
    schedule = LlamaRecipe.build_from_settings(make_run().settings).build_schedule()
    assert schedule(0) == 0.0
    assert schedule(51) == pytest.approx(2.5e-3 / 4)
    assert schedule(204) == pytest.approx(2.5e-3)
    assert schedule(6144) == schedule(9999) == pytest.approx(2.5e-4)
    assert schedule(6143) > schedule(6144)
    middle = build_cosine_decay(1.0, 0.0, 0, 100)
    assert middle(50) == pytest.approx(0.5)
    assert middle(25) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_the_loss_is_the_mean_over_all_predicted_tokens(make_run: MakeRun) -> None:
    """In float64, token by token."""
    training = LlamaTraining(make_run())
    found = training.evaluate()["loss"]
    network: LlamaNetwork = training._model.double()
    tokens = training._sequences[1]
    total = 0.0
    for sequence in np.asarray(tokens, np.int64):
        logit_TV = network(torch.from_numpy(sequence[None, :-1]))[0]
        chosen = logit_TV.log_softmax(1)[range(64), sequence[1:]]
        total -= chosen.sum().item()
    assert found == pytest.approx(total / tokens[:, 1:].size, rel=1e-6)


def test_an_epoch_has_each_of_its_sequences_once(make_run: MakeRun) -> None:
    training = LlamaTraining(make_run())
    seen: list[tuple[int, ...]] = []
    load = training._load_batch

    def record(keys: Any, epoch: int) -> WeightedSequences:
        batch = load(keys, epoch)
        seen.extend(map(tuple, batch.token_BT.tolist()))
        return batch

    training._load_batch = record  # type: ignore[method-assign]
    assert take_steps(training, 2, 99) == [8] * 6
    assert sorted(seen) == sorted(map(tuple, training._sequences[0][48:].tolist()))


def test_a_rank_without_a_sequence_takes_part_with_weight_0(make_run: MakeRun) -> None:
    """The last step of an epoch may have fewer sequences than there are ranks."""
    ranks, left = 40, 12_288 % 40
    plans = [
        plan_epoch_steps(12_288, ranks, 1, 7, 1, rank, ranks)[-1].micro_batches
        for rank in range(ranks)
    ]
    idle = [keys for parts in plans for keys in parts if not any(key.weight > 0 for key in keys)]
    assert len(idle) == ranks - left
    training = LlamaTraining(make_run())
    keys = [replace(key, index=key.index % 48) for key in idle[-1]]
    loss = training._compute_summed_loss(training._load_batch(keys, 1))
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [each.grad for each in training._model.parameters()]
    assert loss.item() == 0.0
    assert all(each is not None and not each.any() for each in gradients)


def test_a_resumed_run_is_the_same_bit_for_bit(make_run: MakeRun, tmp_path: Path) -> None:
    whole, first = LlamaTraining(make_run()), LlamaTraining(make_run())
    take_steps(whole, 1, 6)
    take_steps(whole, 2, 2)
    take_steps(first, 1, 4)
    (tmp_path / "saved").mkdir()
    first.save(tmp_path / "saved")
    second = LlamaTraining(make_run())
    second.restore(tmp_path / "saved")
    take_steps(second, 1, 2, first=4)
    take_steps(second, 2, 2)
    one, other = weigh(whole, tmp_path / "one"), weigh(second, tmp_path / "other")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert whole.evaluate() == second.evaluate()


def test_accumulated_gradients_are_those_of_one_batch(make_run: MakeRun, tmp_path: Path) -> None:
    whole = LlamaTraining(make_run())
    parts = LlamaTraining(make_run(gradient_accumulation_steps=4))
    for training in (whole, parts):
        take_steps(training, 1, 3)
    one, other = weigh(whole, tmp_path / "one"), weigh(parts, tmp_path / "other")
    assert all(torch.allclose(one[name], other[name], atol=1e-6) for name in one)


def test_training_lowers_the_loss(make_run: MakeRun) -> None:
    training = LlamaTraining(make_run(opt_learning_rate_warmup_steps=2))
    before = training.evaluate()["loss"]
    take_steps(training, 1, 6)
    take_steps(training, 2, 6)
    assert training.evaluate()["loss"] < before - 0.2


def test_the_control_gives_articles_the_summaries_of_others(make_run: MakeRun) -> None:
    data_set = LlamaDataSet(make_run(data__shuffle_documents=True))
    plain = LlamaDataSet(make_run())
    shuffled_ST = data.read_sequences(data_set.root, data.TRAIN_SPLIT, 64)
    documents = shuffle_summaries(list(generate_documents(1, 96)), data.SHUFFLING_SEED)
    assert np.array_equal(shuffled_ST, data.pack_documents(documents, 64))
    survey, other = data_set.survey(), plain.survey()
    assert survey.sha256["train.npy"] != other.sha256["train.npy"]
    assert survey.sha256["validation.npy"] == other.sha256["validation.npy"]
    assert survey.samples == {"train": 48, "validation": 16}


def test_no_model_is_better_than_the_floor(make_run: MakeRun) -> None:
    """The target is above what the generator's own probabilities reach."""
    target = make_run().round.benchmark("llama").training[Profile.SMOKE].target["loss"]
    floor = compute_sample_floor(list(generate_documents(data.VALIDATION_SEED, 512)))
    assert floor < target < 1.04 * floor


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_sequence_length": 100}, "not a multiple of the 64 tokens"),
        ({"max_sequence_length": 1_048_576}, "at most 1,000,000 are generated"),
        ({"opt_adamw_beta_1": 1.0}, "opt_adamw_beta_1 1.0 is not below 1"),
        ({"opt_adamw_beta_2": 1.0}, "opt_adamw_beta_2 1.0 is not below 1"),
        ({"gradient_accumulation_steps": 3}, "not a multiple of gradient_accumulation_steps 3"),
        ({"model__heads": 3}, "no multiple"),
    ],
)
def test_settings_that_do_not_fit_are_refused(
    make_run: MakeRun, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        LlamaTraining(make_run(**settings))


def test_a_damaged_split_is_refused(make_run: MakeRun) -> None:
    root = LlamaDataSet(make_run()).root
    (root / "train.npy").write_bytes(b"not numpy")
    with pytest.raises(RequestError, match="cannot be read"):
        data.read_sequences(root, data.TRAIN_SPLIT, 64)
