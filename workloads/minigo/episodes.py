"""A game of an evaluation for reports: the board after each move, and the search's winning
estimates. Imports no framework.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, Final

from suite.errors import RequestError
from suite.examples import Episode, Example
from workloads.minigo.examples import CELL_PX, RIGHT_MOVE_COLOUR, render_board_data_url
from workloads.minigo.go.board import MAX_BOARD_SIDE, MIN_BOARD_SIDE
from workloads.minigo.positions.moves import check_legal_game, parse_go_move
from workloads.minigo.positions.stones import iterate_stones_after_moves

MAX_EPISODE_MOVES: Final = 2 * MAX_BOARD_SIDE**2
"""mlcommons/training v0.6, minigo: games end after two moves per point."""
RING_NOTE: Final = " A ring marks the stone that was just played."
ENDING_SENTENCES: Final = {1.0: "It won.", 0.5: "It was a draw.", 0.0: "It lost."}
OPPONENT_NAMES: Final = {
    "area": "the search without a network",
    "checkpoint": "the opponent's checkpoint",
}


def episode(game_record: Any) -> Episode:
    """Parse a logged game; ValueError if it is invalid, for example for an illegal move."""
    if not isinstance(game_record, dict):
        raise ValueError("the game of an evaluation must be a table")
    size, values, opponent = (
        game_record.get("board"),
        game_record.get("values"),
        game_record.get("opponent"),
    )
    if type(size) is not int or not MIN_BOARD_SIDE <= size <= MAX_BOARD_SIDE:
        raise ValueError(f"the game of an evaluation has a board of invalid size {size!r}")
    moves = parse_episode_moves(game_record.get("moves"), size)
    if (
        not isinstance(values, list)
        or len(values) != (len(moves) + 1) // 2
        or not all(map(is_search_value, values))
    ):
        raise ValueError(
            "the game of an evaluation needs one value, -1 to 1, for each of black's moves"
        )
    ending = ""
    if isinstance(game_record.get("won"), float | int):
        ending = ENDING_SENTENCES.get(game_record["won"], "")
    against = "its opponent"
    if isinstance(opponent, str):
        against = OPPONENT_NAMES.get(opponent, "its opponent")
    return Episode(
        title="A game of the trained network",
        description=(
            "The first game of the evaluation, whatever its result: the network plays black "
            f"against {against}. {ending}".strip()
        )
        + RING_NOTE,
        frames=tuple(render_episode_frames(moves, str(game_record["moves"]).split(), size)),
        estimates=tuple((2.0 * number + 1, (1 + value) / 2) for number, value in enumerate(values)),
        epoch_name="generation",
    )


def parse_episode_moves(text: Any, size: int) -> list[int]:
    """Parse the moves; ValueError unless all of them are legal."""
    words = text.split() if isinstance(text, str) else []
    if not 0 < len(words) <= MAX_EPISODE_MOVES:
        raise ValueError(
            f"the game of an evaluation has {len(words)} moves; 1 to {MAX_EPISODE_MOVES} can be "
            "drawn"
        )
    moves = [parse_go_move(word, size) for word in words]
    if None in moves:
        raise ValueError(
            f"the game of an evaluation: move {moves.index(None) + 1}, "
            f"{words[moves.index(None)][:8]!r}, is not on a board of {size} x {size}"
        )
    known = [move for move in moves if move is not None]
    try:
        check_legal_game("a game of an evaluation", known, size)
    except RequestError as error:
        raise ValueError(str(error)) from error
    return known


def is_search_value(value: Any) -> bool:
    """Return whether a value is possible for a search."""
    return type(value) in (int, float) and isfinite(value) and -1 <= value <= 1


def render_episode_frames(
    moves: Sequence[int], words: Sequence[str], size: int
) -> Iterator[Example]:
    """Draw the board after each move, with a ring around the stone that was played."""
    side = (size + 1) * CELL_PX
    for number, stones in enumerate(iterate_stones_after_moves(moves, size), 1):
        caption = f"{'black' if number % 2 else 'white'} {words[number - 1]}"
        picture = render_board_data_url(stones, size, {moves[number - 1]: RIGHT_MOVE_COLOUR})
        yield Example(
            sample=number,
            right=None,
            expected=caption,
            answered="",
            picture=picture,
            width=side,
            height=side,
        )
