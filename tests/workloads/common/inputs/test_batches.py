"""The samples of each step, over ranks and micro-batches: functions of (seed, epoch) alone."""

import pickle

import numpy as np
import pytest

from suite.errors import RequestError
from workloads.common.inputs import batches


def test_an_epoch_shows_each_picture_once() -> None:
    """None left out, none twice, over all ranks, with an uneven last batch."""
    plans = [batches.plan_epoch_steps(107, 16, 4, 1, 3, rank, 2) for rank in range(2)]
    real = [
        key.index
        for plan in plans
        for step in plan
        for part in step.micro_batches
        for key in part
        if key.weight
    ]
    assert sorted(real) == list(range(107))
    assert [step.samples for step in plans[0]] == [16] * 6 + [11]


@pytest.mark.parametrize("count", [32, 33, 34, 35, 47])
def test_ranks_have_equally_many_batches(count: int) -> None:
    """A rank with one batch less would leave the others waiting for its gradients for ever."""
    shapes = [
        [len(step.micro_batches) for step in batches.plan_epoch_steps(count, 16, 4, 1, 1, rank, 3)]
        for rank in range(3)
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_ranks_share_what_one_process_accumulates() -> None:
    """Micro-batch i of one process is micro-batch i // ranks of rank i % ranks."""
    alone = batches.plan_epoch_steps(48, 16, 4, 1, 1, 0, 1)
    ranks = [batches.plan_epoch_steps(48, 16, 4, 1, 1, rank, 2) for rank in range(2)]
    for number, step in enumerate(alone):
        interleaved = [ranks[i % 2][number].micro_batches[i // 2] for i in range(4)]
        assert list(step.micro_batches) == interleaved


def test_small_rests_are_filled_with_weightless_pictures() -> None:
    """Batch-norm cannot take one picture, and a rank without any could not join the others."""
    plans = [batches.plan_epoch_steps(17, 16, 4, 1, 1, rank, 2)[-1] for rank in range(2)]
    assert [sum(key.weight for part in step.micro_batches for key in part) for step in plans] == [
        1,
        0,
    ]
    assert all(len(part) == 2 for step in plans for part in step.micro_batches)


def test_micro_batches_are_no_larger_than_the_span() -> None:
    """The logged span is what batch-norm sees."""
    parts = [
        part
        for step in batches.plan_epoch_steps(1000, 96, 12, 1, 1, 1, 2)
        for part in step.micro_batches
    ]
    assert max(len(part) for part in parts) == 12


def test_orders_differ_by_epoch_and_seed() -> None:
    """And are the same again when asked again."""
    assert not np.array_equal(
        batches.generate_epoch_order(50, 1, 1), batches.generate_epoch_order(50, 1, 2)
    )
    assert not np.array_equal(
        batches.generate_epoch_order(50, 1, 1), batches.generate_epoch_order(50, 2, 1)
    )
    assert np.array_equal(
        batches.generate_epoch_order(50, 1, 1), batches.generate_epoch_order(50, 1, 1)
    )


def test_global_batches_that_somebody_else_made_are_shared_the_same_way() -> None:
    """A workload with an order of its own (pictures grouped by their shape) has the same ranks and
    micro-batches.
    """
    own = batches.split_into_global_batches(batches.generate_epoch_order(48, 1, 1), 16)
    assert batches.plan_rank_steps(own, 4, 1, 0, 2) == batches.plan_epoch_steps(
        48, 16, 4, 1, 1, 0, 2
    )


def test_an_evaluation_asks_for_each_picture_once() -> None:
    """Over all ranks; one asked twice would count twice."""
    plans = [batches.plan_evaluation_batches(11, 4, rank, 3) for rank in range(3)]
    assert sorted(key.index for plan in plans for part in plan for key in part) == list(range(11))
    assert max(len(part) for plan in plans for part in plan) == 4


def test_augmentation_has_a_generator_for_each_sample_of_each_epoch() -> None:
    """The same crop in every epoch would be no augmentation; another one after a resume would be
    another run.
    """
    draws = {
        batches.SampleKey(index=index, epoch=epoch).create_generator(seed).random()
        for index in (1, 2)
        for epoch in (1, 2)
        for seed in (1, 2)
    }
    assert len(draws) == 8
    assert (
        batches.SampleKey(index=1, epoch=2).create_generator(3).random()
        == batches.SampleKey(index=1, epoch=2, weight=0.0).create_generator(3).random()
    )


@pytest.mark.parametrize(
    ("batch", "span", "ranks", "advised"), [(32, 32, 2, 16), (8, 3, 1, 8), (9, 4, 3, 3)]
)
def test_batches_that_ranks_cannot_share_are_refused(
    batch: int, span: int, ranks: int, advised: int
) -> None:
    """The log names model_bn_span; a rank that silently took another would make the log wrong."""
    with pytest.raises(RequestError, match=f"model_bn_span={advised} "):
        batches.check_micro_batch_span(batch, span, ranks)


def test_every_rank_has_equally_many_batches_where_it_must() -> None:
    """The ranks of a sharded network gather weights together: one batch fewer, and all wait for
    ever.
    """
    plans = [batches.plan_even_evaluation_batches(9, 4, rank, 2) for rank in range(2)]
    assert [len(plan) for plan in plans] == [2, 2]
    keys = [key for plan in plans for batch in plan for key in batch]
    assert sorted(key.index for key in keys if key.weight > 0) == list(range(9))
    assert [key.weight for key in plans[1][1]] == [0.0]
    few = [batches.plan_even_evaluation_batches(1, 4, rank, 3) for rank in range(3)]
    assert [[len(batch) for batch in plan] for plan in few] == [[1], [1], [1]]


@pytest.mark.parametrize(("count", "ranks"), [(107, 1), (107, 2), (33, 3), (17, 2)])
def test_planned_keys_are_those_that_single_keys_spell_out(count: int, ranks: int) -> None:
    """The plan keeps arrays; the keys read from it are the samples of each micro-batch in order,
    and behind them the fillings without weight.
    """
    order = batches.generate_epoch_order(count, 5, 2)
    for rank in range(ranks):
        plan = batches.plan_epoch_steps(count, 16, 4, 5, 2, rank, ranks)
        for batch, step in zip(batches.split_into_global_batches(order, 16), plan, strict=True):
            parts = batches.select_rank_micro_batches(batch, 4, rank, ranks)
            for part, planned in zip(parts, step.micro_batches, strict=True):
                filling = np.resize(batch, max(0, 2 - len(part)))
                spelt = [batches.SampleKey(index=int(index), epoch=2) for index in part]
                spelt += [
                    batches.SampleKey(index=int(index), epoch=2, weight=0.0) for index in filling
                ]
                assert list(planned) == spelt
                assert [planned[place] for place in range(len(planned))] == spelt
                assert planned[1:] == spelt[1:]
                assert all(type(key.index) is int for key in planned)


def test_a_planned_micro_batch_is_sent_without_the_rest_of_its_epoch() -> None:
    """Worker processes get each batch by a pipe."""
    planned = batches.plan_epoch_steps(100_000, 256, 16, 1, 1, 0, 1)[0].micro_batches[0]
    sent = pickle.dumps(planned)
    assert pickle.loads(sent) == planned and len(sent) < 1_000
