"""The rules, by literal positions: captures, suicide, superko, area, the ends of games."""

import numpy as np
import pytest
from boards import at, drawn, set_up

from workloads.minigo.go.board import (
    BLACK,
    WHITE,
    Array,
    Boards,
    Geometry,
    area,
    capturing,
    geometry,
    legal,
    legal_with_superko,
    play,
    repeated,
)
from workloads.minigo.go.ending import Rules, outcome, over
from workloads.minigo.go.features import turned_back, turned_policy


def test_a_group_without_liberties_is_taken() -> None:
    """Captures that leave stones behind change every count after them."""
    shape, boards = set_up(".XX.", "XOOX", ".X..", "....")
    after = play(shape, boards, np.array([at(shape, "C2")]))
    assert drawn(shape, after) == [".XX.", "X..X", ".XX.", "...."]
    assert (
        after.liberties_NC[0, shape.cell_P[at(shape, "B4")]] == 4
        and not after.group_NC[0, shape.cell_P[at(shape, "B3")]]
    )


def test_two_groups_are_taken_at_once() -> None:
    """One stone may end several groups."""
    shape, boards = set_up("XO.OX", ".X.X.", ".....", ".....", ".....", mover=BLACK)
    after = play(shape, boards, np.array([at(shape, "C5")]))
    assert drawn(shape, after)[0] == "X.X.X"


@pytest.mark.parametrize(("mover", "allowed"), [(BLACK, True), (WHITE, False)])
def test_suicide_is_illegal(mover: int, allowed: bool) -> None:
    """An eye is its owner's alone."""
    shape, boards = set_up(".X...", "X....", ".....", ".....", ".....", mover=mover)
    assert bool(legal(shape, boards)[0, at(shape, "A5")]) is allowed


def test_suicide_of_a_group_is_illegal_and_a_capture_is_not() -> None:
    """The last liberty of one's own group may be filled only where that takes something."""
    shape, boards = set_up("O.X..", "OOX..", "XX...", ".....", ".....", mover=WHITE)
    assert not legal(shape, boards)[0, at(shape, "B5")]
    assert capturing(shape, boards).sum() == 0
    boards.mover_N[:] = BLACK
    assert legal(shape, boards)[0, at(shape, "B5")] and capturing(shape, boards)[0, at(shape, "B5")]
    assert drawn(shape, play(shape, boards, np.array([at(shape, "B5")])))[:2] == [".XX..", "..X.."]


def test_a_ko_may_not_be_taken_back() -> None:
    """The board as it was before may not come again; elsewhere, and after a change, it may be
    played there.
    """
    shape, boards = set_up(".XO..", "X.XO.", ".XO..", ".....", ".....", mover=WHITE)
    before = boards.hash_N.copy()
    taken = play(shape, boards, np.array([at(shape, "B4")]))
    assert drawn(shape, taken)[1] == "XO.O."
    seen = np.stack([before, taken.hash_N], axis=1)
    ko = at(shape, "C4")
    assert legal(shape, taken)[0, ko] and not legal_with_superko(shape, taken, seen)[0, ko]
    assert legal_with_superko(shape, taken, seen).sum() == legal(shape, taken).sum() - 1
    assert repeated(play(shape, taken, np.array([ko])), seen).all()


def test_a_longer_cycle_is_superko_too() -> None:
    """Simple ko looks one position back; positional superko looks at all of them, whoever moves."""
    shape = geometry(2)
    boards, seen = Boards.empty(2, 1), np.zeros((1, 1), np.uint64)
    for move in (0, 3, 1, 2):  # the last one takes two black stones
        boards = play(shape, boards, np.array([move]))
        seen = np.concatenate([seen, boards.hash_N[:, None]], axis=1)
    rows = drawn(shape, boards)
    assert rows == ["..", "OO"]
    found = set[str]()
    for move in np.flatnonzero(legal_with_superko(shape, boards, seen)[0, :-1]):
        found.add(str(drawn(shape, play(shape, boards, np.array([move])))))
    assert len(found) == legal_with_superko(shape, boards, seen)[0, :-1].sum()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_superko_is_what_playing_each_action_finds(size: int) -> None:
    """Hashes alone tell where nothing is captured: in random games, with passes, the same actions
    are left as when each one is played.
    """
    shape, rng, forbidden = geometry(size), np.random.default_rng(size), 0
    boards, seen = Boards.empty(size, 20), np.zeros((20, 0), np.uint64)
    for _ in range(40):
        seen = np.concatenate([seen, boards.hash_N[:, None]], axis=1)
        found, allowed = legal_with_superko(shape, boards, seen), legal(shape, boards)
        rows, actions = np.nonzero(allowed)
        played = allowed.copy()
        played[rows, actions] = ~repeated(play(shape, boards[rows], actions), seen[rows])
        assert np.array_equal(found, played)
        forbidden += int((allowed & ~found).sum())
        boards = play(shape, boards, (rng.random(found.shape) * found).argmax(axis=1))
    assert forbidden


def test_playing_leaves_what_was_before() -> None:
    """The position before a move is looked at again: for superko, and by the search."""
    shape, boards = set_up(".XO..", "X.XO.", ".XO..", ".....", ".....", mover=WHITE)
    before, rows = boards.hash_N.copy(), drawn(shape, boards)
    play(shape, boards, np.array([at(shape, "B4")]))
    assert (boards.hash_N == before).all() and drawn(shape, boards) == rows


def test_a_pass_repeats_nothing() -> None:
    """It leaves the board as it is, and is always legal."""
    shape, boards = set_up("X..", "...", "...")
    passed = play(shape, boards, np.array([9]))
    assert (
        not repeated(passed, boards.hash_N[:, None]).any()
        and passed.passes_N[0] == 1
        and legal(shape, passed)[0, 9]
    )


def test_area_counts_stones_and_regions_of_one_colour() -> None:
    """A region that both reach is nobody's; dead stones count, as Tromp and Taylor have it."""
    shape, boards = set_up(".X.O.", "XX.OO", ".X.O.", "XX.OO", ".X.O.")
    assert area(shape, boards)[0] == 0
    shape, boards = set_up(".X...", "XX...", "..X..", ".....", "....O")
    assert area(shape, boards)[0] == 4 + 1 - 1
    shape, boards = set_up("X...", "....", "....", "....")
    assert area(shape, boards)[0] == 16 and area(shape, Boards.empty(4, 1))[0] == 0


def test_games_end_by_two_passes_or_the_limit() -> None:
    """And komi decides."""
    shape, boards = set_up("X..", "...", "...")
    rules = Rules(komi=7.5, limit=4)
    once = play(shape, boards, np.array([9]))
    assert not over(rules, once).any()
    assert over(rules, play(shape, once, np.array([9]))).all()
    once.ply_N[:] = 4
    assert over(rules, once).all()
    assert (
        outcome(shape, rules, boards)[0] == 1
        and outcome(shape, Rules(komi=9.5, limit=4), boards)[0] == -1
    )


def zobrist(shape: Geometry, stones_C: Array) -> np.uint64:
    """Hash a board from nothing."""
    found = np.uint64(0)
    for cell in shape.cell_P:
        if stones_C[cell]:
            found ^= shape.zobrist_2C[int(stones_C[cell] < 0), cell]
    return found


def test_the_hash_is_the_position_s() -> None:
    """Whatever the order of moves, and with captures: superko compares nothing else."""
    shape = geometry(5)
    rng = np.random.default_rng(3)
    boards = Boards.empty(5, 64)
    for _ in range(60):
        legal_NA = legal(shape, boards)
        boards = play(
            shape, boards, np.array([rng.choice(np.flatnonzero(row)) for row in legal_NA])
        )
        wanted = [zobrist(shape, stones_C) for stones_C in boards.stones_NC]
        assert (boards.hash_N == np.array(wanted, np.uint64)).all()


def test_many_boards_are_played_as_one_is() -> None:
    """Games side by side must not reach into one another."""
    shape, rng = geometry(5), np.random.default_rng(1)
    many, alone = Boards.empty(5, 8), [Boards.empty(5, 1) for _ in range(8)]
    for _ in range(50):
        moves = np.array([rng.choice(np.flatnonzero(row)) for row in legal(shape, many)])
        many = play(shape, many, moves)
        alone = [play(shape, boards, moves[[number]]) for number, boards in enumerate(alone)]
    for name in ("stones_NC", "liberties_NC"):
        assert all(
            (getattr(many, name)[number] == getattr(boards, name)[0]).all()
            for number, boards in enumerate(alone)
        )


def test_symmetries_are_undone() -> None:
    """A policy that comes back to other points would teach nonsense."""
    shape = geometry(5)
    policy_NA = np.random.default_rng(0).random((8, 26))
    symmetry_N = np.arange(8)
    assert (
        turned_back(shape, turned_policy(shape, policy_NA, symmetry_N), symmetry_N) == policy_NA
    ).all()
    assert len({tuple(row) for row in shape.symmetry_SP.tolist()}) == 8


def test_a_board_of_another_side_is_refused() -> None:
    """Cells are counted in two bytes."""
    with pytest.raises(ValueError, match="20 x 20"):
        geometry(20)
