"""Examples of scored positions for reports: the board with the labelled move and the network's.
Embedded positions are replayed from their record.
"""

import base64
from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import Final

from suite.examples import Example, ExampleKind
from workloads.minigo.scoring import PositionAnswer, read_truth_labels, unpack_position_answer

CELL_PX: Final = 24
STONE_PX: Final = 23
LABEL_PX: Final = 10
"""Size of the coordinates' letters: they fit beside the stones at the edge."""
COLUMN_LETTERS: Final = "ABCDEFGHJKLMNOPQRST"
"""Letters of the columns; by convention there is no I."""
RIGHT_MOVE_COLOUR, WRONG_MOVE_COLOUR = "#2a7", "#d33"
STONE_FILL_COLOURS: Final = {1: "#111", -1: "#fff"}


class PositionExamples:
    """Positions with the move and the winner to find, and the network's answer."""

    kind = ExampleKind.LABELS
    legend = "A green ring marks the labelled move, a red one the network's move if it differs."

    def __init__(
        self, answers: Mapping[int, bytes], labels: list[tuple[int, int]], embedded: bool
    ) -> None:
        self._answers, self._labels, self._embedded = answers, labels, embedded

    def __len__(self) -> int:
        """Return the number of positions in the accuracy set."""
        return len(self._labels)

    def _get_answer(self, sample: int) -> PositionAnswer | None:
        return unpack_position_answer(self._answers.get(sample, b""))

    def quality(self, sample: int) -> float:
        """Return the quality: half for the move, half for the winner."""
        (move, winner), answer = self._labels[sample], self._get_answer(sample)
        return 0.5 * (answer.move == move) + 0.5 * (answer.value * winner > 0) if answer else 0.0

    def example(self, sample: int) -> Example:
        """Build one example."""
        (move, winner), answer = self._labels[sample], self._get_answer(sample)
        side = isqrt(len(answer.policy) - 1) if answer else 0
        if self._embedded:
            url, points = render_embedded_position(sample, move, answer.move if answer else None)
        else:
            url, points = "", side
        answered = "no answer"
        if answer:
            answered = (
                f"{format_example_move(answer.move, points)} ({max(answer.policy):.0%}), value"
                f" {answer.value:+.2f}"
            )
        return Example(
            sample=sample,
            right=answer is not None and answer.move == move,
            expected=(
                f"{format_example_move(move, points)}, who moves"
                f" {'wins' if winner > 0 else 'loses'}"
            ),
            answered=answered,
            picture=url,
            width=(points + 1) * CELL_PX if url else 0,
            height=(points + 1) * CELL_PX if url else 0,
            quality=self.quality(sample),
        )


def format_example_move(move: int, points: int) -> str:
    """Format an action as players do (C3, pass); its number if the board is unknown."""
    if not points:
        return f"action {move}"
    row, column = divmod(move, points)
    return "pass" if move == points**2 else f"{COLUMN_LETTERS[column]}{points - row}"


def render_embedded_position(sample: int, expected: int, answered: int | None) -> tuple[str, int]:
    """Draw an embedded position: its URL and the number of points per side; empty if the packages
    needed to replay the record are not installed.
    """
    try:
        from workloads.minigo.positions import embedded
        from workloads.minigo.positions.stones import compute_final_stones
    except ImportError:
        return "", 0
    moves = [moves for part, moves, *_ in embedded.read_embedded_positions() if part == "val"][
        sample
    ]
    return (
        render_board_data_url(
            compute_final_stones(moves, embedded.EMBEDDED_BOARD_SIDE),
            embedded.EMBEDDED_BOARD_SIDE,
            {answered: WRONG_MOVE_COLOUR, expected: RIGHT_MOVE_COLOUR},
        ),
        embedded.EMBEDDED_BOARD_SIDE,
    )


def render_board_data_url(
    stones: Sequence[int], points: int, marks: Mapping[int | None, str]
) -> str:
    """Draw a board: its lines, stones, and rings around the given moves; a pass is not drawn."""
    end = points * CELL_PX
    lines = "".join(
        f"M{CELL_PX} {at}H{end}M{at} {CELL_PX}V{end}" for at in range(CELL_PX, end + 1, CELL_PX)
    )
    all_stones = [point for point, stone in enumerate(stones) if stone]
    round_stones = [
        render_stones(all_stones, points, STONE_PX, STONE_FILL_COLOURS[1]),
        render_stones(
            [point for point in all_stones if stones[point] < 0],
            points,
            STONE_PX - 2,
            STONE_FILL_COLOURS[-1],
        ),
    ]
    on_board = [
        (point, colour)
        for point, colour in marks.items()
        if point is not None and point < points**2
    ]
    rings = [
        render_ring(point, points, CELL_PX // 3, f'fill="none" stroke="{colour}" stroke-width="3"')
        for point, colour in on_board
    ]
    body = (
        f'<rect width="100%" height="100%" fill="#e8c48a"/><path d="{lines}" stroke="#333"'
        f' fill="none"/>{render_board_coordinates(points)}{"".join(round_stones + rings)}'
    )
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{end + CELL_PX}"'
        f' height="{end + CELL_PX}">{body}</svg>'
    )
    return f"data:image/svg+xml;base64,{base64.b64encode(document.encode()).decode()}"


def render_board_coordinates(points: int) -> str:
    """Draw the letters of the columns above the board, and the numbers of the rows beside it,
    counted from the bottom, as in names of moves.
    """
    across = " ".join(str((column + 1) * CELL_PX) for column in range(points))
    rows = "".join(
        f'<tspan x="{LABEL_PX // 2 + 1}"'
        f' y="{(row + 1) * CELL_PX + LABEL_PX // 3}">{points - row}</tspan>'
        for row in range(points)
    )
    letters = f'<tspan x="{across}" y="{LABEL_PX}">{COLUMN_LETTERS[:points]}</tspan>'
    return (
        f'<text font-size="{LABEL_PX}" font-family="sans-serif" text-anchor="middle"'
        f' fill="#333">{letters}{rows}</text>'
    )


def render_stones(stone_points: Sequence[int], points: int, width: int, colour: str) -> str:
    """Draw stones or their fillings, as lines of length zero with round ends: a fifth of the bytes
    of circles.
    """
    starts = "".join(
        f"M{(point % points + 1) * CELL_PX} {(point // points + 1) * CELL_PX}h0"
        for point in stone_points
    )
    if not stone_points:
        return ""
    return f'<path d="{starts}" stroke="{colour}" stroke-width="{width}" stroke-linecap="round"/>'


def render_ring(point: int, points: int, radius: int, style: str) -> str:
    """Draw a circle around a point."""
    row, column = divmod(point, points)
    return (
        f'<circle cx="{(column + 1) * CELL_PX}" cy="{(row + 1) * CELL_PX}" r="{radius}" {style}/>'
    )


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> PositionExamples:
    """Read the truth; ValueError if it is invalid."""
    return PositionExamples(answers, read_truth_labels(truth), embedded)
