"""Examples of judged positions for reports: the board with the labelled move and the network's;
embedded positions are played again from their record.
"""

import base64
from collections.abc import Mapping, Sequence
from math import isqrt
from pathlib import Path
from typing import Final

from suite.examples import Example, ExampleKind
from workloads.minigo.scoring import Answer, read_labels, unpacked

CELL_PX: Final = 24
STONE_PX: Final = 23
LABEL_PX: Final = 10
"""Size of the coordinates' letters: they fit beside the stones at the edge."""
COLUMNS: Final = "ABCDEFGHJKLMNOPQRST"
"""Letters of the columns; by custom there is no I."""
RIGHT, WRONG = "#2a7", "#d33"
FILL: Final = {1: "#111", -1: "#fff"}


class PositionExamples:
    """Positions with the move and the winner to find, and what the network says."""

    kind = ExampleKind.LABELS
    legend = "A green ring marks the labelled move, a red one the network's where that is another."

    def __init__(
        self, answers: Mapping[int, bytes], labels: list[tuple[int, int]], embedded: bool
    ) -> None:
        self._answers, self._labels, self._embedded = answers, labels, embedded

    def __len__(self) -> int:
        """Return the number of positions in the accuracy set."""
        return len(self._labels)

    def _answer(self, sample: int) -> Answer | None:
        return unpacked(self._answers.get(sample, b""))

    def quality(self, sample: int) -> float:
        """Half for the move, half for the winner."""
        (move, winner), told = self._labels[sample], self._answer(sample)
        return 0.5 * (told.move == move) + 0.5 * (told.value * winner > 0) if told else 0.0

    def example(self, sample: int) -> Example:
        """Build one example."""
        (move, winner), told = self._labels[sample], self._answer(sample)
        side = isqrt(len(told.policy) - 1) if told else 0
        url, points = (
            board(sample, move, told.move if told else None) if self._embedded else ("", side)
        )
        return Example(
            sample=sample,
            right=told is not None and told.move == move,
            expected=f"{named(move, points)}, who moves {'wins' if winner > 0 else 'loses'}",
            answered=(
                f"{named(told.move, points)} ({max(told.policy):.0%}), value {told.value:+.2f}"
                if told
                else "no answer"
            ),
            picture=url,
            width=(points + 1) * CELL_PX if url else 0,
            height=(points + 1) * CELL_PX if url else 0,
            quality=self.quality(sample),
        )


def named(move: int, points: int) -> str:
    """Name an action as players do: C3, pass; its number where the board is not known."""
    if not points:
        return f"action {move}"
    row, column = divmod(move, points)
    return "pass" if move == points**2 else f"{COLUMNS[column]}{points - row}"


def board(sample: int, expected: int, answered: int | None) -> tuple[str, int]:
    """Draw an embedded position: its URL and the points of its side; empty where what plays the
    record is not installed.
    """
    try:
        from workloads.minigo.positions import embedded
        from workloads.minigo.positions.stones import after
    except ImportError:
        return "", 0
    moves = [moves for part, moves, *_ in embedded.packed() if part == "val"][sample]
    return (
        svg(after(moves, embedded.SIZE), embedded.SIZE, {answered: WRONG, expected: RIGHT}),
        embedded.SIZE,
    )


def svg(stones: Sequence[int], points: int, marks: Mapping[int | None, str]) -> str:
    """Draw a board: its lines, stones, and rings around the moves in question; a pass has no place
    on it.
    """
    end = points * CELL_PX
    lines = "".join(
        f"M{CELL_PX} {at}H{end}M{at} {CELL_PX}V{end}" for at in range(CELL_PX, end + 1, CELL_PX)
    )
    all_stones = [point for point, stone in enumerate(stones) if stone]
    round_stones = [
        dots(all_stones, points, STONE_PX, FILL[1]),
        dots([point for point in all_stones if stones[point] < 0], points, STONE_PX - 2, FILL[-1]),
    ]
    on_board = [
        (point, colour)
        for point, colour in marks.items()
        if point is not None and point < points**2
    ]
    rings = [
        ring(point, points, CELL_PX // 3, f'fill="none" stroke="{colour}" stroke-width="3"')
        for point, colour in on_board
    ]
    body = (
        f'<rect width="100%" height="100%" fill="#e8c48a"/><path d="{lines}" stroke="#333"'
        f' fill="none"/>{coordinates(points)}{"".join(round_stones + rings)}'
    )
    drawn = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{end + CELL_PX}"'
        f' height="{end + CELL_PX}">{body}</svg>'
    )
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"


def coordinates(points: int) -> str:
    """Write the letters of the columns above the board and the numbers of the rows beside it, from
    the bottom, as moves are named.
    """
    across = " ".join(str((column + 1) * CELL_PX) for column in range(points))
    rows = "".join(
        f'<tspan x="{LABEL_PX // 2 + 1}"'
        f' y="{(row + 1) * CELL_PX + LABEL_PX // 3}">{points - row}</tspan>'
        for row in range(points)
    )
    letters = f'<tspan x="{across}" y="{LABEL_PX}">{COLUMNS[:points]}</tspan>'
    return (
        f'<text font-size="{LABEL_PX}" font-family="sans-serif" text-anchor="middle"'
        f' fill="#333">{letters}{rows}</text>'
    )


def dots(places: Sequence[int], points: int, width: int, colour: str) -> str:
    """Draw stones, or what fills them: lines without length with round ends, a fifth of the bytes
    of as many circles.
    """
    starts = "".join(
        f"M{(place % points + 1) * CELL_PX} {(place // points + 1) * CELL_PX}h0" for place in places
    )
    return (
        f'<path d="{starts}" stroke="{colour}" stroke-width="{width}" stroke-linecap="round"/>'
        if places
        else ""
    )


def ring(point: int, points: int, radius: int, style: str) -> str:
    """Draw a circle around a point."""
    row, column = divmod(point, points)
    return (
        f'<circle cx="{(column + 1) * CELL_PX}" cy="{(row + 1) * CELL_PX}" r="{radius}" {style}/>'
    )


def examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> PositionExamples:
    """Read the truth; ValueError if it is invalid."""
    return PositionExamples(answers, read_labels(truth), embedded)
