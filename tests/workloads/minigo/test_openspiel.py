"""OpenSpiel as oracle: legal moves and results of random games. It is no dependency; where it is
not installed, this is left out.
"""

import numpy as np
import pytest

from workloads.minigo.go.board import (
    Boards,
    build_board_geometry,
    count_black_area_lead,
    find_legal_actions,
    find_superko_legal_actions,
    play_actions,
)

pyspiel = pytest.importorskip("pyspiel")
KOMI = 7.5


@pytest.mark.parametrize(("size", "games"), [(5, 6), (7, 4), (9, 3)])
def test_legal_moves_and_results_are_openspiel_s(size: int, games: int) -> None:
    """Both read the rules on their own. OpenSpiel lets a repeating move be played or, by simple ko,
    not; ours forbids every one.
    """
    shape, rng = build_board_geometry(size), np.random.default_rng(size)
    game = pyspiel.load_game("go", {"board_size": size, "komi": KOMI, "max_game_length": 400})
    for _ in range(games):
        state, boards, seen = (
            game.new_initial_state(),
            Boards.build_empty(size, 1),
            np.zeros((1, 0), np.uint64),
        )
        while not state.is_terminal() and boards.ply_N[0] < 200:
            seen = np.concatenate([seen, boards.hash_N[:, None]], axis=1)
            ours, strict, theirs = (
                set(np.flatnonzero(find_legal_actions(shape, boards)[0])),
                find_superko_legal_actions(shape, boards, seen)[0],
                set(state.legal_actions()),
            )
            assert theirs <= ours and not any(strict[move] for move in ours - theirs)
            points = np.flatnonzero(strict[:-1])
            move = int(rng.choice(points)) if len(points) and rng.random() > 0.02 else shape.points
            state.apply_action(move)
            boards = play_actions(shape, boards, np.array([move]))
        if boards.passes_N[0] >= 2:
            assert (state.returns()[0] > 0) == (count_black_area_lead(shape, boards)[0] > KOMI)
