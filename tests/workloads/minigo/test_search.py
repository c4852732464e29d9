"""The search: it finds what it must, forbids what the rules forbid, and keeps its tree."""

import numpy as np
import pytest
from boards import at, set_up

from workloads.minigo.go.area import (
    MIN_PASS_PRIOR,
    AreaEvaluator,
    PassLastEvaluator,
    find_simple_eyes,
)
from workloads.minigo.go.board import (
    BLACK,
    WHITE,
    Array,
    Boards,
    build_board_geometry,
    find_legal_actions,
    play_actions,
)
from workloads.minigo.go.ending import GameRules
from workloads.minigo.go.games import (
    MatchPlayer,
    PlayerSettings,
    SelfPlayGroup,
    choose_game_actions,
    play_match,
)
from workloads.minigo.go.search import Evaluator, SearchForest
from workloads.minigo.player import NoiseEvaluator

RULES = GameRules(komi=7.5, limit=35)


def forest_at(
    boards: Boards,
    evaluate: Evaluator,
    readouts: int,
    *,
    at_once: int = 1,
    history: Array | None = None,
    seed: int = 0,
) -> SearchForest:
    """Search positions."""
    size = int(np.sqrt(boards.stones_NC.shape[1])) - 1
    shape = build_board_geometry(size)
    forest = SearchForest(
        shape, RULES, evaluate, np.random.default_rng(seed), 4 * readouts + at_once, 4, 0.2
    )
    forest.build_trees(
        boards,
        np.zeros((len(boards), 4, shape.points), np.int8),
        np.zeros((len(boards), 0), np.uint64) if history is None else history,
    )
    forest.run_readouts(readouts, at_once)
    return forest


class Even:
    """Knows nothing."""

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator, /
    ) -> tuple[Array, Array]:
        points = int(np.sqrt(boards.stones_NC.shape[1])) - 1
        return np.ones((len(boards), points**2 + 1)), np.zeros(len(boards))


@pytest.mark.parametrize("at_once", [1, 4])
def test_it_passes_where_that_wins(at_once: int) -> None:
    """The result of a game that is over counts for who wins it, not for who moves."""
    shape, boards = set_up("OOOOO", "O.O.O", "OOOOO", "X....", ".....", mover=WHITE)
    boards.passes_N[:] = 1
    forest = forest_at(boards, Even(), 120, at_once=at_once)
    assert forest.visits_NA[0].argmax() == shape.points and forest.value_N[0] > 0.5
    assert forest.visits_NA[0].sum() == 120


def test_where_passes_come_last_nobody_who_trails_passes() -> None:
    """Black, at the first move of a game that two passes would end at once, is taught no pass by a
    network that likes nothing else; eyes stay empty.
    """

    class Passing:
        def __call__(
            self, boards: Boards, past_NTP: Array, rng: np.random.Generator, /
        ) -> tuple[Array, Array]:
            prior_NA = np.full((len(boards), 26), 0.01)
            prior_NA[:, -1] = 1
            return prior_NA, np.full(len(boards), -1.0)

    shape, boards = set_up(".X...", "XX...", ".....", ".....", ".....")
    assert forest_at(boards, Passing(), 16).visits_NA[0].argmax() == shape.points, "the control"
    visits_A = forest_at(boards, PassLastEvaluator(shape, Passing()), 16).visits_NA[0]
    assert visits_A[shape.points] == 0 and visits_A[0] == 0 and visits_A.sum() == 16


def test_a_pass_is_left_where_nothing_else_is() -> None:
    """A prior of 0 on every action would end in an illegal one."""
    shape, boards = set_up("X.X", "XXX", "XX.")
    prior_NA, _ = PassLastEvaluator(shape, Even())(
        boards, np.zeros((1, 4, 9), np.int8), np.random.default_rng(0)
    )
    left_NA = prior_NA * find_legal_actions(shape, boards)
    assert left_NA[0, :-1].sum() == 0 and left_NA[0, -1] >= MIN_PASS_PRIOR


def test_a_network_that_gives_the_pass_nothing_passes_where_nothing_else_is_legal() -> None:
    """A prior that underflows to 0 left the first point, legal or not."""

    class Never(Even):
        def __call__(
            self, boards: Boards, past_NTP: Array, rng: np.random.Generator, /
        ) -> tuple[Array, Array]:
            prior_NA, value_N = super().__call__(boards, past_NTP, rng)
            prior_NA[:, -1] = 0
            return prior_NA, value_N

    shape, boards = set_up(".O.", "OOO", "OO.", mover=BLACK)
    assert find_legal_actions(shape, boards)[0].sum() == 1, "the pass alone"
    visits_A = forest_at(boards, Never(), 8).visits_NA[0]
    assert visits_A[shape.points] == visits_A.sum() == 8


def test_illegal_moves_are_never_visited() -> None:
    """A network gives every action a prior."""
    shape, boards = set_up(".X...", "X....", ".....", ".....", ".....", mover=WHITE)
    assert (
        not forest_at(boards, Even(), 100).visits_NA[0][~find_legal_actions(shape, boards)[0]].any()
    )


def test_a_move_that_repeats_a_position_is_taken_back() -> None:
    """Superko shows when a child is made: its prior goes, and the readout is done again."""
    shape, boards = set_up(".XO..", "X.XO.", ".XO..", ".....", ".....", mover=WHITE)
    taken = play_actions(shape, boards, np.array([at(shape, "B4")]))
    forest = forest_at(taken, Even(), 60, history=boards.hash_N[:, None])
    assert forest.visits_NA[0, at(shape, "C4")] == 0 and forest.visits_NA[0].sum() == 60
    assert forest_at(taken, Even(), 60).visits_NA[0, at(shape, "C4")] > 0


def test_games_side_by_side_search_as_one_does() -> None:
    """What one game finds must not hang on its neighbours, where nothing is drawn."""
    boards = Boards.build_empty(5, 3)
    shape = build_board_geometry(5)
    boards = play_actions(shape, boards, np.array([12, 0, 7]))
    area = AreaEvaluator(shape, 7.5)
    together = forest_at(boards, area, 50).visits_NA
    assert all(
        (together[[row]] == forest_at(boards[[row]], area, 50).visits_NA).all() for row in range(3)
    )


def test_the_tree_below_a_move_is_kept() -> None:
    """Readouts are additional: an advanced tree has the visits of its branch, and goes on from
    there.
    """
    forest = forest_at(Boards.build_empty(5, 2), AreaEvaluator(build_board_geometry(5), 7.5), 100)
    best_N = forest.visits_NA.argmax(axis=1)
    visits = forest.visits_NA[np.arange(2), best_N]
    forest.play_root_actions(best_N)
    assert (forest.visits_NA.sum(axis=1) == visits - 1).all()
    forest.run_readouts(20)
    assert (forest.visits_NA.sum(axis=1) == visits + 19).all()
    forest.keep_games(np.array([1]))
    forest.run_readouts(5)
    assert forest.visits_NA.sum() == visits[1] + 24


class Sure(Even):
    """Thinks that one point is the best."""

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator, /
    ) -> tuple[Array, Array]:
        prior_NA, value_N = super().__call__(boards, past_NTP, rng)
        prior_NA[:, 12] = 1000
        return prior_NA, value_N


def test_noise_and_pruning() -> None:
    """Noise moves visits, stays among legal actions, and pruning takes visits off, never adds,
    never from the best.
    """
    shape, boards = set_up(".X...", "X....", ".....", ".....", ".....", mover=WHITE)
    forest = SearchForest(shape, RULES, Sure(), np.random.default_rng(5), 300, 4, 0.2)
    forest.build_trees(boards, np.zeros((1, 4, 25), np.int8), np.zeros((1, 0), np.uint64))
    forest.add_root_noise(0.4, 0.25)
    assert (
        forest.prior_MA[0].sum() == pytest.approx(1, abs=1e-5)
        and forest.prior_MA[0, at(shape, "A5")] == 0
    )
    forest.run_readouts(64)
    pruned, visits = forest.compute_pruned_visits()[0], forest.visits_NA[0]
    assert (
        (pruned <= visits).all()
        and pruned.sum() < visits.sum()
        and pruned[visits.argmax()] == visits.max()
    )


def test_a_full_tree_gets_the_readouts_that_it_has_room_for() -> None:
    """Beyond its nodes lie the next game's."""
    shape = build_board_geometry(5)
    forest = SearchForest(
        shape, RULES, AreaEvaluator(shape, 7.5), np.random.default_rng(5), 30, 4, 0.2
    )
    forest.build_trees(
        Boards.build_empty(5, 2), np.zeros((2, 4, 25), np.int8), np.zeros((2, 0), np.uint64)
    )
    forest.run_readouts(100)
    assert (forest.visits_NA.sum(axis=1) == 29).all()


def test_moves_are_drawn_by_visits_where_soft() -> None:
    """And are the most visited elsewhere."""
    visits = np.tile(np.array([0.0, 10.0, 30.0]), (4000, 1))
    soft = choose_game_actions(visits, np.ones(4000, bool), np.random.default_rng(0))
    assert set(soft.tolist()) == {1, 2} and 0.70 < (soft == 2).mean() < 0.79
    assert (choose_game_actions(visits, np.zeros(4000, bool), np.random.default_rng(0)) == 2).all()


def test_simple_eyes_are_not_filled() -> None:
    """The opponent would kill its own groups."""
    shape, boards = set_up(".X...", "X....", ".....", "....O", "...O.")
    assert np.flatnonzero(find_simple_eyes(shape, boards)[0]).tolist() == [0]


@pytest.mark.slow
def test_self_play_notes_each_position_with_its_result() -> None:
    """Who moves and wins learns 1, who loses -1; shares of visits add up to 1; groups are functions
    of their generator.
    """
    shape = build_board_geometry(5)
    habits = PlayerSettings(
        readouts=8, soft_moves=4, noise_alpha=0.4, noise_share=0.25, prune_noise_visits=True
    )
    one, two = (
        SelfPlayGroup(
            shape, RULES, NoiseEvaluator(26), habits, 13, np.random.default_rng([1, 2]), 6
        ).play_games()
        for _ in range(2)
    )
    assert (one.plane_EFP == two.plane_EFP).all() and (one.policy_EA == two.policy_EA).all()
    assert np.allclose(one.policy_EA.sum(axis=1), 1) and set(np.unique(one.result_E)) == {-1, 1}
    first = one.plane_EFP[:, :8].reshape(len(one), -1).sum(axis=1) == 0
    assert first.sum() == 6 and one.plane_EFP[first][:, 8].all()
    starts = np.flatnonzero(first)
    game = one.result_E[starts[0] : starts[1]]
    assert (game[:-1] == -game[1:]).all()


@pytest.mark.slow
def test_colours_alternate_in_a_match() -> None:
    """Each player is black in half of the games, and the search without a network beats noise in
    both.
    """
    shape = build_board_geometry(5)
    strong, weak = (
        MatchPlayer(evaluate=AreaEvaluator(shape, 7.5), settings=PlayerSettings(readouts=48)),
        MatchPlayer(
            evaluate=NoiseEvaluator(26), settings=PlayerSettings(readouts=4, soft_moves=35)
        ),
    )
    found = play_match(shape, RULES, strong, weak, 13, np.random.default_rng(0), 8)
    assert found.points_N.mean() > 0.7 and len(found.moves) == 8
    assert [len(values) for values in found.value_of_first] == [
        (len(moves) + (number % 2 == 0)) // 2 for number, moves in enumerate(found.moves)
    ]
