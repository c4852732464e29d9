"""Plays whole games: a network against itself, to learn from, and two players against each
other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from workloads.minigo.go.board import Array, BoardGeometry, Boards, play_actions
from workloads.minigo.go.ending import GameRules, compute_winners, find_ended_games
from workloads.minigo.go.features import (
    SHOWN_POSITIONS_BY_PLANES,
    build_feature_planes,
    prepend_current_stones,
)
from workloads.minigo.go.search import Evaluator, SearchForest

# Legend: E examples, F planes, P points, A actions, N games, T positions seen, H positions of a
# game.
VISIT_EXPONENT: Final = 0.98  # mlcommons/training v0.6, minigo, cc/mcts_tree.cc: visits ** 0.98
TREE_CAPACITY_IN_SEARCHES: Final = 6
"""Capacity of a tree, in searches of this many readouts: the retained part of a tree is usually
smaller than one search.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayerSettings:
    """How a player searches and chooses moves."""

    readouts: int
    readouts_at_once: int = 1
    """Readouts of one game that share an evaluation, with virtual losses."""
    penalty: float = 0.2
    """How much worse than its parent a new move is assumed to be; v0.6: kValueInitPenalty."""
    soft_moves: int = 0
    """Number of moves of a game that are drawn by visits; later moves are the most visited ones."""
    noise_alpha: float = 0.0
    """Parameter of the Dirichlet noise at the root."""
    noise_share: float = 0.0
    resign_below: float = -1.0
    never_resign_share: float = 0.0
    prune_noise_visits: bool = False
    """Whether to remove visits that are due to noise only."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelfPlayExamples:
    """Training examples of a network."""

    plane_EFP: Array
    """uint8."""
    policy_EA: Array
    """Shares of visits, float32."""
    result_E: Array
    """1 if the mover won, -1 if not, 0 for a draw; float32."""

    def __len__(self) -> int:
        return len(self.result_E)

    @classmethod
    def merge_examples(cls, parts: "Sequence[SelfPlayExamples]") -> "SelfPlayExamples":
        """Concatenate examples."""
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in ("plane_EFP", "policy_EA", "result_E")
            }
        )


def build_empty_games(
    shape: BoardGeometry, count: int, plane_count: int
) -> tuple[Boards, Array, Array]:
    """Set up games: boards, stones that the network sees, hashes of earlier positions."""
    boards = Boards.build_empty(shape.size, count)
    return (
        boards,
        np.zeros((count, SHOWN_POSITIONS_BY_PLANES[plane_count], shape.points), np.int8),
        np.zeros((count, 0), np.uint64),
    )


def choose_game_actions(visits_NA: Array, soft_N: Array, rng: np.random.Generator) -> Array:
    """Choose actions: drawn with visits ** 0.98 for soft moves, else the most visited."""
    weight_NA = visits_NA.astype(np.float64) ** VISIT_EXPONENT
    edge_NA = np.cumsum(weight_NA, axis=1)
    drawn_N = (edge_NA <= rng.random((len(edge_NA), 1)) * edge_NA[:, -1:]).sum(axis=1)
    found: Array = np.where(soft_N, drawn_N, visits_NA.argmax(axis=1))
    return found


class SelfPlayGroup:
    """A group of games of a network against itself, side by side."""

    def __init__(
        self,
        shape: BoardGeometry,
        rules: GameRules,
        evaluate: Evaluator,
        habits: PlayerSettings,
        plane_count: int,
        rng: np.random.Generator,
        count: int,
    ) -> None:
        self._shape, self._rules, self._habits, self._planes, self._rng, self._count = (
            shape,
            rules,
            habits,
            plane_count,
            rng,
            count,
        )
        room = TREE_CAPACITY_IN_SEARCHES * habits.readouts + habits.readouts_at_once + 1
        self._forest = SearchForest(
            shape,
            rules,
            evaluate,
            rng,
            room,
            SHOWN_POSITIONS_BY_PLANES[plane_count],
            habits.penalty,
        )
        self._winner_N = np.zeros(count, np.float32)
        self._noted: list[tuple[Array, Array, Array, Array]] = []

    def play_games(self) -> SelfPlayExamples:
        """Play all games to their ends."""
        self._forest.build_trees(*build_empty_games(self._shape, self._count, self._planes))
        self._keen_N = self._rng.random(self._count) < self._habits.never_resign_share
        self._game_N = np.arange(self._count)
        while len(self._game_N):
            self._play_one_move()
        game_E, mover_E, plane_EFP, policy_EA = (
            np.concatenate(column) for column in zip(*self._noted, strict=True)
        )
        order = np.argsort(game_E, kind="stable")
        result_E = (self._winner_N[game_E] * mover_E).astype(np.float32)
        return SelfPlayExamples(
            plane_EFP=plane_EFP[order], policy_EA=policy_EA[order], result_E=result_E[order]
        )

    def _play_one_move(self) -> None:
        forest, habits = self._forest, self._habits
        if habits.noise_share:
            forest.add_root_noise(habits.noise_alpha, habits.noise_share)
        forest.run_readouts(habits.readouts, habits.readouts_at_once)
        boards = forest.get_boards(forest.first_N)
        visits_NA = (
            forest.compute_pruned_visits() if habits.prune_noise_visits else forest.visits_NA
        )
        self._record_positions(boards, visits_NA)
        resigned = (forest.value_N < habits.resign_below) & ~self._keen_N[self._game_N]
        self._winner_N[self._game_N[resigned]] = -boards.mover_N[resigned]
        forest.play_root_actions(
            choose_game_actions(visits_NA, boards.ply_N < habits.soft_moves, self._rng)
        )
        next_boards = forest.get_boards(forest.first_N)
        ended = find_ended_games(self._rules, next_boards) & ~resigned
        self._winner_N[self._game_N[ended]] = compute_winners(
            self._shape, self._rules, next_boards[ended]
        )
        going = np.flatnonzero(~ended & ~resigned)
        self._game_N = self._game_N[going]
        forest.keep_games(going)

    def _record_positions(self, boards: Boards, visits_NA: Array) -> None:
        past_NTP = self._forest.get_past_stones(self._forest.first_N)
        policy_NA = (visits_NA / np.maximum(visits_NA.sum(axis=1, keepdims=True), 1)).astype(
            np.float32
        )
        self._noted.append(
            (
                self._game_N,
                boards.mover_N,
                build_feature_planes(self._shape, boards, past_NTP, self._planes),
                policy_NA,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPlayer:
    """A player in a match."""

    evaluate: Evaluator
    settings: PlayerSettings


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedMatch:
    """Games of two players, the first one black in every other game."""

    points_N: Array
    """1 if the first player won, 0.5 for a draw, 0 if it lost."""
    moves: list[list[int]]
    """Of each game."""
    value_of_first: list[list[float]]
    """Value of the first player's search at each of its own moves, from its point of view:
    -1 to 1.
    """


def play_match(
    shape: BoardGeometry,
    rules: GameRules,
    first: MatchPlayer,
    second: MatchPlayer,
    plane_count: int,
    rng: np.random.Generator,
    count: int,
) -> PlayedMatch:
    """Play games with alternating colours; each move is searched from scratch."""
    boards, past_NTP, history_NH = build_empty_games(shape, count, plane_count)
    colour_N = np.where(np.arange(count) % 2, -1, 1)
    game_N, points_N = np.arange(count), np.zeros(count)
    played = PlayedMatch(
        points_N=points_N,
        moves=[[] for _ in range(count)],
        value_of_first=[[] for _ in range(count)],
    )
    while len(game_N):
        action_N = np.zeros(len(game_N), np.int64)
        for player, turn in ((first, 1), (second, -1)):
            rows = np.flatnonzero(boards.mover_N * colour_N[game_N] == turn)
            if not len(rows):
                continue
            action_N[rows], value_N = search_player_actions(
                shape, rules, player, boards[rows], past_NTP[rows], history_NH[rows], rng
            )
            if turn != 1:
                continue
            for game, value in zip(game_N[rows], value_N, strict=True):
                played.value_of_first[game].append(float(value))
        for game, action in zip(game_N, action_N, strict=True):
            played.moves[game].append(int(action))
        history_NH = np.concatenate([history_NH, boards.hash_N[:, None]], axis=1)
        boards = play_actions(shape, boards, action_N)
        past_NTP = prepend_current_stones(shape, boards, past_NTP)
        ended = find_ended_games(rules, boards)
        points_N[game_N[ended]] = (
            compute_winners(shape, rules, boards[ended]) * colour_N[game_N[ended]] + 1
        ) / 2
        going = np.flatnonzero(~ended)
        boards, past_NTP, history_NH, game_N = (
            boards[going],
            past_NTP[going],
            history_NH[going],
            game_N[going],
        )
    return played


def search_player_actions(
    shape: BoardGeometry,
    rules: GameRules,
    player: MatchPlayer,
    boards: Boards,
    past_NTP: Array,
    history_NH: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Search positions from scratch, given the hashes of all positions of their games; return the
    player's actions and its values, -1 to 1.
    """
    habits = player.settings
    forest = SearchForest(
        shape,
        rules,
        player.evaluate,
        rng,
        habits.readouts + habits.readouts_at_once + 1,
        past_NTP.shape[1],
        habits.penalty,
    )
    forest.build_trees(boards, past_NTP, history_NH)
    forest.run_readouts(habits.readouts, habits.readouts_at_once)
    return choose_game_actions(
        forest.visits_NA, boards.ply_N < habits.soft_moves, rng
    ), forest.value_N
