"""The ranks of one run: this process alone, or those that torchrun started.

The harness' own agreements (a score, a decision to stop, a barrier) go through the launcher's key-value store, not
through the process group: they need no tensors and no device, and they end when another rank has failed. A rank that
raises says so in the store; whoever is blocked in a collective then is ended after a grace time, so none hangs.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar, cast

from harness.device import resolve
from suite import reading
from suite.errors import JudgedError, RequestError

T = TypeVar("T")

POLL_S: Final = 0.001
WATCH_S: Final = 0.5
GRACE_S: Final = 10.0
"""How long a rank that is blocked in a collective may take to come out of it once another has failed."""
COLLECTIVE_LIMIT: Final = timedelta(minutes=30)
"""An evaluation on one rank may keep the others waiting this long."""
FAILED: Final = "failed"


class RankFailed(JudgedError):
    """Another rank raised; the text says which and what."""


class Ranks(Protocol):
    """Rank, size and the agreements of the harness."""

    rank: int
    local_rank: int
    world_size: int

    @property
    def leads(self) -> bool:
        """Tell whether this is rank 0, which keeps the log and decides."""

    def share(self, value: T) -> T:
        """Give every rank rank 0's value (JSON types); all ranks call it in the same order."""

    def wait(self) -> None:
        """Wait for all ranks."""

    def fail(self, sentence: str) -> None:
        """Tell the others that this rank cannot go on."""

    def failure(self) -> str | None:
        """Say which rank failed and why, where another did."""


class Alone:
    """One process."""

    rank, local_rank, world_size = 0, 0, 1
    leads = True

    def share(self, value: T) -> T:
        """Return the value."""
        return value

    def wait(self) -> None:
        """Return."""

    def fail(self, sentence: str) -> None:
        """Nobody to tell."""

    def failure(self) -> str | None:
        """Nobody else."""
        return None


class Group:
    """Several processes that meet in a store (a torch.distributed.Store; Any, since torch is loaded late)."""

    def __init__(self, store: Any, rank: int, local_rank: int, world_size: int) -> None:
        """Name the store and this process' place."""
        self.rank, self.local_rank, self.world_size = rank, local_rank, world_size
        self._store = store
        self._count = 0

    @property
    def leads(self) -> bool:
        """Tell whether this is rank 0."""
        return self.rank == 0

    def share(self, value: T) -> T:
        """Give every rank rank 0's value."""
        self._count += 1
        key = f"share/{self._count}"
        if self.leads:
            self._raise_failure()
            self._store.set(key, json.dumps(value))
            return value
        self._until(lambda: self._store.check([key]))
        return cast(T, json.loads(self._store.get(key)))

    def wait(self) -> None:
        """Wait for all ranks."""
        self._count += 1
        key = f"wait/{self._count}"
        self._store.add(key, 1)
        self._until(lambda: self._store.add(key, 0) >= self.world_size)

    def fail(self, sentence: str) -> None:
        """Tell the others; the first to fail is the one that is named."""
        self._store.compare_set(FAILED, "", json.dumps([self.rank, sentence]))

    def failure(self) -> str | None:
        """Say which other rank failed and why."""
        if not self._store.check([FAILED]):
            return None
        rank, sentence = json.loads(self._store.get(FAILED))
        return None if rank == self.rank else f"rank {rank}: {sentence}"

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._raise_failure()
            time.sleep(POLL_S)

    def _raise_failure(self) -> None:
        if sentence := self.failure():
            raise RankFailed(sentence)


class Watch:
    """A thread that ends this process where another rank failed and this one stays blocked in a collective."""

    def __init__(self, ranks: Ranks) -> None:
        """Begin to watch."""
        self.last_words: Callable[[str], None] = lambda _: None
        """Called before the end with the failed rank's sentence: rank 0 finishes its log there."""
        self._ranks, self._over = ranks, threading.Event()
        self._thread = threading.Thread(target=self._run, name="ranks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(WATCH_S):
            try:
                sentence = self._ranks.failure()
            except Exception as error:  # the store went with the process that held it
                sentence = f"the launcher's store is gone ({error})"
            if sentence:
                break
        else:
            return
        if not self._over.wait(GRACE_S):
            self.last_words(sentence)
            os._exit(1)

    def end(self) -> None:
        """Stop watching."""
        self._over.set()
        self._thread.join()


@contextmanager
def launched(device: str) -> Iterator[tuple[Ranks, Watch | None]]:
    """Join the ranks that torchrun started; without torchrun, this process alone. RequestError where its variables are wrong."""
    world_size = whole_number("WORLD_SIZE", 1)
    if world_size == 1:
        yield Alone(), None
        return
    import torch.distributed

    dist: Any = torch.distributed  # its stores are exported for users, but not in its type information

    rank, local_rank = whole_number("RANK"), whole_number("LOCAL_RANK")
    store, _, _ = next(iter(dist.rendezvous("env://", rank, world_size, timeout=COLLECTIVE_LIMIT)))
    own = resolve(device, local_rank)
    if own.startswith("cuda"):
        torch.cuda.set_device(own)  # NCCL takes the current device for its collectives
    backend = "nccl" if own.startswith("cuda") else "gloo"
    dist.init_process_group(backend, store=dist.PrefixStore("collectives", store), rank=rank, world_size=world_size, timeout=COLLECTIVE_LIMIT)
    ranks = Group(dist.PrefixStore("podium", store), rank, local_rank, world_size)
    watch = Watch(ranks)
    try:
        yield ranks, watch
        ranks.wait()
        dist.destroy_process_group()  # left alone after an error: it could wait for the rank that failed
    finally:
        watch.end()


def whole_number(variable: str, default: int | None = None) -> int:
    """Read one of torchrun's variables."""
    text = os.environ.get(variable, "" if default is None else str(default))
    number = reading.whole_number(text)
    if number is None:
        raise RequestError(f"environment: {variable}={text!r} is no whole number; start several ranks by torchrun")
    return number
