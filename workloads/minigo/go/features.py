"""The network's input for a position: bytes 0 or 1, from the mover's point of view.

mlcommons/training, reinforcement/tensorflow/minigo, features.py: 17 planes (own and the opponent's
stones of eight positions, colour) up to v0.6, 13 (four positions, colour, groups of one, two and
three liberties, points that capture) in v0.7.
"""

from typing import Final

import numpy as np

from workloads.minigo.go.board import BLACK, Array, BoardGeometry, Boards, find_capturing_points

# Legend: N positions, F planes, P points, A actions, T positions that are seen, the newest first.
SHOWN_POSITIONS_BY_PLANES: Final = {13: 4, 17: 8}
"""Number of planes -> number of positions that the network sees."""
LIBERTY_PLANES: Final = (1, 2, 3)


def build_feature_planes(
    shape: BoardGeometry, boards: Boards, past_NTP: Array, count: int
) -> Array:
    """Build plane_NFP (uint8) from positions and from their own and earlier stones (1, -1, 0)."""
    mover_N11 = boards.mover_N[:, None, None]
    plane_NFP = np.zeros((len(boards), count, shape.points), np.uint8)
    stones = 2 * SHOWN_POSITIONS_BY_PLANES[count]
    plane_NFP[:, 0:stones:2] = past_NTP == mover_N11
    plane_NFP[:, 1:stones:2] = past_NTP == -mover_N11
    plane_NFP[:, stones] = (boards.mover_N == BLACK)[:, None]
    if count > stones + 1:
        liberties_NP = boards.liberties_NC[:, shape.cell_P]
        for number, liberties in enumerate(LIBERTY_PLANES, stones + 1):
            plane_NFP[:, number] = liberties_NP == liberties
        plane_NFP[:, -1] = find_capturing_points(shape, boards)
    return plane_NFP


def prepend_current_stones(shape: BoardGeometry, boards: Boards, past_NTP: Array) -> Array:
    """Prepend the current stones to the earlier ones, and drop the oldest."""
    now_N1P = boards.stones_NC[:, None, shape.cell_P]
    return np.concatenate([now_N1P, past_NTP[:, :-1]], axis=1)


def apply_plane_symmetries(shape: BoardGeometry, plane_NFP: Array, symmetry_N: Array) -> Array:
    """Rotate and mirror each position."""
    return np.take_along_axis(plane_NFP, shape.symmetry_SP[symmetry_N][:, None, :], axis=2)


def apply_policy_symmetries(shape: BoardGeometry, policy_NA: Array, symmetry_N: Array) -> Array:
    """Rotate and mirror probabilities of actions; the pass is unchanged."""
    found = policy_NA.copy()
    found[:, :-1] = np.take_along_axis(policy_NA[:, :-1], shape.symmetry_SP[symmetry_N], axis=1)
    return found


def revert_policy_symmetries(shape: BoardGeometry, policy_NA: Array, symmetry_N: Array) -> Array:
    """Undo `apply_policy_symmetries`."""
    found = policy_NA.copy()
    np.put_along_axis(found[:, :-1], shape.symmetry_SP[symmetry_N], policy_NA[:, :-1], axis=1)
    return found
