"""How the ranks of one attempt meet in a store that outlives them.

torchrun's store stays when ranks are restarted, and holds what earlier attempts wrote. torchrun's
count of restarts does
not tell attempts apart: the agent of each node counts those alone that its own ranks caused
(torch/distributed/elastic/agent/server/api.py, `_invoke_run`), and one on a replaced node begins at
0. Here each rank
writes a word that nobody else knows, and rank 0 invites by these words: one left by an earlier
attempt is never taken up.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from suite.errors import TemporaryError

STORE_POLL_S: Final = 0.01
WORD_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchAttempt:
    """One start of all ranks."""

    name: str
    """Known to the ranks of this attempt alone."""
    restarts: int
    """How often the launcher has started these ranks before, as far as its store or any of its
    agents knows.
    """


def wait_for_ranks(
    store: Any, rank: int, world_size: int, restarts: int, limit_s: float
) -> LaunchAttempt:
    """Wait for all ranks of this attempt; TemporaryError if they do not come within `limit_s`
    seconds.

    `store` is a torch.distributed.Store (Any, since torch is imported late); `restarts` is what
    this rank's agent counts.
    """
    word = secrets.token_hex(WORD_BYTES)
    store.set(f"here/{rank}", f"{word} {restarts}")
    end = time.monotonic() + limit_s
    if rank == 0:
        return gather_ranks(store, word, world_size, restarts, end)
    return accept_invitation(store, word, rank, end)


def gather_ranks(
    store: Any, word: str, world_size: int, restarts: int, end: float
) -> LaunchAttempt:
    """Invite whoever says to be there until every rank has accepted; rank 0's word is the attempt's
    name.
    """
    known = [int(store.add("attempts", 1)) - 1, restarts]
    found: dict[int, str] = {}
    missing = set(range(1, world_size))

    def has_rank_accepted(rank: int) -> bool:
        if store.check([f"here/{rank}"]) and found.get(rank) != (
            said := store.get(f"here/{rank}").decode()
        ):
            store.set(f"invited/{said.split()[0]}", word)
            found[rank] = said
        return bool(store.check([f"accepted/{word}/{rank}"]))

    def is_complete() -> bool:
        missing.difference_update([rank for rank in missing if has_rank_accepted(rank)])
        return not missing

    wait_for_condition(is_complete, "some have not come", end)
    known += [int(said.split()[1]) for said in found.values()]
    store.set(f"all/{word}", str(max(known)))
    return LaunchAttempt(name=word, restarts=max(known))


def accept_invitation(store: Any, word: str, rank: int, end: float) -> LaunchAttempt:
    """Wait for rank 0's invitation, and for all others."""
    wait_for_condition(lambda: store.check([f"invited/{word}"]), "rank 0 has not come", end)
    name = store.get(f"invited/{word}").decode()
    store.set(f"accepted/{name}/{rank}", "1")
    wait_for_condition(lambda: store.check([f"all/{name}"]), "some have not come", end)
    return LaunchAttempt(name=name, restarts=int(store.get(f"all/{name}")))


def wait_for_condition(condition: Callable[[], bool], reason: str, end: float) -> None:
    """Wait for something to become true; TemporaryError with these words if it does not before
    `end`.
    """
    while not condition():
        if time.monotonic() > end:
            raise TemporaryError(f"the ranks did not meet: {reason}")
        time.sleep(STORE_POLL_S)
