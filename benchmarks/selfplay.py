"""Measures positions searched per CPU second in self-play: podium's search in numpy against
OpenSpiel's search in Python on its own C++ rules.

5x5 Go, whole games, 16 readouts a move, smoke's network untrained. Ours plays 80 games side by
side, as a group of self-play does, and evaluates
a position of each at once. OpenSpiel's bot (open_spiel.python.algorithms.mcts, PUCT) plays one game
after the other, and asks for one position at a
time, as its AlphaZero evaluator does; its observation has fewer planes, the rest are 0. One thread
each; CPU seconds of the process, since other
programs on the machine would be measured otherwise. OpenSpiel is no dependency: pip install
--no-deps open_spiel absl-py.

Usage: python benchmarks/selfplay.py [--pairs N] [--format text|json]
"""

import time
from typing import Any, Final

import numpy as np
import torch
from common.figures import arguments, compare, show
from common.needed import import_needed
from common.tiny import choose_size

from workloads.minigo.go.board import build_board_geometry
from workloads.minigo.go.ending import GameRules
from workloads.minigo.go.games import PlayerSettings, SelfPlayGroup
from workloads.minigo.model import MiniGoDescription, MiniGoNetwork, build_fused_network
from workloads.minigo.player import NetworkPlayer

INSTALL: Final = "pip install --no-deps open_spiel absl-py"
pyspiel: Any = import_needed("pyspiel", INSTALL)
mcts: Any = import_needed("open_spiel.python.algorithms.mcts", INSTALL)
SIZE, KOMI, LIMIT, PLANES = 5, 7.5, 35, 13
READOUTS: Final = choose_size(16, 2)
"""Readouts per move, as in smoke."""
GAMES: Final = choose_size(80, 2)
THEIR_GAMES: Final = choose_size(2, 1)
UCT_C: Final = 2.0


def network() -> MiniGoNetwork:
    """Make smoke's network."""
    torch.manual_seed(0)
    return MiniGoNetwork(
        MiniGoDescription(
            workload="minigo", board=SIZE, planes=PLANES, filters=24, blocks=3, hidden=64
        )
    ).eval()


class OneByOne:
    """OpenSpiel's Evaluator."""

    def __init__(self) -> None:
        self._network = build_fused_network(network())
        self._kept: tuple[str, Any, float] = ("", None, 0.0)

    def _answer(self, state: Any) -> tuple[Any, float]:
        """Evaluate a position once: the search asks for its value and its priors."""
        if self._kept[0] != (key := str(state)):
            shown = np.zeros((1, PLANES, SIZE, SIZE), np.float32)
            seen = np.array(state.observation_tensor(state.current_player()), np.float32).reshape(
                -1, SIZE, SIZE
            )
            shown[0, : len(seen)] = seen
            with torch.inference_mode():
                logit_1A, value_1 = self._network(torch.from_numpy(shown))
                self._kept = key, torch.softmax(logit_1A, dim=1)[0].numpy(), float(value_1)
        return self._kept[1:]

    def evaluate(self, state: Any) -> Any:
        """Return the value for each player."""
        value = self._answer(state)[1] * (1 if state.current_player() == 0 else -1)
        return np.array([value, -value])

    def prior(self, state: Any) -> Any:
        """Return the priors of legal actions."""
        share_A = self._answer(state)[0]
        return [(action, share_A[action]) for action in state.legal_actions()]


def ours() -> float:
    """Measure positions per CPU second."""
    habits = PlayerSettings(readouts=READOUTS, noise_alpha=0.4, noise_share=0.25, soft_moves=LIMIT)
    began = time.process_time()
    examples = SelfPlayGroup(
        build_board_geometry(SIZE),
        GameRules(komi=KOMI, limit=LIMIT),
        NetworkPlayer(network()),
        habits,
        PLANES,
        np.random.default_rng(1),
        GAMES,
    ).play_games()
    return len(examples) * READOUTS / (time.process_time() - began)


def theirs() -> float:
    """Measure positions per CPU second."""
    game = pyspiel.load_game("go", {"board_size": SIZE, "komi": KOMI, "max_game_length": LIMIT})
    rng = np.random.RandomState(1)
    noise = (0.25, 0.4)
    bot = mcts.MCTSBot(
        game,
        UCT_C,
        READOUTS,
        OneByOne(),
        solve=False,
        random_state=rng,
        child_selection_fn=mcts.SearchNode.puct_value,
        dirichlet_noise=noise,
    )
    moves = 0
    began = time.process_time()
    for _ in range(THEIR_GAMES):
        state = game.new_initial_state()
        while not state.is_terminal():
            state.apply_action(bot.step(state))
            moves += 1
    return moves * READOUTS / (time.process_time() - began)


def main() -> None:
    torch.set_num_threads(1)
    given = arguments(__doc__ or "", pairs=3)
    rates = [(ours(), theirs()) for _ in range(given.pairs)]
    mine, others = ([pair[side] for pair in rates] for side in (0, 1))
    notes = {
        "Board": f"{SIZE}x{SIZE}",
        "Readouts": READOUTS,
        "Games side by side": GAMES,
        "Slowest": f"{min(mine):.0f} positions/CPU s",
    }
    show(
        "Self-play in numpy against OpenSpiel's search in Python; twice as many is the aim",
        compare(mine, others, "positions/CPU s"),
        given.form,
        notes,
    )


if __name__ == "__main__":
    main()
