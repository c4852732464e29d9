"""Plays games of a trained Mini-Go network against GNU Go, as an independent yardstick.

GNU Go passes while dead stones are still on the board, and area scoring counts them:
--capture-all-dead makes it capture them first. Needs Debian's gnugo. Run: python
benchmarks/gnugo.py --checkpoint FOLDER --games 32
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
from common.needed import MISSING_CODE
from common.tiny import TINY, add_tiny_option, choose_size

from workloads.minigo import model
from workloads.minigo.go.area import PassLastEvaluator
from workloads.minigo.go.board import build_board_geometry, play_actions
from workloads.minigo.go.ending import GameRules, compute_winners, find_ended_games
from workloads.minigo.go.features import prepend_current_stones
from workloads.minigo.go.games import (
    MatchPlayer,
    PlayerSettings,
    build_empty_games,
    search_player_actions,
)
from workloads.minigo.player import NetworkPlayer
from workloads.minigo.positions.moves import check_legal_game, format_go_move, parse_go_move

# Legend: N games, T positions seen, P points, H positions of a game.
PROGRAM: Final = "gnugo"
OPTIONS: Final = (
    "--mode",
    "gtp",
    "--chinese-rules",
    "--capture-all-dead",
    "--positional-superko",
    "--forbid-suicide",
    "--never-resign",
)
KOMI: Final = 7.5
POINT_LIMIT: Final = 1.4
"""Moves per point after which a game is scored as it is, as in smoke's row."""
UNTRAINED: Final = model.MiniGoDescription(
    workload="minigo", board=5, planes=13, filters=8, blocks=1, hidden=8
)
SOFT_MOVES: Final = 4
"""Number of first moves that the network draws by visits, so that games differ, as in smoke's
evaluations.
"""


class ProgramError(Exception):
    """GNU Go replied with an error, or not according to the Go Text Protocol."""


class GnuGo:
    """One game of GNU Go, over Go Text Protocol 2."""

    def __init__(self, size: int, level: int, seed: int) -> None:
        command = [PROGRAM, *OPTIONS, "--level", str(level), "--seed", str(seed)]
        self._size = size
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for line in (f"boardsize {size}", "clear_board", f"komi {KOMI}"):
            self.ask(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()

    def ask(self, line: str) -> str:
        """Send a command and wait for the reply; ProgramError if it is an error."""
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()
        told = self._child.stdout.readline()
        self._child.stdout.readline()  # an answer ends with an empty line
        if not told.startswith("="):
            raise ProgramError(f"{PROGRAM} answers {told.strip()!r} to {line!r}")
        return told[1:].strip()

    def move(self, colour: str) -> int:
        """Return GNU Go's move."""
        told = self.ask(f"genmove {colour}")
        found = parse_go_move("pass" if told.casefold() == "pass" else told, self._size)
        if found is None:
            raise ProgramError(f"{PROGRAM} moves {told!r}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A finished game."""

    black: bool
    """Whether the network was black."""
    points: float
    """1 if the network won, 0.5 for a draw."""
    moves: tuple[int, ...]


def games(
    player: MatchPlayer, size: int, planes: int, *, count: int, level: int, seed: int
) -> list[Game]:
    """Play games side by side, the network black in every other one; each move is checked by the
    rules of workloads/minigo/go.
    """
    shape, rules, rng = (
        build_board_geometry(size),
        GameRules(komi=KOMI, limit=int(POINT_LIMIT * size**2)),
        np.random.default_rng(seed),
    )
    boards, past_NTP, history_NH = build_empty_games(shape, count, planes)
    moves: list[list[int]] = [[] for _ in range(count)]
    with ExitStack() as stack:
        others = [stack.enter_context(GnuGo(size, level, seed + number)) for number in range(count)]
        while len(rows := np.flatnonzero(~find_ended_games(rules, boards))):
            mine = rows[[len(moves[row]) % 2 == row % 2 for row in rows]]
            action_N = np.full(count, shape.points)
            if len(mine):
                action_N[mine], _ = search_player_actions(
                    shape, rules, player, boards[mine], past_NTP[mine], history_NH[mine], rng
                )
            for row in rows:
                colour = "white" if len(moves[row]) % 2 else "black"
                if row in mine:
                    others[row].ask(f"play {colour} {format_go_move(int(action_N[row]), size)}")
                else:
                    action_N[row] = others[row].move(colour)
                moves[row].append(int(action_N[row]))
            history_NH = np.concatenate([history_NH, boards.hash_N[:, None]], axis=1)
            after = play_actions(shape, boards[rows], action_N[rows])
            past_NTP[rows] = prepend_current_stones(shape, after, past_NTP[rows])
            boards.set_positions(rows, after)
    for number, each in enumerate(moves):
        check_legal_game(f"game {number}", each, size)
    black_N = compute_winners(shape, rules, boards)
    return [
        Game(
            black=row % 2 == 0,
            points=float((black_N[row] * (-1 if row % 2 else 1) + 1) / 2),
            moves=tuple(moves[row]),
        )
        for row in range(count)
    ]


def summary(played: Sequence[Game], settings: Mapping[str, object]) -> dict[str, object]:
    """Count the wins."""
    black, white = (
        [game.points for game in played if game.black is colour] for colour in (True, False)
    )
    sizes = {
        "games": len(played),
        "moves_of_a_game": sum(len(game.moves) for game in played) / len(played),
    }
    return {
        **settings,
        **sizes,
        "won": sum(black) + sum(white),
        "won_as_black": sum(black),
        "won_as_white": sum(white),
    }


def main() -> int:
    """Play, and print the results as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        required=not TINY,
        help="a folder as podium train exports it (--tiny: an untrained network)",
    )
    add_tiny_option(parser)
    for name, default in (
        ("games", choose_size(32, 2)),
        ("readouts", choose_size(32, 2)),
        ("level", 1),
        ("seed", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    if shutil.which(PROGRAM) is None:
        print(f"{PROGRAM} is not installed: apt-get install {PROGRAM}", file=sys.stderr)
        return MISSING_CODE
    network = (
        model.load_minigo_checkpoint(asked.checkpoint)
        if asked.checkpoint
        else model.MiniGoNetwork(UNTRAINED).eval()
    )
    size = network.description.board
    player = MatchPlayer(
        evaluate=PassLastEvaluator(build_board_geometry(size), NetworkPlayer(network)),
        settings=PlayerSettings(readouts=asked.readouts, soft_moves=SOFT_MOVES),
    )
    played = games(
        player,
        size,
        network.description.planes,
        count=asked.games,
        level=asked.level,
        seed=asked.seed,
    )
    print(
        json.dumps(
            summary(
                played,
                {
                    "board": size,
                    "readouts": asked.readouts,
                    "level": asked.level,
                    "seed": asked.seed,
                },
            ),
            indent=1,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
