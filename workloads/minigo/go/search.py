"""Monte Carlo tree search guided by priors and values (Silver et al. 2017,
doi:10.1038/nature24270), in many games at once.

Formulas and constants: mlcommons/training v0.6, reinforcement/tensorflow/minigo, cc/mcts_tree.cc
and cc/constants.h. The trees of all games are stored in flat arrays, with the nodes of a tree side
by side. One readout is done in every game before the next.
"""

from typing import Final, Protocol

import numpy as np

from workloads.minigo.go.board import (
    Array,
    BoardGeometry,
    Boards,
    find_legal_actions,
    find_repeated_positions,
    play_actions,
)
from workloads.minigo.go.ending import GameRules, compute_winners, find_ended_games
from workloads.minigo.go.features import prepend_current_stones

# Legend: N games, M nodes of all trees, A actions, P points, T positions seen, H positions of a
# game, R readouts at once in a game.
PUCT_BASE: Final = (
    19652  # cc/constants.h: kUCTBase, Silver et al. 2018, doi:10.1126/science.aar6404
)
PUCT_INIT: Final = 1.25  # as above
PUCT_SCALE: Final = 2.0  # cc/mcts_tree.cc: CalculateScale
NO_CHILD: Final = -1


class Evaluator(Protocol):
    """Computes priors of actions and values of positions."""

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator, /
    ) -> tuple[Array, Array]:
        """Return prior_NA, not negative, and value_N, -1 to 1 for the mover; depends only on the
        arguments.
        """


class SearchForest:
    """One tree for each of N games."""

    def __init__(
        self,
        shape: BoardGeometry,
        rules: GameRules,
        evaluate: Evaluator,
        rng: np.random.Generator,
        capacity: int,
        shown_positions: int,
        penalty: float,
    ) -> None:
        """`capacity`: nodes per tree; `shown_positions`: positions that `evaluate` sees; `penalty`:
        how far the initial value of a new move is below its parent's.
        """
        self._shape, self._rules, self._evaluate, self._rng = shape, rules, evaluate, rng
        self._capacity, self._seen, self._penalty = capacity, shown_positions, penalty

    def build_trees(self, boards: Boards, past_NTP: Array, history_NH: Array) -> None:
        """Start trees at positions; `history_NH` contains the hashes of all positions of their
        games.
        """
        count, nodes, actions = len(boards), len(boards) * self._capacity, self._shape.actions
        self.first_N = np.arange(count) * self._capacity
        self._used_N = np.ones(count, np.int64)
        self._board = Boards.build_empty(self._shape.size, nodes)
        self._past_MTP = np.zeros((nodes, self._seen, self._shape.points), np.int8)
        self._child_MA = np.full((nodes, actions), NO_CHILD, np.int64)
        self.visits_MA, self.worth_MA, self.prior_MA = (
            np.zeros((nodes, actions), np.float32) for _ in range(3)
        )
        self._result_M = np.zeros(nodes, np.float32)
        self._over_M, self._grown_M = np.zeros(nodes, bool), np.zeros(nodes, bool)
        self._history_NH = history_NH
        self._set_node_positions(self.first_N, boards, past_NTP)
        self._evaluate_nodes(self.first_N)
        self.plain_NA = self.prior_MA[self.first_N]

    def _set_node_positions(self, node_N: Array, boards: Boards, past_NTP: Array) -> None:
        """Assign positions to nodes, without children."""
        self._board.set_positions(node_N, boards)
        self._past_MTP[node_N] = past_NTP
        ended_N = find_ended_games(self._rules, boards)
        self._over_M[node_N], self._grown_M[node_N] = ended_N, False
        self._child_MA[node_N] = NO_CHILD
        self.visits_MA[node_N] = 0
        if ended_N.any():
            self._result_M[node_N[ended_N]] = (
                compute_winners(self._shape, self._rules, boards[ended_N]) * boards.mover_N[ended_N]
            )

    def _evaluate_nodes(self, node_N: Array) -> Array:
        """Evaluate positions: value_N for the mover, or the result if a game is over."""
        boards = self._board[node_N]
        prior_NA, value_N = self._evaluate(boards, self._past_MTP[node_N], self._rng)
        prior_NA = prior_NA * find_legal_actions(self._shape, boards)
        self.prior_MA[node_N] = prior_NA / np.maximum(
            prior_NA.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny
        )
        self._ensure_playable_action(node_N)
        self.worth_MA[node_N] = np.maximum(value_N - self._penalty, -1)[:, None]
        self._grown_M[node_N] = True
        found: Array = np.where(self._over_M[node_N], self._result_M[node_N], value_N)
        return found

    def _ensure_playable_action(self, node_N: Array) -> None:
        """Make the pass the move if no action has a prior left: it is always legal, even if the
        network's prior for it underflows to 0.
        """
        self.prior_MA[node_N[~self.prior_MA[node_N].any(axis=1)], -1] = 1

    def add_root_noise(self, alpha: float, share: float) -> None:
        """Mix a Dirichlet draw into the roots' priors, over legal actions."""
        drawn_NA = self._rng.gamma(alpha, size=self.plain_NA.shape) * (self.plain_NA > 0)
        drawn_NA /= np.maximum(drawn_NA.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        self.prior_MA[self.first_N] = (1 - share) * self.plain_NA + share * drawn_NA

    def run_readouts(self, readouts: int, at_once: int = 1) -> None:
        """Do this many readouts in each game, `at_once` of them with one evaluation. A readout that
        ends in superko is undone and repeated.

        A tree gets fewer if it is too full with nodes retained from earlier moves.
        """
        left_N = np.minimum(readouts, self._capacity - self._used_N)
        while len(games := np.flatnonzero(left_N > 0)):
            for path in self._run_readouts_at_once(games, left_N, at_once):
                left_N[path.games] -= 1

    def _run_readouts_at_once(
        self, games: Array, left_N: Array, at_once: int
    ) -> "list[ReadoutPath]":
        paths = []
        for number in range(at_once):
            if len(unfinished := games[left_N[games] > number]):
                path = self._walk_to_leaves(unfinished)
                # a virtual loss, until the leaf is evaluated
                path.add_visits(self, 1, -1.0 if at_once > 1 else 0.0)
                paths.append(path)
        leaf_N = np.concatenate([path.leaf_N for path in paths]) if paths else np.zeros(0, np.int64)
        leaves = np.unique(leaf_N)
        value_N = (
            self._evaluate_nodes(leaves)[np.searchsorted(leaves, leaf_N)] if len(leaves) else leaf_N
        )
        start = 0
        for path in paths:
            path.propagate_values(
                self, value_N[start : start + len(path.games)], 1.0 if at_once > 1 else 0.0
            )
            start += len(path.games)
        return paths

    def _walk_to_leaves(self, games: Array) -> "ReadoutPath":
        """Walk from the roots to new leaves or ends of games. Games whose next move repeats a
        position are dropped, and the move is removed.
        """
        path = ReadoutPath(games)
        row_N, node_N = np.arange(len(games)), self.first_N[games]
        stopped: list[tuple[Array, Array, Array]] = []
        while len(row_N):
            action_N = self._select_best_actions(node_N)
            path.steps.append((row_N, node_N, action_N))
            child_N = self._child_MA[node_N, action_N]
            path.leaf_N[row_N] = child_N
            new = child_N == NO_CHILD
            stopped.append((row_N[new], node_N[new], action_N[new]))
            going = ~new & self._grown_M[child_N] & ~self._over_M[child_N]
            row_N, node_N = row_N[going], child_N[going]
        new_N, parent_N, move_N = (np.concatenate(column) for column in zip(*stopped, strict=True))
        if len(new_N):
            path.leaf_N[new_N], allowed = self._add_children(
                games[new_N], parent_N, move_N, self._collect_earlier_hashes(path)[new_N]
            )
            path.lost.extend(new_N[~allowed].tolist())
        return path.drop_lost_games()

    def _collect_earlier_hashes(self, path: "ReadoutPath") -> Array:
        """Return the hashes of all positions of the games and of the paths from their roots,
        seen_NH, padded with 0, the hash of the empty board.
        """
        path_hash_NH = np.zeros((len(path.games), len(path.steps)), np.uint64)
        for depth, (row_N, node_N, _) in enumerate(path.steps):
            path_hash_NH[row_N, depth] = self._board.hash_N[node_N]
        return np.concatenate([self._history_NH[path.games], path_hash_NH], axis=1)

    def _select_best_actions(self, node_N: Array) -> Array:
        """Choose the action with the largest Q + U; Q = W / (1 + N), where W starts from the
        reduced value; U = c sqrt(max(1, N_parent - 1)) P / (1 + N).
        """
        visits_NA, prior_NA = self.visits_MA[node_N], self.prior_MA[node_N]
        all_N = visits_NA.sum(axis=1)
        score_NA = (
            self.worth_MA[node_N] + compute_exploration_factor(all_N)[:, None] * prior_NA
        ) / (1 + visits_NA)
        score_NA[prior_NA <= 0] = -np.inf
        found: Array = score_NA.argmax(axis=1)
        return found

    def _add_children(
        self, games: Array, node_N: Array, action_N: Array, earlier_hash_NH: Array
    ) -> tuple[Array, Array]:
        """Add the children; return which of them do not repeat a position."""
        child_boards = play_actions(self._shape, self._board[node_N], action_N)
        allowed = ~find_repeated_positions(child_boards, earlier_hash_NH)
        if not allowed.all():
            self.prior_MA[node_N[~allowed], action_N[~allowed]] = 0
            self._ensure_playable_action(node_N[~allowed])
        child_N = self.first_N[games] + self._used_N[games]
        new = np.flatnonzero(allowed)
        self._used_N[games[new]] += 1
        child_boards = child_boards[new]
        self._set_node_positions(
            child_N[new],
            child_boards,
            prepend_current_stones(self._shape, child_boards, self._past_MTP[node_N[new]]),
        )
        self._child_MA[node_N[new], action_N[new]] = child_N[new]
        return np.where(allowed, child_N, 0), allowed

    @property
    def visits_NA(self) -> Array:
        """Visits of each root's actions."""
        return self.visits_MA[self.first_N]

    @property
    def value_N(self) -> Array:
        """Mean value of each root's most visited action, for the mover."""
        best_N = self.visits_NA.argmax(axis=1)
        worth_N, visits_N = (
            array[self.first_N, best_N] for array in (self.worth_MA, self.visits_MA)
        )
        return np.asarray(worth_N / (1 + visits_N))

    def compute_pruned_visits(self) -> Array:
        """Remove the visits that are only due to a root's noise: v0.7's target pruning (Wu 2019,
        arXiv:1902.10565, section 3.2).

        An action keeps as many visits as its Q + U, with the prior without noise, needs to reach
        that of the most visited action.
        """
        visits_NA, each = self.visits_NA, np.arange(len(self.first_N))
        best_N = visits_NA.argmax(axis=1)
        q_NA = self.worth_MA[self.first_N] / (1 + visits_NA)
        pull_NA = compute_exploration_factor(visits_NA.sum(axis=1))[:, None] * self.plain_NA
        top_N1 = (q_NA + pull_NA / (1 + visits_NA))[each, best_N][:, None]
        needed_NA = np.where(
            q_NA < top_N1, np.floor(pull_NA / np.maximum(top_N1 - q_NA, 1e-9)), visits_NA
        )
        found_NA = np.minimum(visits_NA, needed_NA)
        found_NA[each, best_N] = visits_NA[each, best_N]
        return np.where((found_NA == 1) & (visits_NA > 1), 0, found_NA)

    def get_boards(self, node_N: Array) -> Boards:
        """Return the positions of nodes."""
        return self._board[node_N]

    def get_past_stones(self, node_N: Array) -> Array:
        """Return the stones of nodes and of the positions before them, as the network sees them,
        past_NTP.
        """
        return self._past_MTP[node_N]

    def play_root_actions(self, action_N: Array) -> None:
        """Play an action in each game; its subtree is kept."""
        self._history_NH = np.concatenate(
            [self._history_NH, self._board.hash_N[self.first_N][:, None]], axis=1
        )
        child_N = self._child_MA[self.first_N, action_N]
        unread = np.flatnonzero(child_N == NO_CHILD)
        if len(unread):
            child_N[unread], _ = self._add_children(
                unread,
                self.first_N[unread],
                action_N[unread],
                np.zeros((len(unread), 1), np.uint64),
            )
        self._keep_subtrees(child_N)
        fresh = ~self._grown_M[self.first_N]
        if fresh.any():
            self._evaluate_nodes(self.first_N[fresh])
        self.plain_NA = self.prior_MA[self.first_N]

    def _keep_subtrees(self, root_N: Array) -> None:
        """Move the subtrees of new roots to the start of each tree, in order."""
        count, capacity = len(root_N), self._capacity
        reachable_M = np.zeros(count * capacity, bool)
        reachable_M[root_N] = True
        frontier = root_N
        while len(frontier):
            below = self._child_MA[frontier]
            frontier = below[below != NO_CHILD]
            reachable_M[frontier] = True
        reachable = np.flatnonzero(reachable_M)
        tree = reachable // capacity
        self._used_N = np.bincount(tree, minlength=count)
        start_N = np.cumsum(self._used_N) - self._used_N
        new_node = tree * capacity + np.arange(len(reachable)) - start_N[tree]
        new_index = np.full(count * capacity + 1, NO_CHILD, np.int64)
        new_index[reachable] = new_node
        self._board.copy_positions(reachable, new_node)
        for array in (
            self._past_MTP,
            self.visits_MA,
            self.worth_MA,
            self.prior_MA,
            self._result_M,
            self._over_M,
            self._grown_M,
        ):
            array[new_node] = array[reachable]
        self._child_MA[new_node] = new_index[self._child_MA[reachable]]

    def keep_games(self, games: Array) -> None:
        """Drop all other games."""
        nodes = (games[:, None] * self._capacity + np.arange(self._capacity)).reshape(-1)
        shift_N = (games - np.arange(len(games))) * self._capacity
        self._board = self._board[nodes]
        for name in (
            "_past_MTP",
            "_child_MA",
            "visits_MA",
            "worth_MA",
            "prior_MA",
            "_result_M",
            "_over_M",
            "_grown_M",
        ):
            setattr(self, name, getattr(self, name)[nodes])
        self._child_MA -= np.where(
            self._child_MA == NO_CHILD, 0, np.repeat(shift_N, self._capacity)[:, None]
        )
        self._used_N, self._history_NH, self.plain_NA = (
            self._used_N[games],
            self._history_NH[games],
            self.plain_NA[games],
        )
        self.first_N = np.arange(len(games)) * self._capacity


class ReadoutPath:
    """The path of one readout in each of some games."""

    def __init__(self, games: Array) -> None:
        self.games = games
        self.leaf_N = np.zeros(len(games), np.int64)
        self.steps: list[tuple[Array, Array, Array]] = []
        """Rows, nodes and actions, from the roots down."""
        self.lost: list[int] = []

    def drop_lost_games(self) -> "ReadoutPath":
        """Drop the games whose readout is undone."""
        if self.lost:
            remaining = np.ones(len(self.games), bool)
            remaining[self.lost] = False
            new_row = np.cumsum(remaining) - 1
            self.steps = [
                (
                    new_row[row_N[remaining[row_N]]],
                    node_N[remaining[row_N]],
                    action_N[remaining[row_N]],
                )
                for row_N, node_N, action_N in self.steps
            ]
            self.games, self.leaf_N, self.lost = self.games[remaining], self.leaf_N[remaining], []
        return self

    def add_visits(self, forest: SearchForest, visits: int, worth: float) -> None:
        """Add a visit along the path."""
        for _, node_N, action_N in self.steps:
            forest.visits_MA[node_N, action_N] += visits
            forest.worth_MA[node_N, action_N] += worth

    def propagate_values(self, forest: SearchForest, value_N: Array, returned_loss: float) -> None:
        """Propagate the leaves' values upwards, each for the player who moved there;
        `returned_loss` removes a virtual loss.
        """
        length_N = np.zeros(len(self.games), np.int64)
        for row_N, _, _ in self.steps:
            length_N[row_N] += 1
        for depth, (row_N, node_N, action_N) in enumerate(self.steps):
            sign_N = np.where((length_N[row_N] - depth) % 2 == 1, -1.0, 1.0)
            forest.worth_MA[node_N, action_N] += sign_N * value_N[row_N] + returned_loss


def compute_exploration_factor(visits_N: Array) -> Array:
    """Return the factor of a prior: 2 (ln((1 + N + base) / base) + init) sqrt(max(1, N - 1))."""
    found: Array = (
        PUCT_SCALE
        * (np.log((1 + visits_N + PUCT_BASE) / PUCT_BASE) + PUCT_INIT)
        * np.sqrt(np.maximum(1, visits_N - 1))
    )
    return found.astype(np.float32)
