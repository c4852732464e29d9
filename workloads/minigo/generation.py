"""Plays groups of games, in this process or in others. Each group is a function of (seed,
generation, group) and the weights only.
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
from suite.process.signals import defer_worker_end
from suite.terms import Precision
from workloads.common.optimisation import mixed_precision
from workloads.minigo.go.area import AreaEvaluator, PassLastEvaluator
from workloads.minigo.go.board import Array, build_board_geometry
from workloads.minigo.go.ending import GameRules
from workloads.minigo.go.games import (
    MatchPlayer,
    PlayedMatch,
    PlayerSettings,
    SelfPlayExamples,
    SelfPlayGroup,
    play_match,
)
from workloads.minigo.go.search import Evaluator
from workloads.minigo.model import MiniGoDescription, MiniGoNetwork
from workloads.minigo.player import NetworkPlayer, NoiseEvaluator

T = TypeVar("T")

SELFPLAY_STREAM, EVALUATION_STREAM = 1, 2  # kind of random draws, distinct from that of window.py
PARENT_CHECK_INTERVAL_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NetworkWeights:
    """A network's weights to send to another process."""

    description: MiniGoDescription
    arrays: Mapping[str, Array]

    @classmethod
    def copy_network(cls, network: MiniGoNetwork) -> "NetworkWeights":
        """Copy a network's weights."""
        return cls(
            description=network.description,
            arrays={
                name: tensor.detach().cpu().numpy().copy()
                for name, tensor in network.state_dict().items()
            },
        )

    def build_player(self, device: str) -> NetworkPlayer:
        """Build the player."""
        network = MiniGoNetwork(self.description)
        network.load_state_dict(
            {name: torch.from_numpy(array) for name, array in self.arrays.items()}
        )
        return NetworkPlayer(network.eval(), device)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerationSettings:
    """Settings shared by all groups of a generation."""

    seed: int
    generation: int
    board: int
    rules: GameRules
    planes: int
    count: int
    """Games per group."""
    weights: NetworkWeights | None
    """None for the noise model."""
    player_settings: PlayerSettings
    device: str
    opponent: NetworkWeights | None = None
    pass_last: bool = False
    """Networks do not fill simple eyes, and pass only if no other move is left."""
    opponent_settings: PlayerSettings | None = None
    """How the opponent plays; None if the network plays against itself. Without weights, the
    opponent is the search without a network.
    """

    def build_evaluator(self) -> Evaluator:
        """Build the evaluator that plays."""
        if self.weights:
            return self.apply_pass_last(self.weights.build_player(self.device))
        return self.apply_pass_last(NoiseEvaluator(build_board_geometry(self.board).actions))

    def apply_pass_last(self, player: Evaluator) -> Evaluator:
        """Restrict a player to the moves that are allowed by `pass_last`."""
        if self.pass_last:
            return PassLastEvaluator(build_board_geometry(self.board), player)
        return player

    def build_generator(self, group: int, purpose: int) -> np.random.Generator:
        """Create the random generator of a group."""
        return np.random.default_rng([self.seed, self.generation, group, purpose])


def play_selfplay_group(games: GenerationSettings, group: int) -> SelfPlayExamples:
    """Play a group of games of a network against itself."""
    with use_one_thread():
        group_of_games = SelfPlayGroup(
            build_board_geometry(games.board),
            games.rules,
            games.build_evaluator(),
            games.player_settings,
            games.planes,
            games.build_generator(group, SELFPLAY_STREAM),
            games.count,
        )
        return group_of_games.play_games()


def play_evaluation_group(games: GenerationSettings, group: int) -> PlayedMatch:
    """Play a group of games against the fixed opponent."""
    shape, opponent_settings = (
        build_board_geometry(games.board),
        games.opponent_settings or games.player_settings,
    )
    with use_one_thread():
        if games.opponent:
            opponent = games.apply_pass_last(games.opponent.build_player(games.device))
        else:
            opponent = AreaEvaluator(shape, games.rules.komi)
        players = (
            MatchPlayer(evaluate=games.build_evaluator(), settings=games.player_settings),
            MatchPlayer(evaluate=opponent, settings=opponent_settings),
        )
        return play_match(
            shape,
            games.rules,
            *players,
            games.planes,
            games.build_generator(group, EVALUATION_STREAM),
            games.count,
        )


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Compute with one thread, so that sums do not depend on the number of threads, and processes
    can share the cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def wait_for_game_group(future: Future[T]) -> T:
    """Wait for a group of games; TemporaryError if its process has died, for example for lack of
    memory or because it was killed.
    """
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise TemporaryError("a process that was playing games was killed") from error


class GameWorkers:
    """Worker processes that play games; without workers, this process plays."""

    def __init__(self, count: int, device: str, precision: Precision) -> None:
        self._pool = None
        if count:
            self._pool = ProcessPoolExecutor(
                count, get_context("spawn"), _set_up_game_worker, (os.getpid(), device, precision)
            )

    def play_selfplay_groups(
        self, games: GenerationSettings, groups: Sequence[int]
    ) -> Iterator[SelfPlayExamples]:
        """Play groups and yield them in order; those that are no longer needed are dropped."""
        if self._pool is None:
            yield from (play_selfplay_group(games, group) for group in groups)
            return
        futures: list[Future[SelfPlayExamples]] = [
            self._pool.submit(play_selfplay_group, games, group) for group in groups
        ]
        try:
            yield from map(wait_for_game_group, futures)
        finally:
            for future in futures:
                future.cancel()

    def play_evaluation_groups(
        self, games: GenerationSettings, groups: Sequence[int]
    ) -> list[PlayedMatch]:
        """Play groups against the opponent."""
        if self._pool is None:
            return [play_evaluation_group(games, group) for group in groups]
        futures = [self._pool.submit(play_evaluation_group, games, group) for group in groups]
        try:
            return [wait_for_game_group(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()


def _set_up_game_worker(parent: int, device: str, precision: Precision) -> None:
    """Set up a worker. The parent handles signals, between groups of games; a worker ends when its
    parent dies, even if the parent was killed.
    """
    # else cuDNN would use TF32 here but not in the parent
    mixed_precision.prepare_training_precision(device, precision)
    # a signal to the whole process group would otherwise interrupt the parent's generation before
    # it is saved
    defer_worker_end()
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_INTERVAL_S)
    os._exit(1)
