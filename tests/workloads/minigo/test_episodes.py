"""A game of an evaluation, as a training log has it: what is drawn of it, and what is none."""

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest

from suite.workload import ExampleTraining, Run
from workloads.minigo.episodes import episode
from workloads.minigo.training import MiniGoTraining

MakeRun = Callable[..., Run]
CAPTURED = {
    "board": 5,
    "opponent": "area",
    "moves": "B5 A5 A4 pass C3",
    "values": [0.0, 0.5, -1.0],
    "won": 1.0,
}
"""Black's third move takes the stone in the corner."""


def drawing(picture: str) -> str:
    return base64.b64decode(picture.removeprefix("data:image/svg+xml;base64,")).decode()


@pytest.mark.slow
def test_a_training_tells_the_first_game_of_its_evaluation(make_run: MakeRun) -> None:
    """As it was played: every move is drawn, black's have their values, and nobody picks the game
    by how it went.
    """
    training = MiniGoTraining(make_run())
    list(training.train_epoch(1))
    training.evaluate()
    assert isinstance(training, ExampleTraining)
    told, first = training.example(), training._played[0]
    found = episode(told)
    assert len(found.frames) == len(first.moves[0]) and [
        move for move, _ in found.estimates
    ] == list(range(1, len(first.moves[0]) + 1, 2))
    assert [2 * chance - 1 for _, chance in found.estimates] == pytest.approx(
        first.value_of_first[0], abs=1e-3
    )
    assert told["won"] == first.points_N[0] and found.epoch_name == "generation"


def test_each_move_is_a_board() -> None:
    """A stone that is taken is no longer drawn, and a pass has no place."""
    found = episode(CAPTURED)
    assert [frame.expected for frame in found.frames] == [
        "black B5",
        "white A5",
        "black A4",
        "white pass",
        "black C3",
    ]
    assert [frame.sample for frame in found.frames] == [1, 2, 3, 4, 5]
    second, third, fourth = (drawing(found.frames[number].picture) for number in (1, 2, 3))
    assert 'stroke="#fff"' in second and 'stroke="#fff"' not in third, (
        "white has one stone, then none"
    )
    assert "<circle" in third and "<circle" not in fourth and "<script" not in third
    assert (
        found.estimates == ((1.0, 0.5), (3.0, 0.75), (5.0, 0.0)) and "It won." in found.description
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"moves": "B5 A5 A4 A5 C3"}, "move 4, white A5, is illegal: it is suicide"),
        ({"moves": "B5 B5 A4 pass C3"}, "move 2, white B5, is illegal: the point is not empty"),
        ({"moves": "B5 I5 A4 pass C3"}, "move 2, 'I5', is not on a board of 5 x 5"),
        ({"moves": "pass pass C3", "values": [0.0, 0.0]}, "move 3 comes after two passes"),
        ({"moves": "pass " * 2000}, "has 2000 moves"),
        ({"moves": ""}, "has 0 moves"),
        ({"moves": 7}, "has 0 moves"),
        ({"board": 20}, "a board of invalid size 20"),
        ({"board": True}, "a board of invalid size True"),
        ({"values": [0.0]}, "needs one value"),
        ({"values": [0.0, float("nan"), 0.0]}, "needs one value"),
        ({"values": [0.0, 2.0, 0.0]}, "needs one value"),
    ],
)
def test_what_is_no_game_is_not_drawn(changed: dict[str, Any], told: str) -> None:
    """A log is anybody's: a page must neither show another game than was played nor take memory for
    one without end.
    """
    with pytest.raises(ValueError, match=told):
        episode({**CAPTURED, **changed})


@pytest.mark.parametrize("told", [None, [], "C3", 1.0])
def test_another_value_is_no_game(told: Any) -> None:
    """By a sentence, not a traceback."""
    with pytest.raises(ValueError, match="must be a table"):
        episode(told)


def test_unknown_words_are_not_repeated() -> None:
    """Neither opponent nor result of a log becomes text of the page unless it is one of ours."""
    found = episode({**CAPTURED, "opponent": "<b>", "won": "much"})
    assert (
        "its opponent" in found.description
        and "<b>" not in found.description
        and "much" not in found.description
    )


def test_the_board_has_the_coordinates_that_moves_are_named_by() -> None:
    """Nobody finds C2 on a board without letters and numbers."""
    found = episode(CAPTURED)
    drawn = drawing(found.frames[0].picture)
    assert '<tspan x="24 48 72 96 120" y="10">ABCDE</tspan>' in drawn
    rows = dict(re.findall(r'<tspan x="6" y="(\d+)">(\d)</tspan>', drawn))
    assert list(rows.values()) == ["5", "4", "3", "2", "1"] and [int(y) for y in rows] == [
        27,
        51,
        75,
        99,
        123,
    ]
    assert "A ring marks the stone" in found.description
