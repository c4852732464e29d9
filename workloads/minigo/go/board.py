"""The rules of Go for many positions at once: area scoring, no suicide, positional superko, two
passes or a move limit end a game.

Tromp and Taylor's rules (tromp.github.io/go.html) without suicide, as mlcommons/training,
reinforcement/tensorflow/minigo, plays them: all stones on the board at the end count. Superko
compares the Zobrist hashes of all earlier positions of a game.
"""

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

# Legend: N positions, C cells of a board with its border, P points, A = P + 1 actions (the last is
# the pass), K 4 neighbours, S 8 symmetries.
Array: TypeAlias = npt.NDArray[Any]
BLACK: Final = 1
WHITE: Final = -1
BORDER: Final = 2
ZOBRIST_SEED: Final = 20_26
MIN_BOARD_SIDE: Final = 2
MAX_BOARD_SIDE: Final = 19


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoardGeometry:
    """The geometry of a board size: cells in rows that share one border column, with a border row
    above and below.
    """

    size: int
    points: int
    cells: int
    stride: int
    """Cells from one row to the next."""
    cell_P: Array
    """Cell of each point, row by row."""
    near_K: Array
    """Offsets from a cell to its neighbours."""
    symmetry_SP: Array
    """Symmetry -> the point that is mapped to each position."""
    zobrist_2C: Array
    """Random 64-bit numbers for a black and a white stone on each cell."""
    distance_PP: Array
    """Distance in steps between points, regardless of stones."""

    @property
    def actions(self) -> int:
        """Number of actions: the points and the pass."""
        return self.points + 1


@cache
def build_board_geometry(size: int) -> BoardGeometry:
    """Build the geometry for a board side; ValueError for an unsupported side."""
    if not MIN_BOARD_SIDE <= size <= MAX_BOARD_SIDE:
        raise ValueError(
            f"a board of {size} x {size}: sides from {MIN_BOARD_SIDE} to {MAX_BOARD_SIDE} are "
            "supported"
        )
    stride = size + 1
    cells = stride * (size + 2)
    row, column = np.divmod(np.arange(size * size), size)
    point = np.arange(size * size).reshape(size, size)
    symmetries = [np.rot90(side, turns) for side in (point, point.T) for turns in range(4)]
    return BoardGeometry(
        size=size,
        points=size * size,
        cells=cells,
        stride=stride,
        cell_P=(row + 1) * stride + column,
        near_K=np.array([-stride, -1, 1, stride]),
        symmetry_SP=np.stack([side.reshape(-1) for side in symmetries]),
        zobrist_2C=np.random.default_rng(ZOBRIST_SEED).integers(
            1, 2**63, size=(2, cells), dtype=np.uint64
        ),
        distance_PP=(np.abs(row[:, None] - row) + np.abs(column[:, None] - column)).astype(np.int8),
    )


@dataclass(slots=True, kw_only=True, eq=False)
class Boards:
    """Positions of N games; N is the first axis of each array."""

    stones_NC: Array
    """1 black, -1 white, 0 empty, 2 border; int8."""
    group_NC: Array
    """A cell that identifies the stone's group; 0, a border cell, where there is no stone."""
    liberties_NC: Array
    """Liberties of the stone's group; 0 where there is no stone."""
    hash_N: Array
    mover_N: Array
    """1 or -1."""
    passes_N: Array
    """Consecutive passes."""
    ply_N: Array
    """Number of moves played."""

    @classmethod
    def build_empty(cls, size: int, count: int) -> "Boards":
        """Build empty boards, black to move."""
        shape = build_board_geometry(size)
        stones_NC = np.full((count, shape.cells), BORDER, np.int8)
        stones_NC[:, shape.cell_P] = 0
        return cls(
            stones_NC=stones_NC,
            group_NC=np.zeros((count, shape.cells), np.int16),
            liberties_NC=np.zeros((count, shape.cells), np.int16),
            hash_N=np.zeros(count, np.uint64),
            mover_N=np.full(count, BLACK, np.int8),
            passes_N=np.zeros(count, np.int8),
            ply_N=np.zeros(count, np.int16),
        )

    def __len__(self) -> int:
        return len(self.hash_N)

    def __getitem__(self, rows: Any) -> "Boards":
        """Copy some positions."""
        return Boards(**{name: getattr(self, name)[rows] for name in BOARD_FIELDS})

    def set_positions(self, rows: Any, positions: "Boards") -> None:
        """Overwrite some positions."""
        for name in BOARD_FIELDS:
            getattr(self, name)[rows] = getattr(positions, name)

    def copy_positions(self, rows: Any, targets: Any) -> None:
        """Copy some positions over others."""
        for name in BOARD_FIELDS:
            array = getattr(self, name)
            array[targets] = array[rows]


BOARD_FIELDS: Final = tuple(field.name for field in fields(Boards))


def play_actions(shape: BoardGeometry, boards: Boards, action_N: Array) -> Boards:
    """Play one action in each position. Actions must be legal, apart from superko, which depends on
    earlier positions.
    """
    found = boards[np.arange(len(boards))]
    rows = np.flatnonzero(action_N < shape.points)
    found.mover_N = -boards.mover_N
    found.ply_N = boards.ply_N + 1
    found.passes_N = np.where(action_N < shape.points, 0, boards.passes_N + 1).astype(np.int8)
    if len(rows):
        _place_stones(shape, found, rows, shape.cell_P[action_N[rows]], boards.mover_N[rows])
    return found


def _place_stones(
    shape: BoardGeometry, boards: Boards, rows: Array, cell_N: Array, colour_N: Array
) -> None:
    """Put a stone on a cell, remove stones without liberties, and recount liberties."""
    stones_NC, group_NC, liberties_NC, hash_N = (
        boards.stones_NC[rows],
        boards.group_NC[rows],
        boards.liberties_NC[rows],
        boards.hash_N[rows],
    )
    each = np.arange(len(rows))
    near_NK = cell_N[:, None] + shape.near_K
    side_NK, label_NK = (array[each[:, None], near_NK] for array in (stones_NC, group_NC))
    friend_NK = np.where(side_NK == colour_N[:, None], label_NK, -1)
    taken_NK = (side_NK == -colour_N[:, None]) & (liberties_NC[each[:, None], near_NK] == 1)
    merged_NC = (group_NC[:, None, :] == friend_NK[:, :, None]).any(axis=1)
    group_NC = np.where(merged_NC, cell_N[:, None].astype(np.int16), group_NC)
    group_NC[each, cell_N] = cell_N
    stones_NC[each, cell_N] = colour_N
    hash_N ^= shape.zobrist_2C[(colour_N < 0).astype(np.intp), cell_N]
    capture_rows = np.flatnonzero(taken_NK.any(axis=1))
    if len(capture_rows):
        lost_NC = (
            group_NC[capture_rows][:, None, :]
            == np.where(taken_NK, label_NK, -1)[capture_rows][:, :, None]
        ).any(axis=1)
        hash_N[capture_rows] ^= np.bitwise_xor.reduce(
            np.where(
                lost_NC,
                shape.zobrist_2C[(colour_N[capture_rows] > 0).astype(np.intp)],
                np.uint64(0),
            ),
            axis=1,
        )
        stones_NC[capture_rows] = np.where(lost_NC, 0, stones_NC[capture_rows])
        group_NC[capture_rows] = np.where(lost_NC, 0, group_NC[capture_rows])
    boards.stones_NC[rows], boards.group_NC[rows], boards.hash_N[rows] = stones_NC, group_NC, hash_N
    boards.liberties_NC[rows] = _count_liberties(shape, stones_NC, group_NC)


def _slice_neighbour_cells(array_NC: Array, stride: int) -> tuple[Array, Array, Array, Array]:
    """Return the four neighbours of all cells except those in the first and last rows."""
    last = array_NC.shape[1]
    return (
        array_NC[:, : last - 2 * stride],
        array_NC[:, stride - 1 : last - stride - 1],
        array_NC[:, stride + 1 : last - stride + 1],
        array_NC[:, 2 * stride :],
    )


def _count_liberties(shape: BoardGeometry, stones_NC: Array, group_NC: Array) -> Array:
    """Count each group's empty neighbours, each once even if several stones touch it; one bincount
    serves all positions.
    """
    count, cells = group_NC.shape
    empty = stones_NC[:, shape.stride : cells - shape.stride] == 0
    up, left, right, down = _slice_neighbour_cells(group_NC, shape.stride)
    left = np.where(left != up, left, 0)
    right = np.where((right != up) & (right != left), right, 0)
    down = np.where((down != up) & (down != left) & (down != right), down, 0)
    offset = (np.arange(count) * cells)[:, None]
    group_cells = np.concatenate([(offset + label)[empty] for label in (up, left, right, down)])
    liberties_NC = np.bincount(group_cells, minlength=count * cells).reshape(count, cells)
    liberties_NC[:, 0] = 0
    return np.take_along_axis(liberties_NC, group_NC.astype(np.intp), axis=1).astype(np.int16)


def _find_points_with_neighbours(shape: BoardGeometry, cells_NC: Array) -> Array:
    """Return for each point whether a neighbour is among some cells."""
    up, left, right, down = _slice_neighbour_cells(cells_NC, shape.stride)
    inside: Array = (up | left | right | down)[:, shape.cell_P - shape.stride]
    return inside


def find_legal_actions(shape: BoardGeometry, boards: Boards) -> Array:
    """Return which actions are legal without regard to superko, legal_NA: the pass, and empty
    points where the stone or an adjacent group keeps a liberty.
    """
    own_NC = boards.stones_NC * boards.mover_N[:, None]
    safe_NC = (
        (own_NC == 0)
        | ((own_NC == 1) & (boards.liberties_NC > 1))
        | ((own_NC == -1) & (boards.liberties_NC == 1))
    )
    legal_NA = np.ones((len(boards), shape.actions), bool)
    legal_NA[:, :-1] = (own_NC[:, shape.cell_P] == 0) & _find_points_with_neighbours(shape, safe_NC)
    return legal_NA


def find_capturing_points(shape: BoardGeometry, boards: Boards) -> Array:
    """Return for each point whether the mover's stone captures there."""
    prey_NC = (boards.stones_NC == -boards.mover_N[:, None]) & (boards.liberties_NC == 1)
    found: Array = (boards.stones_NC[:, shape.cell_P] == 0) & _find_points_with_neighbours(
        shape, prey_NC
    )
    return found


def find_repeated_positions(boards: Boards, earlier_hash_NT: Array) -> Array:
    """Return which positions repeat an earlier one, by the hashes of all earlier positions of their
    games; a pass repeats nothing.
    """
    found: Array = (earlier_hash_NT == boards.hash_N[:, None]).any(axis=1) & (boards.passes_N == 0)
    return found


def find_superko_legal_actions(
    shape: BoardGeometry, boards: Boards, earlier_hash_NT: Array
) -> Array:
    """Return which actions are legal under superko too. Captures are played out; other moves add a
    stone to the hash. The search checks superko only for moves that it reaches.
    """
    legal_NA = find_legal_actions(shape, boards)
    hash_NP = (
        boards.hash_N[:, None]
        ^ shape.zobrist_2C[(boards.mover_N < 0).astype(np.intp)][:, shape.cell_P]
    )
    rows, points = np.nonzero(legal_NA[:, :-1] & find_capturing_points(shape, boards))
    hash_NP[rows, points] = play_actions(shape, boards[rows], points).hash_N
    legal_NA[:, :-1] &= ~(hash_NP[:, :, None] == earlier_hash_NT[:, None, :]).any(axis=2)
    return legal_NA


def count_black_area_lead(shape: BoardGeometry, boards: Boards) -> Array:
    """Return black's points minus white's, without komi: stones, and empty regions that only one
    colour reaches.
    """
    empty_NC = boards.stones_NC == 0
    reach = [
        _spread_over_empty_cells(boards.stones_NC == colour, empty_NC, shape.stride)
        for colour in (BLACK, WHITE)
    ]
    black_NC, white_NC = reach[0] & ~reach[1], reach[1] & ~reach[0]
    found: Array = black_NC.sum(axis=1, dtype=np.int64) - white_NC.sum(axis=1, dtype=np.int64)
    return found


def _spread_over_empty_cells(start_NC: Array, empty_NC: Array, stride: int) -> Array:
    """Spread a mask over empty cells until it no longer grows."""
    reach_NC, before = start_NC.copy(), -1
    while (now := int(reach_NC.sum())) != before:
        before = now
        up, left, right, down = _slice_neighbour_cells(reach_NC, stride)
        reach_NC[:, stride:-stride] |= (up | left | right | down) & empty_NC[:, stride:-stride]
    return reach_NC
