"""The ranks of a distributed run: this process alone, or those that torchrun started.

The harness exchanges scores, stop decisions and barriers through the launcher's key-value store,
not through the process group: they need no tensors and no device, and they end when another rank
has failed. A rank that raises reports it in the store; ranks blocked in a collective are then ended
after a grace time, so none hangs. A rank that disappears without a report (kill -9, a lost node)
shows as a failed collective, or as a pulse that stops: then the run itself is sound, and it can
resume from its last checkpoint.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar, cast

from suite.errors import JudgedError, TemporaryError
from suite.process.attempts import wait_for_ranks
from suite.process.launcher import read_launcher_variable

T = TypeVar("T")

FIRST_POLL_S: Final = 0.001
"""First pause between two questions to the store ..."""
LONGEST_POLL_S: Final = 0.01
"""... which doubles up to this one: ranks that wait for a slow one leave the store alone, and lose
no time that a clock would show.
"""
WATCH_INTERVAL_S: Final = 0.5
FAILURE_GRACE_S: Final = 10.0
"""Grace time for a rank blocked in a collective after another rank has failed."""
COLLECTIVE_TIMEOUT: Final = timedelta(minutes=30)
"""Timeout of a collective: an evaluation on one rank may keep the others waiting this long."""
MAX_REPORT_WAIT_S: Final = 5.0
"""After a collective failed, how long to wait for a rank's report; a rank that raised reports
before its connections close.
"""
MAX_PULSE_SILENCE_S: Final = 600.0
"""A rank whose watch thread was silent this long is lost: a stopped process, a machine without a
network.

Scoring in C may block that thread for minutes."""
FAILURE_KEY: Final = "failed"
COLLECTIVE_BACKENDS: Final = ("gloo", "nccl")
"""Found in the text of a RuntimeError from a collective; gloo's errors have no type of their
own.
"""


class RankFailed(JudgedError):
    """Another rank raised; the text names the rank and the error."""


class RankLost(TemporaryError):
    """Another rank disappeared without a report; the text says how that was detected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """Why a rank cannot continue."""

    sentence: str
    lost: bool
    """A rank was lost; otherwise it raised."""

    def build_error(self) -> RankFailed | RankLost:
        """Build the exception for the other ranks."""
        if self.lost:
            return RankLost(self.sentence)
        return RankFailed(self.sentence)


class Ranks(Protocol):
    """Rank, size and the harness's exchanges between ranks."""

    rank: int
    local_rank: int
    world_size: int
    restarts: int
    """How often the launcher has started these ranks before, after one was lost
    (--max-restarts).
    """

    @property
    def leads(self) -> bool:
        """Return whether this is rank 0, which writes the log and decides."""

    def share_value(self, value: T) -> T:
        """Return rank 0's value (JSON types) on every rank; all ranks call it in the same order."""

    def wait_for_ranks(self) -> None:
        """Wait for all ranks."""

    def report_failure(self, sentence: str, *, lost: bool = False) -> None:
        """Report to the other ranks that this one cannot continue: it raised, or a peer is lost."""

    def find_failure(self) -> RankFailure | None:
        """Return which other rank failed and why, if one did."""

    def find_cause(self, error: BaseException) -> RankFailure | None:
        """Return the other rank's failure that caused this rank's exception, if any."""


class SingleRank:
    """A run of one process."""

    rank, local_rank, world_size = 0, 0, 1
    leads = True

    def __init__(self, restarts: int = 0) -> None:
        """Act as the only rank."""
        self.restarts = restarts

    def share_value(self, value: T) -> T:
        """Return the value."""
        return value

    def wait_for_ranks(self) -> None:
        """Return."""

    def report_failure(self, sentence: str, *, lost: bool = False) -> None:
        """Do nothing: there are no other ranks."""

    def find_failure(self) -> RankFailure | None:
        """Return None: there are no other ranks."""
        return None

    def find_cause(self, error: BaseException) -> RankFailure | None:
        """Return None: there are no other ranks."""
        return None


class RankGroup:
    """Several processes that share a store (a torch.distributed.Store; Any, since torch is imported
    late).
    """

    def __init__(
        self, store: Any, rank: int, local_rank: int, world_size: int, restarts: int = 0
    ) -> None:
        """Join the store as this rank."""
        self.rank, self.local_rank, self.world_size, self.restarts = (
            rank,
            local_rank,
            world_size,
            restarts,
        )
        self._store = store
        self._count = 0

    @property
    def leads(self) -> bool:
        """Return whether this is rank 0."""
        return self.rank == 0

    def share_value(self, value: T) -> T:
        """Return rank 0's value on every rank."""
        self._count += 1
        key = f"share/{self._count}"
        if self.leads:
            if failure := self.find_failure():
                raise failure.build_error()
            self._query_store(lambda: self._store.set(key, json.dumps(value)) is None)
            return value
        self._wait_until(lambda: self._store.check([key]))
        return cast(T, json.loads(self._store.get(key)))

    def wait_for_ranks(self) -> None:
        """Wait for all ranks."""
        self._count += 1
        key = f"wait/{self._count}"
        self._query_store(lambda: bool(self._store.add(key, 1)))
        self._wait_until(lambda: self._store.add(key, 0) >= self.world_size)

    def report_failure(self, sentence: str, *, lost: bool = False) -> None:
        """Report to the other ranks; the first failure is the one named."""
        # the store was lost with the process that held it: there is nobody left to tell
        with suppress(Exception):
            self._store.compare_set(FAILURE_KEY, "", json.dumps([self.rank, sentence, lost]))

    def find_failure(self) -> RankFailure | None:
        """Return which other rank failed, or was lost, and why; a store that does not answer was
        lost with a rank.
        """
        try:
            if not self._store.check([FAILURE_KEY]):
                return None
            rank, sentence, lost = json.loads(self._store.get(FAILURE_KEY))
        except (
            Exception
        ) as error:  # torch raises DistNetworkError, DistStoreError and plain RuntimeError
            return RankFailure(sentence=f"the launcher's store is gone ({error})", lost=True)
        if rank == self.rank and not lost:
            return None
        return RankFailure(sentence=sentence if lost else f"rank {rank}: {sentence}", lost=lost)

    def find_cause(self, error: BaseException) -> RankFailure | None:
        """Wait for a report of the rank that raised; a collective that fails without a report means
        a lost rank.
        """
        if not is_collective_error(error):
            return self.find_failure()
        end = time.monotonic() + MAX_REPORT_WAIT_S
        while (failure := self.find_failure()) is None and time.monotonic() < end:
            time.sleep(FIRST_POLL_S)
        return failure or RankFailure(
            sentence=(
                "another rank is gone: a collective failed and no rank said why"
                f" ({' '.join(str(error).split())})"
            ),
            lost=True,
        )

    def send_heartbeat(self) -> None:
        """Send this rank's heartbeat."""
        self._store.add(f"pulse/{self.rank}", 1)

    def count_heartbeats(self) -> int:
        """Count the heartbeats of the next rank; each rank watches one other."""
        return int(self._store.add(f"pulse/{self._next}", 0))

    @property
    def _next(self) -> int:
        return (self.rank + 1) % self.world_size

    def _wait_until(self, done: Callable[[], bool]) -> None:
        pause_s = FIRST_POLL_S
        while not self._query_store(done):
            if failure := self.find_failure():
                raise failure.build_error()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_POLL_S)

    def _query_store(self, done: Callable[[], bool]) -> bool:
        try:
            return done()
        except Exception as error:
            raise (
                self.find_cause(error)
                or RankFailure(sentence=f"the launcher's store is gone ({error})", lost=True)
            ).build_error() from error


def is_collective_error(error: BaseException) -> bool:
    """Check whether an exception is of a kind that a lost peer causes."""
    import torch.distributed  # already imported when there are several ranks

    return isinstance(error, torch.distributed.DistError) or (
        isinstance(error, RuntimeError)
        and any(name in str(error).casefold() for name in COLLECTIVE_BACKENDS)
    )


class RankWatch:
    """A thread that sends this rank's heartbeat, and ends the process if another rank failed while
    this one is blocked in a collective.
    """

    def __init__(self, ranks: RankGroup) -> None:
        """Start watching."""
        self.last_words: Callable[[RankFailure], None] = lambda _: None
        """Called with the failure before the process ends: rank 0 finishes its log there if the run
        is over.
        """
        self._ranks, self._over = ranks, threading.Event()
        self._heard, self._heard_s = 0, time.monotonic()
        self._thread = threading.Thread(target=self._watch_ranks, name="ranks", daemon=True)
        self._thread.start()

    def _watch_ranks(self) -> None:
        while not self._over.wait(WATCH_INTERVAL_S):
            if failure := self._ranks.find_failure() or self._find_silent_rank():
                break
        else:
            return
        if not self._over.wait(FAILURE_GRACE_S):
            self.last_words(failure)
            os._exit(failure.build_error().exit_code)

    def _find_silent_rank(self) -> RankFailure | None:
        """Return a failure if the next rank's pulse has stopped."""
        with suppress(Exception):  # `failure` reports it in the next round
            self._ranks.send_heartbeat()
            if (heartbeats := self._ranks.count_heartbeats()) != self._heard:
                self._heard, self._heard_s = heartbeats, time.monotonic()
        if time.monotonic() - self._heard_s < MAX_PULSE_SILENCE_S:
            return None
        failure = RankFailure(
            sentence=(
                f"rank {(self._ranks.rank + 1) % self._ranks.world_size} is gone: not heard of for"
                f" {MAX_PULSE_SILENCE_S:.0f} s"
            ),
            lost=True,
        )
        self._ranks.report_failure(failure.sentence, lost=True)
        return failure

    def stop_watching(self) -> None:
        """Stop watching."""
        self._over.set()
        self._thread.join()


@contextmanager
def join_launched_ranks(device: str) -> Iterator[tuple[Ranks, RankWatch | None]]:
    """Join the ranks that torchrun started, with this rank's device; without torchrun, this process
    alone. RequestError if its variables are invalid.
    """
    world_size, counted = (
        read_launcher_variable("WORLD_SIZE", 1),
        read_launcher_variable("TORCHELASTIC_RESTART_COUNT", 0),
    )
    if world_size == 1:
        yield SingleRank(counted), None
        return
    import torch.distributed

    dist: Any = torch.distributed  # its stores are exported, but missing from its type information

    rank, local_rank = read_launcher_variable("RANK"), read_launcher_variable("LOCAL_RANK")
    shared, _, _ = next(
        iter(dist.rendezvous("env://", rank, world_size, timeout=COLLECTIVE_TIMEOUT))
    )
    attempt = wait_for_ranks(
        dist.PrefixStore("podium", shared),
        rank,
        world_size,
        counted,
        COLLECTIVE_TIMEOUT.total_seconds(),
    )
    # torchrun's store outlives its ranks: ignore what an earlier attempt wrote
    store = dist.PrefixStore(attempt.name, shared)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)  # NCCL uses the current device for its collectives
    backend = "nccl" if device.startswith("cuda") else "gloo"
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("collectives", store),
        rank=rank,
        world_size=world_size,
        timeout=COLLECTIVE_TIMEOUT,
    )
    ranks = RankGroup(
        dist.PrefixStore("podium", store), rank, local_rank, world_size, attempt.restarts
    )
    watch = RankWatch(ranks)
    try:
        yield ranks, watch
        ranks.wait_for_ranks()
        dist.destroy_process_group()  # skipped after an error: it could wait for the failed rank
    finally:
        watch.stop_watching()
