"""Ranks of one attempt meet in a store that is full of earlier ones."""

import threading
from datetime import timedelta

import pytest
import torch.distributed

from suite.errors import TemporaryError
from suite.process.attempts import LaunchAttempt, wait_for_ranks

SIZE = 3


def all_meet(store: object, counts: tuple[int, ...]) -> list[LaunchAttempt]:
    """Let all ranks meet, each in a thread, each with what its own agent counted."""
    met: dict[int, LaunchAttempt] = {}
    threads = [
        threading.Thread(
            target=lambda rank=rank: met.update(
                {rank: wait_for_ranks(store, rank, SIZE, counts[rank], 10)}
            )
        )
        for rank in range(SIZE)
    ]
    for thread in reversed(threads):  # rank 0 comes last
        thread.start()
    for thread in threads:
        thread.join(20)
    return [met[rank] for rank in range(SIZE)]


def store() -> object:
    return torch.distributed.HashStore()  # type: ignore[attr-defined]


def test_ranks_whose_agents_count_differently_meet() -> None:
    """Only the agent of the rank that was lost counts a restart: the ranks of the other node waited
    for ever, and began a new set.
    """
    shared = store()
    first = all_meet(shared, (0, 0, 0))
    assert [attempt.restarts for attempt in first] == [0] * SIZE and len(
        {attempt.name for attempt in first}
    ) == 1
    second = all_meet(shared, (0, 1, 0))
    assert [attempt.restarts for attempt in second] == [1] * SIZE and {
        attempt.name for attempt in second
    }.isdisjoint(attempt.name for attempt in first)


def test_a_node_that_was_replaced_is_a_restart_though_every_agent_counts_none() -> None:
    """The new agent begins at 0, and the others do not count what their own ranks did not cause."""
    shared = store()
    all_meet(shared, (0, 0, 0))
    assert [attempt.restarts for attempt in all_meet(shared, (0, 0, 0))] == [1] * SIZE


def test_what_agents_count_holds_for_a_store_that_is_new() -> None:
    """With TORCH_DISABLE_SHARE_RDZV_TCP_STORE each attempt has a store of its own."""
    assert [attempt.restarts for attempt in all_meet(store(), (0, 0, 2))] == [2] * SIZE


@pytest.mark.parametrize("rank", [0, 1])
def test_words_of_ranks_that_are_gone_are_nobody(rank: int) -> None:
    """An earlier attempt's word must not pass for a rank of this one: it would never come to the
    first collective.
    """
    shared = store()
    all_meet(shared, (0, 0, 0))
    with pytest.raises(TemporaryError, match="did not meet"):
        wait_for_ranks(shared, rank, SIZE, 0, timedelta(seconds=0.3).total_seconds())
