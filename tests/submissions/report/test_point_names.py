"""Names of points never cover each other or a point, however many there are."""

import random
from itertools import combinations

import pytest

from submissions.report.document import Axis, Chart, Line, Shape
from submissions.report.drawing.point_names import (
    MAX_NAME_LETTERS,
    POINT_RADIUS,
    place_names,
    shorten_point_name,
)
from submissions.report.drawing.svg import BOTTOM, LEFT, RIGHT, TOP, draw_chart

AREA = (LEFT, TOP, RIGHT, BOTTOM)


@pytest.mark.parametrize("count", [2, 5, 12, 60])
@pytest.mark.parametrize("seed", range(5))
def test_names_cover_nothing(count: int, seed: int) -> None:
    draw = random.Random(seed)
    points = [(draw.uniform(LEFT, RIGHT), draw.uniform(TOP, BOTTOM)) for _ in range(count)]
    named = [(point, f"engine{number} int8") for number, point in enumerate(points)]
    found = list(place_names(named, points, (), AREA))
    assert not any(one.has_overlap(other) for one, other in combinations(found, 2))
    for each in found:
        assert each.left >= LEFT and each.right <= RIGHT
        others = (point for point in points if point != each.point)
        assert not any(each.has_place(point, POINT_RADIUS) for point in others)
    assert len(found) >= min(count, 3)


def test_names_of_equal_points_are_both_drawn() -> None:
    """Two engines with the same answers and nearly the same speed."""
    at = (200.0, 150.0)
    found = list(place_names([(at, "torch fp32"), (at, "onnxruntime fp32")], [at, at], (), AREA))
    assert [each.words for each in found] == ["torch fp32", "onnxruntime fp32"]


def test_a_long_name_keeps_both_ends() -> None:
    name = shorten_point_name("vllm http://a-very-long-host.example.org:8000 bf16")
    assert len(name) <= MAX_NAME_LETTERS
    assert name.startswith("vllm http") and name.endswith("8000 bf16")


@pytest.mark.parametrize("shape", list(Shape))
def test_a_named_point_says_its_values_where_it_is_pointed_at(shape: Shape) -> None:
    """Also one with a name that would be markup."""
    line = Line(
        name="near", points=((1.0, 2.0), (3.0, 4.0)), names=("<b>a", "b"), loose=True, shape=shape
    )
    drawn = draw_chart(
        Chart(id="c", title="t", description="d", x=Axis(name="x"), y=Axis(name="y"), lines=(line,))
    )
    assert "<title>&lt;b&gt;a: 1, 2</title>" in drawn and "<b>" not in drawn
    assert drawn.count("&lt;b&gt;a") == 2
