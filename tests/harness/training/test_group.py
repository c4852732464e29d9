"""How the ranks of a group ask their store: one that waits does not load the process that holds
it.
"""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness import distributed
from harness.distributed import RankGroup


class SlowStore:
    """A store in which the value of rank 0 appears after some time; its clock is the sum of all
    pauses.
    """

    def __init__(self, after_s: float) -> None:
        self.after_s, self.now_s, self.asked = after_s, 0.0, 0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def check(self, keys: list[str]) -> bool:
        self.asked += 1
        return keys != [distributed.FAILURE_KEY] and self.now_s >= self.after_s

    def get(self, _: str) -> str:
        return '"there"'


def shared(monkeypatch: pytest.MonkeyPatch, store: Any, world_size: int) -> Any:
    monkeypatch.setattr(
        distributed, "time", SimpleNamespace(sleep=store.sleep, monotonic=time.monotonic)
    )
    return RankGroup(store, 1, 1, world_size).share_value(None)


def test_a_rank_that_waits_asks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred times a second, each time for the value and for a failure; a thousand times load
    the process that holds the store.
    """
    store = SlowStore(after_s=60.0)
    assert shared(monkeypatch, store, 2) == "there"
    assert 2 * 60 / distributed.WATCH_INTERVAL_S <= store.asked < 2 * 60 * 110


def test_a_rank_that_waits_for_a_moment_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pauses are short: the clock of a run ticks meanwhile."""
    store = SlowStore(after_s=0.003)
    assert shared(monkeypatch, store, 8) == "there"
    assert store.now_s <= 0.008
