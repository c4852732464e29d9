"""Batches of like length: whole, in an order that seed and epoch decide, dealt out to ranks."""

import numpy as np
import pytest

from workloads.common.inputs.batches import ORDER_STREAM, plan_rank_steps
from workloads.common.text.bucketing import (
    BATCH_ORDER_STREAM,
    compute_even_bounds,
    compute_growing_bounds,
    pad_sentences,
    plan_bucketed_batches,
)

LENGTHS = np.random.default_rng(1).integers(1, 41, 1000)
BOUNDS = (10, 20, 30, 40)


def eight(bound: int) -> int:
    return 8


def flat(seed: int, epoch: int) -> list[list[int]]:
    return [batch.tolist() for batch in plan_bucketed_batches(LENGTHS, BOUNDS, eight, seed, epoch)]


def test_every_sentence_once() -> None:
    """A sentence left out or trained twice would make another epoch."""
    assert sorted(sum(flat(1, 1), [])) == list(range(1000))


def test_the_plan_is_that_of_each_bucket_s_members() -> None:
    """Bucket by bucket in the epoch's order, then the batches in an order of their own: a plan that
    changed would make a resumed run another one.
    """
    shuffled = np.random.default_rng([4, 2, ORDER_STREAM]).permutation(len(LENGTHS))
    low, planned = 0, []
    for bound in BOUNDS:
        members = [index for index in shuffled if low < LENGTHS[index] <= bound]
        planned += [members[start : start + 8] for start in range(0, len(members), 8)]
        low = bound
    order = np.random.default_rng([4, 2, BATCH_ORDER_STREAM]).permutation(len(planned))
    assert flat(4, 2) == [planned[index] for index in order]


def test_batches_are_of_one_bucket_and_of_its_size() -> None:
    """Padding would cost the rest; `size` is asked per bucket, for batches by tokens."""
    found = plan_bucketed_batches(LENGTHS, BOUNDS, lambda bound: 120 // bound, 1, 1)
    for batch in found:
        bucket = np.searchsorted(BOUNDS, LENGTHS[batch])
        assert len(set(bucket.tolist())) == 1 and len(batch) <= 120 // BOUNDS[bucket[0]]
    assert sum(len(batch) < 3 for batch in found) <= len(BOUNDS)  # one rest a bucket, at most


def test_order_follows_from_seed_and_epoch() -> None:
    """A resumed run takes the same batches again; another epoch or seed takes others."""
    assert flat(1, 1) == flat(1, 1)
    assert flat(1, 1) != flat(1, 2) != flat(2, 2)
    assert len(flat(1, 1)) == len(flat(1, 2)) == len(flat(2, 2))


def test_batches_come_in_mixed_lengths() -> None:
    """All short ones first would teach short sentences first."""
    means = [float(LENGTHS[batch].mean()) for batch in flat(1, 1)]
    assert np.corrcoef(means, range(len(means)))[0, 1] < 0.2


@pytest.mark.parametrize("ranks", [2, 3, 16])
def test_ranks_share_each_batch(ranks: int) -> None:
    """The same steps on every rank, together the global batch; what fills up a rank's share has
    weight 0.
    """
    whole = plan_bucketed_batches(LENGTHS, BOUNDS, eight, 3, 2)
    shares = [plan_rank_steps(whole, len(LENGTHS), 2, rank, ranks) for rank in range(ranks)]
    for number, batch in enumerate(whole):
        parts = [share[number].micro_batches for share in shares]
        assert all(len(part) == 1 and part[0] for part in parts)
        assert sorted(key.index for part in parts for key in part[0] if key.weight) == sorted(
            batch.tolist()
        )


def test_a_sentence_that_fits_no_bucket_is_an_error() -> None:
    """Dropping it here would train on fewer sentences than are logged."""
    with pytest.raises(ValueError, match="41 tokens is longer than the last bucket, 40"):
        plan_bucketed_batches(np.array([3, 41]), BOUNDS, eight, 1, 1)


def test_no_sentences_are_no_batches() -> None:
    assert plan_bucketed_batches(np.array([], dtype=np.int64), BOUNDS, eight, 1, 1) == []


def test_bounds() -> None:
    """Five even ones to 50 (GNMT); from 8 on by a tenth, at least by one (Transformer)."""
    assert compute_even_bounds(50, 5) == (10, 20, 30, 40, 50)
    assert compute_even_bounds(7, 5) == (2, 4, 6, 7, 7)
    found = compute_growing_bounds(256, 8, 1.1)
    assert found[:6] == (8, 9, 10, 11, 12, 13) and found[-1] == 256
    assert all(low < high for low, high in zip(found, found[1:], strict=False))
    assert compute_growing_bounds(8, 8, 1.1) == (8,)


def test_padding_stands_at_the_end() -> None:
    block = pad_sentences([np.array([5, 6], dtype=np.int32), np.array([7], dtype=np.int32)], 0)
    assert block.tolist() == [[5, 6], [7, 0]]
    assert pad_sentences([], 0).shape == (0, 0)
