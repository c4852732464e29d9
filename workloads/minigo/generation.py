"""Groups of games as pieces of work, in this process or in others: each a function of (seed,
generation, group) and the weights alone.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final, TypeVar

import numpy as np
import torch

from suite.errors import TemporaryError
from suite.process.signals import outlive
from suite.terms import Precision
from workloads.common.optimisation import mixed_precision
from workloads.minigo.go.area import Area, PassLast
from workloads.minigo.go.board import Array, geometry
from workloads.minigo.go.ending import Rules
from workloads.minigo.go.games import Examples, Habits, Match, Player, SelfPlay, match
from workloads.minigo.go.search import Evaluator
from workloads.minigo.model import Description, MiniGo
from workloads.minigo.player import NetworkPlayer, Noise

T = TypeVar("T")

SELFPLAY, EVALUATION = 1, 2  # what a group's generator is drawn for
WATCH_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weights:
    """A network that goes to another process."""

    description: Description
    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, network: MiniGo) -> "Weights":
        """Copy a network's weights."""
        return cls(
            description=network.description,
            arrays={
                name: tensor.detach().cpu().numpy().copy()
                for name, tensor in network.state_dict().items()
            },
        )

    def player(self, device: str) -> NetworkPlayer:
        """Make the player."""
        network = MiniGo(self.description)
        network.load_state_dict(
            {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        )
        return NetworkPlayer(network.eval(), device)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Games:
    """What all groups of a generation share."""

    seed: int
    generation: int
    board: int
    rules: Rules
    planes: int
    count: int
    """Games of a group."""
    weights: Weights | None
    """None: a model of noise."""
    habits: Habits
    device: str
    opponent: Weights | None = None
    pass_last: bool = False
    """Networks fill no simple eyes, and pass where nothing else is left."""
    against: Habits | None = None
    """How the opponent plays; None: the network plays against itself. Without weights, the opponent
    is the search without a network.
    """

    def player(self) -> Evaluator:
        """Make who plays."""
        return self.bound(
            self.weights.player(self.device)
            if self.weights
            else Noise(geometry(self.board).actions)
        )

    def bound(self, player: Evaluator) -> Evaluator:
        """Hold a player to what is played."""
        return PassLast(geometry(self.board), player) if self.pass_last else player

    def rng(self, group: int, purpose: int) -> np.random.Generator:
        """Seed a group."""
        return np.random.default_rng([self.seed, self.generation, group, purpose])


def selfplay(games: Games, group: int) -> Examples:
    """Play a group of games of a network against itself."""
    with one_thread():
        made = SelfPlay(
            geometry(games.board),
            games.rules,
            games.player(),
            games.habits,
            games.planes,
            games.rng(group, SELFPLAY),
            games.count,
        )
        return made.play()


def evaluation(games: Games, group: int) -> Match:
    """Play a group of games against the fixed opponent."""
    shape, against = geometry(games.board), games.against or games.habits
    with one_thread():
        opponent = (
            games.bound(games.opponent.player(games.device))
            if games.opponent
            else Area(shape, games.rules.komi)
        )
        players = (
            Player(evaluate=games.player(), habits=games.habits),
            Player(evaluate=opponent, habits=against),
        )
        return match(
            shape, games.rules, *players, games.planes, games.rng(group, EVALUATION), games.count
        )


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: sums do not hang on how many there are, and processes share the
    cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def played(future: Future[T]) -> T:
    """Wait for a group of games; TemporaryError if its process is gone, which is not the run's
    fault: out of memory, or a kill by hand.
    """
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise TemporaryError("a process that plays games was killed") from error


class Workers:
    """Processes that play; none of them: this one plays."""

    def __init__(self, count: int, device: str, precision: Precision) -> None:
        self._pool = (
            ProcessPoolExecutor(
                count, get_context("spawn"), _begin, (os.getpid(), device, precision)
            )
            if count
            else None
        )

    def selfplay(self, games: Games, groups: Sequence[int]) -> Iterator[Examples]:
        """Play groups, in their order; those that nobody waits for any more are dropped."""
        if self._pool is None:
            yield from (selfplay(games, group) for group in groups)
            return
        futures: list[Future[Examples]] = [
            self._pool.submit(selfplay, games, group) for group in groups
        ]
        try:
            yield from map(played, futures)
        finally:
            for future in futures:
                future.cancel()

    def evaluation(self, games: Games, groups: Sequence[int]) -> list[Match]:
        """Play groups against the opponent."""
        if self._pool is None:
            return [evaluation(games, group) for group in groups]
        futures = [self._pool.submit(evaluation, games, group) for group in groups]
        try:
            return [played(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()


def _begin(parent: int, device: str, precision: Precision) -> None:
    """Set a worker up: signals are the parent's, taken between groups of games; a worker whose
    parent is gone ends, however that was killed.
    """
    mixed_precision.prepare(
        device, precision
    )  # cuDNN would use TF32 here and not in the parent, and games would hang on who plays them
    # a signal to the whole process group would otherwise break the parent's generation before it is
    # saved
    outlive()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_EVERY_S)
    os._exit(1)
