"""The rules, by literal positions: captures, suicide, superko, area, the ends of games."""

import numpy as np
import pytest
from boards import at, drawn, set_up

from workloads.minigo.go.board import (
    BLACK,
    WHITE,
    Array,
    BoardGeometry,
    Boards,
    build_board_geometry,
    count_black_area_lead,
    find_capturing_points,
    find_legal_actions,
    find_repeated_positions,
    find_superko_legal_actions,
    play_actions,
)
from workloads.minigo.go.ending import GameRules, compute_winners, find_ended_games
from workloads.minigo.go.features import apply_policy_symmetries, revert_policy_symmetries


def test_a_group_without_liberties_is_taken() -> None:
    """Captures that leave stones behind change every count after them."""
    shape, boards = set_up(".XX.", "XOOX", ".X..", "....")
    after = play_actions(shape, boards, np.array([at(shape, "C2")]))
    assert drawn(shape, after) == [".XX.", "X..X", ".XX.", "...."]
    assert (
        after.liberties_NC[0, shape.cell_P[at(shape, "B4")]] == 4
        and not after.group_NC[0, shape.cell_P[at(shape, "B3")]]
    )


def test_two_groups_are_taken_at_once() -> None:
    """One stone may end several groups."""
    shape, boards = set_up("XO.OX", ".X.X.", ".....", ".....", ".....", mover=BLACK)
    after = play_actions(shape, boards, np.array([at(shape, "C5")]))
    assert drawn(shape, after)[0] == "X.X.X"


@pytest.mark.parametrize(("mover", "allowed"), [(BLACK, True), (WHITE, False)])
def test_suicide_is_illegal(mover: int, allowed: bool) -> None:
    """An eye is its owner's alone."""
    shape, boards = set_up(".X...", "X....", ".....", ".....", ".....", mover=mover)
    assert bool(find_legal_actions(shape, boards)[0, at(shape, "A5")]) is allowed


def test_suicide_of_a_group_is_illegal_and_a_capture_is_not() -> None:
    """The last liberty of one's own group may be filled only where that takes something."""
    shape, boards = set_up("O.X..", "OOX..", "XX...", ".....", ".....", mover=WHITE)
    assert not find_legal_actions(shape, boards)[0, at(shape, "B5")]
    assert find_capturing_points(shape, boards).sum() == 0
    boards.mover_N[:] = BLACK
    assert (
        find_legal_actions(shape, boards)[0, at(shape, "B5")]
        and find_capturing_points(shape, boards)[0, at(shape, "B5")]
    )
    assert drawn(shape, play_actions(shape, boards, np.array([at(shape, "B5")])))[:2] == [
        ".XX..",
        "..X..",
    ]


def test_a_ko_may_not_be_taken_back() -> None:
    """The board as it was before may not come again; elsewhere, and after a change, it may be
    played there.
    """
    shape, boards = set_up(".XO..", "X.XO.", ".XO..", ".....", ".....", mover=WHITE)
    before = boards.hash_N.copy()
    taken = play_actions(shape, boards, np.array([at(shape, "B4")]))
    assert drawn(shape, taken)[1] == "XO.O."
    seen = np.stack([before, taken.hash_N], axis=1)
    ko = at(shape, "C4")
    assert (
        find_legal_actions(shape, taken)[0, ko]
        and not find_superko_legal_actions(shape, taken, seen)[0, ko]
    )
    assert (
        find_superko_legal_actions(shape, taken, seen).sum()
        == find_legal_actions(shape, taken).sum() - 1
    )
    assert find_repeated_positions(play_actions(shape, taken, np.array([ko])), seen).all()


def test_a_longer_cycle_is_superko_too() -> None:
    """Simple ko looks one position back; positional superko looks at all of them, whoever moves."""
    shape = build_board_geometry(2)
    boards, seen = Boards.build_empty(2, 1), np.zeros((1, 1), np.uint64)
    for move in (0, 3, 1, 2):  # the last one takes two black stones
        boards = play_actions(shape, boards, np.array([move]))
        seen = np.concatenate([seen, boards.hash_N[:, None]], axis=1)
    rows = drawn(shape, boards)
    assert rows == ["..", "OO"]
    found = set[str]()
    for move in np.flatnonzero(find_superko_legal_actions(shape, boards, seen)[0, :-1]):
        found.add(str(drawn(shape, play_actions(shape, boards, np.array([move])))))
    assert len(found) == find_superko_legal_actions(shape, boards, seen)[0, :-1].sum()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_superko_is_what_playing_each_action_finds(size: int) -> None:
    """Hashes alone tell where nothing is captured: in random games, with passes, the same actions
    are left as when each one is played.
    """
    shape, rng, forbidden = build_board_geometry(size), np.random.default_rng(size), 0
    boards, seen = Boards.build_empty(size, 20), np.zeros((20, 0), np.uint64)
    for _ in range(40):
        seen = np.concatenate([seen, boards.hash_N[:, None]], axis=1)
        found, allowed = (
            find_superko_legal_actions(shape, boards, seen),
            find_legal_actions(shape, boards),
        )
        rows, actions = np.nonzero(allowed)
        played = allowed.copy()
        played[rows, actions] = ~find_repeated_positions(
            play_actions(shape, boards[rows], actions), seen[rows]
        )
        assert np.array_equal(found, played)
        forbidden += int((allowed & ~found).sum())
        boards = play_actions(shape, boards, (rng.random(found.shape) * found).argmax(axis=1))
    assert forbidden


def test_playing_leaves_what_was_before() -> None:
    """The position before a move is looked at again: for superko, and by the search."""
    shape, boards = set_up(".XO..", "X.XO.", ".XO..", ".....", ".....", mover=WHITE)
    before, rows = boards.hash_N.copy(), drawn(shape, boards)
    play_actions(shape, boards, np.array([at(shape, "B4")]))
    assert (boards.hash_N == before).all() and drawn(shape, boards) == rows


def test_a_pass_repeats_nothing() -> None:
    """It leaves the board as it is, and is always legal."""
    shape, boards = set_up("X..", "...", "...")
    passed = play_actions(shape, boards, np.array([9]))
    assert (
        not find_repeated_positions(passed, boards.hash_N[:, None]).any()
        and passed.passes_N[0] == 1
        and find_legal_actions(shape, passed)[0, 9]
    )


def test_area_counts_stones_and_regions_of_one_colour() -> None:
    """A region that both reach is nobody's; dead stones count, as Tromp and Taylor have it."""
    shape, boards = set_up(".X.O.", "XX.OO", ".X.O.", "XX.OO", ".X.O.")
    assert count_black_area_lead(shape, boards)[0] == 0
    shape, boards = set_up(".X...", "XX...", "..X..", ".....", "....O")
    assert count_black_area_lead(shape, boards)[0] == 4 + 1 - 1
    shape, boards = set_up("X...", "....", "....", "....")
    assert (
        count_black_area_lead(shape, boards)[0] == 16
        and count_black_area_lead(shape, Boards.build_empty(4, 1))[0] == 0
    )


def test_games_end_by_two_passes_or_the_limit() -> None:
    """And komi decides."""
    shape, boards = set_up("X..", "...", "...")
    rules = GameRules(komi=7.5, limit=4)
    once = play_actions(shape, boards, np.array([9]))
    assert not find_ended_games(rules, once).any()
    assert find_ended_games(rules, play_actions(shape, once, np.array([9]))).all()
    once.ply_N[:] = 4
    assert find_ended_games(rules, once).all()
    assert (
        compute_winners(shape, rules, boards)[0] == 1
        and compute_winners(shape, GameRules(komi=9.5, limit=4), boards)[0] == -1
    )


def zobrist(shape: BoardGeometry, stones_C: Array) -> np.uint64:
    """Hash a board from nothing."""
    found = np.uint64(0)
    for cell in shape.cell_P:
        if stones_C[cell]:
            found ^= shape.zobrist_2C[int(stones_C[cell] < 0), cell]
    return found


def test_the_hash_is_the_position_s() -> None:
    """Whatever the order of moves, and with captures: superko compares nothing else."""
    shape = build_board_geometry(5)
    rng = np.random.default_rng(3)
    boards = Boards.build_empty(5, 64)
    for _ in range(60):
        legal_NA = find_legal_actions(shape, boards)
        boards = play_actions(
            shape, boards, np.array([rng.choice(np.flatnonzero(row)) for row in legal_NA])
        )
        wanted = [zobrist(shape, stones_C) for stones_C in boards.stones_NC]
        assert (boards.hash_N == np.array(wanted, np.uint64)).all()


def test_many_boards_are_played_as_one_is() -> None:
    """Games side by side must not reach into one another."""
    shape, rng = build_board_geometry(5), np.random.default_rng(1)
    many, alone = Boards.build_empty(5, 8), [Boards.build_empty(5, 1) for _ in range(8)]
    for _ in range(50):
        moves = np.array(
            [rng.choice(np.flatnonzero(row)) for row in find_legal_actions(shape, many)]
        )
        many = play_actions(shape, many, moves)
        alone = [
            play_actions(shape, boards, moves[[number]]) for number, boards in enumerate(alone)
        ]
    for name in ("stones_NC", "liberties_NC"):
        assert all(
            (getattr(many, name)[number] == getattr(boards, name)[0]).all()
            for number, boards in enumerate(alone)
        )


def test_symmetries_are_undone() -> None:
    """A policy that comes back to other points would teach nonsense."""
    shape = build_board_geometry(5)
    policy_NA = np.random.default_rng(0).random((8, 26))
    symmetry_N = np.arange(8)
    assert (
        revert_policy_symmetries(
            shape, apply_policy_symmetries(shape, policy_NA, symmetry_N), symmetry_N
        )
        == policy_NA
    ).all()
    assert len({tuple(row) for row in shape.symmetry_SP.tolist()}) == 8


def test_a_board_of_another_side_is_refused() -> None:
    """Cells are counted in two bytes."""
    with pytest.raises(ValueError, match="20 x 20"):
        build_board_geometry(20)
