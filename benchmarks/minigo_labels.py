"""Makes workloads/minigo/positions/smoke.csv: positions of 5x5 games, with a move and a winner that
three deep searches agree on.

The games are those of a search without a network (workloads/minigo/go/area.py), with priors and
moves drawn at random, so that no trained network has had a part in them. The labels are
OpenSpiel's: Monte Carlo tree search with random rollouts, three times with other random numbers.
Where one of the three plays another move, or doubts who wins, the position is left out, and so are
those whose move is the pass.

Needs `pip install open_spiel`; nothing else of podium does. Run: python benchmarks/minigo_labels.py
--candidates 1600 -o FILE
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common.needed import import_needed
from common.tiny import TINY, add_tiny_option, choose_size

from workloads.minigo.go.area import AreaEvaluator
from workloads.minigo.go.board import Array, Boards, build_board_geometry
from workloads.minigo.go.ending import GameRules
from workloads.minigo.go.games import MatchPlayer, PlayerSettings, play_match

pyspiel: Any = import_needed("pyspiel", "pip install open_spiel")
SIZE, KOMI, LIMIT = 5, 7.5, 35
SEED = 31
PLIES = (2, 26)
"""First and last move after which positions are taken."""
READOUTS = choose_size((64, 8), (4, 2))
"""Black's and White's: komi gives White most games of equals."""
SPREAD = 1.0
"""Standard deviation of a prior's logarithm."""
SEARCHES, SIMULATIONS = choose_size((3, 1500), (2, 20))
UCT = 1.4  # Kocsis and Szepesvari 2006, section 2.2: sqrt(2)
CALIBRATED = 64
"""Positions for quantisation."""
MOST_WHITE = 2
"""Positions that White wins for each that Black wins: komi gives White most of them."""
SURE = 0.25
"""Mean result of the rollouts, -1 to 1, from which a winner is taken to be known."""


class Whims(AreaEvaluator):
    """The same search with priors drawn anew for each position: without them its games begin in the
    same corner.
    """

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Judge positions, with other priors."""
        prior_NA, value_N = super().__call__(boards, past_NTP, rng)
        return prior_NA * np.exp(rng.normal(0, SPREAD, prior_NA.shape)), value_N


def positions(count: int) -> Iterator[Sequence[int]]:
    """Yield the moves of a game up to some place in it, one place a game."""
    shape, rng = build_board_geometry(SIZE), np.random.default_rng(SEED)
    better, worse = (
        MatchPlayer(
            evaluate=Whims(shape, KOMI),
            settings=PlayerSettings(readouts=readouts, soft_moves=LIMIT),
        )
        for readouts in READOUTS
    )
    for moves in play_match(
        shape, GameRules(komi=KOMI, limit=LIMIT), better, worse, 13, rng, 2 * count
    ).moves[::2]:
        last = int(rng.integers(*PLIES))
        if last < len(moves) and shape.points not in moves[: last + 1]:
            yield moves[:last]


def searched(moves: Sequence[int], seed: int) -> tuple[int, float]:
    """Search a position deeply: the move, and the mean result for who moves."""
    game = pyspiel.load_game("go", {"board_size": SIZE, "komi": KOMI, "max_game_length": 2 * LIMIT})
    state = game.new_initial_state()
    for move in moves:
        state.apply_action(move)
    rollouts = pyspiel.RandomRolloutEvaluator(1, seed)
    bot = pyspiel.MCTSBot(game, rollouts, UCT, SIMULATIONS, 1000, False, seed, False)
    root: Any = bot.mcts_search(state)
    best = root.best_child()
    return best.action, best.total_reward / best.explore_count


def labelled(moves: Sequence[int]) -> tuple[int, int] | None:
    """Return the move and the winner (1 black, -1 white) that all searches name, or None."""
    found: list[tuple[int, float]] = []
    mover = 1 if len(moves) % 2 == 0 else -1
    for number in range(SEARCHES):
        found.append(searched(moves, SEED + number))
        if (
            found[-1][0] != found[0][0]
            or found[-1][1] * found[0][1] < 0
            or abs(found[-1][1]) < SURE
        ):
            return None
    return found[0][0], mover if found[0][1] > 0 else -mover


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--candidates", type=int, default=choose_size(1600, 2))
    add_tiny_option(options)
    options.add_argument("-o", "--output", type=Path, required=not TINY, default=Path(os.devnull))
    chosen = options.parse_args()
    kept = dict[int, list[str]]({1: [], -1: []})
    for moves in dict.fromkeys(map(tuple, positions(chosen.candidates))):
        if (label := labelled(moves)) and label[0] < SIZE * SIZE:
            kept[label[1]].append(f"{' '.join(map(str, moves))},{label[0]},{label[1]}")
    spare, white = kept[-1][:CALIBRATED], kept[-1][CALIBRATED:]
    asked = sorted([*kept[1], *white[: MOST_WHITE * len(kept[1])]])
    chosen.output.write_text(
        "".join(
            [*(f"val,{line}\n" for line in asked), *(f"calibration,{line}\n" for line in spare)]
        ),
        "ascii",
    )
    print(
        f"{len(asked)} positions, of which Black wins {len(kept[1])}, and {len(spare)} to calibrate"
        " with"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
