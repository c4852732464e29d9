"""A game of an evaluation for reports: the board after each move, and how the network's search saw
its chances; no framework.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, Final

from suite.errors import RequestError
from suite.examples import Episode, Example
from workloads.minigo.examples import CELL_PX, RIGHT, svg
from workloads.minigo.go.board import FEWEST_SIDE, MOST_SIDE
from workloads.minigo.positions.moves import action, check_legal
from workloads.minigo.positions.stones import boards_after

MOST_MOVES: Final = 2 * MOST_SIDE**2
"""mlcommons/training v0.6, minigo: games end after two moves a point."""
RING: Final = " A ring marks the stone that was just put down."
ENDINGS: Final = {1.0: "It won.", 0.5: "It was a draw.", 0.0: "It lost."}
OPPONENTS: Final = {
    "area": "the search without a network",
    "checkpoint": "the opponent's checkpoint",
}


def episode(told: Any) -> Episode:
    """Read what a log has of a game; ValueError names what is wrong, as an illegal move."""
    if not isinstance(told, dict):
        raise ValueError("a game of an evaluation is a table")
    size, values, opponent = told.get("board"), told.get("values"), told.get("opponent")
    if type(size) is not int or not FEWEST_SIDE <= size <= MOST_SIDE:
        raise ValueError(f"a game of an evaluation on a board of {size!r}")
    moves = played(told.get("moves"), size)
    if (
        not isinstance(values, list)
        or len(values) != (len(moves) + 1) // 2
        or not all(map(is_value, values))
    ):
        raise ValueError(
            "a game of an evaluation without one value, -1 to 1, for each move of black's"
        )
    ending = ENDINGS.get(told["won"], "") if isinstance(told.get("won"), float | int) else ""
    against = (
        OPPONENTS.get(opponent, "its opponent") if isinstance(opponent, str) else "its opponent"
    )
    return Episode(
        title="A game of the trained network",
        description=(
            "The first game of the evaluation, whatever came of it: the network is black, and"
            f" plays {against}. {ending}".strip()
        )
        + RING,
        frames=tuple(frames(moves, str(told["moves"]).split(), size)),
        estimates=tuple((2.0 * number + 1, (1 + value) / 2) for number, value in enumerate(values)),
        epoch_name="generation",
    )


def played(text: Any, size: int) -> list[int]:
    """Read the moves, all of them legal; ValueError."""
    words = text.split() if isinstance(text, str) else []
    if not 0 < len(words) <= MOST_MOVES:
        raise ValueError(
            f"a game of an evaluation with {len(words)} moves; 1 to {MOST_MOVES} are drawn"
        )
    moves = [action(word, size) for word in words]
    if None in moves:
        raise ValueError(
            f"a game of an evaluation: move {moves.index(None) + 1},"
            f" {words[moves.index(None)][:8]!r}, is none of a board of {size} x {size}"
        )
    known = [move for move in moves if move is not None]
    try:
        check_legal("a game of an evaluation", known, size)
    except RequestError as error:
        raise ValueError(str(error)) from error
    return known


def is_value(value: Any) -> bool:
    """Tell whether a search's value may be one."""
    return type(value) in (int, float) and isfinite(value) and -1 <= value <= 1


def frames(moves: Sequence[int], words: Sequence[str], size: int) -> Iterator[Example]:
    """Draw the board after each move, with a ring around the stone that was put on it."""
    side = (size + 1) * CELL_PX
    for number, stones in enumerate(boards_after(moves, size), 1):
        caption = f"{'black' if number % 2 else 'white'} {words[number - 1]}"
        picture = svg(stones, size, {moves[number - 1]: RIGHT})
        yield Example(
            sample=number,
            right=None,
            expected=caption,
            answered="",
            picture=picture,
            width=side,
            height=side,
        )
