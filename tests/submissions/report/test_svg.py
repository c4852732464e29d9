"""SVG that podium draws: numbers land where they belong, text is escaped, and everything can be
read without styles.
"""

import math
import re
from xml.etree import ElementTree

import pytest

from submissions.report.document import Axis, Chart, Line, Mark
from submissions.report.drawing.axis_scale import (
    MAX_AXIS_TICKS,
    AxisScale,
    choose_axis_scale,
    compute_even_ticks,
    compute_log_ticks,
    format_tick,
)
from submissions.report.drawing.pictures import draw_example_picture as picture
from submissions.report.drawing.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    NARROW_LETTER_WIDTH,
    RIGHT,
    TOP,
    WIDTH,
    draw_chart,
)
from suite.examples import Example, Outline

HOSTILE = "<img src=x onerror=alert(1)>\"'"
PX_PER_LETTER = 9.5
"""Of digits at 16 px, the size on narrow screens."""
DRAWN = ("path", "line", "circle", "text", "rect", "polygon")


def chart(**changes: object) -> Chart:
    facts: dict[str, object] = {
        "id": "c",
        "title": "Latency",
        "description": "told",
        "x": Axis(name="time", unit="s", low=0.0),
        "y": Axis(name="latency", unit="ms", low=0.0),
        "lines": (
            Line(name="a", points=((0.0, 0.0), (10.0, 5.0)), dots=True),
            Line(name="b", points=((0.0, 1.0), (10.0, 2.0)), filled=True),
        ),
        "marks": (
            Mark(name="target", value=4.0, upright=False),
            Mark(name="bound", value=5.0, upright=True),
        ),
    }
    return Chart(**facts | changes)  # type: ignore[arg-type]


def elements(text: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(text).iter())


def test_a_value_lies_where_its_axis_has_it() -> None:
    assert (
        AxisScale(low=0, high=10, begin=LEFT, end=RIGHT, log=False).map_value(5)
        == (LEFT + RIGHT) / 2
    )
    assert AxisScale(low=1, high=100, begin=LEFT, end=RIGHT, log=True).map_value(
        10
    ) == pytest.approx((LEFT + RIGHT) / 2)
    assert AxisScale(low=0, high=10, begin=BOTTOM, end=TOP, log=False).map_value(99) == TOP, (
        "what lies outside stays at the edge"
    )


@pytest.mark.parametrize(
    ("low", "high"), [(0, 7.3), (0.2, 0.81), (-3, 3), (0, 1e-9), (5e5, 9e8), (1, 3)]
)
def test_ticks_are_few_round_and_on_the_axis(low: float, high: float) -> None:
    ticks = compute_even_ticks(low, high)
    assert 1 <= len(ticks) <= MAX_AXIS_TICKS + 1
    assert all(low - 1e-12 <= tick <= high + 1e-12 * high for tick in ticks)


def test_nothing_is_marked_between_whole_numbers() -> None:
    """Nobody has batches of 2.5 samples."""
    assert compute_even_ticks(1, 13, least=1.0) == [3, 6, 9, 12]


@pytest.mark.parametrize(("low", "high"), [(9.1, 41), (0.5, 4000), (3, 3.2), (1e-9, 1e9)])
def test_log_ticks_are_at_least_two(low: float, high: float) -> None:
    assert 2 <= len(compute_log_ticks(low, high)) <= MAX_AXIS_TICKS


def test_every_element_says_how_it_is_drawn() -> None:
    """Under a policy without styles, a path without attributes is a black area."""
    for each in elements(draw_chart(chart())):
        if each.tag in DRAWN:
            assert {"fill", "stroke"} & each.attrib.keys(), ElementTree.tostring(each)


def test_series_differ_by_more_than_colour() -> None:
    dashes = [
        each.get("stroke-dasharray")
        for each in elements(draw_chart(chart()))
        if each.tag == "path" and each.get("fill") == "none"
    ]
    assert len(set(dashes)) == len(dashes) == 2


def test_title_and_description_are_those_of_the_chart() -> None:
    root = ElementTree.fromstring(draw_chart(chart()))
    ids = str(root.get("aria-labelledby")).split()
    assert [next(each.text for each in root if each.get("id") == id) for id in ids] == [
        "Latency",
        "told",
    ]
    assert root.get("role") == "img"


@pytest.mark.parametrize("field", ["title", "description", "id"])
def test_foreign_text_stays_text(field: str) -> None:
    drawn = draw_chart(chart(**{field: HOSTILE}))
    assert "<img" not in drawn
    ElementTree.fromstring(drawn)


def test_names_of_series_marks_and_axes_stay_text() -> None:
    lines = (Line(name=HOSTILE, points=((0.0, 1.0),), dots=True), Line(name=HOSTILE, points=()))
    drawn = draw_chart(
        chart(
            lines=lines, x=Axis(name=HOSTILE), marks=(Mark(name=HOSTILE, value=1.0, upright=True),)
        )
    )
    assert "<img" not in drawn
    ElementTree.fromstring(drawn)


@pytest.mark.parametrize(
    "points", [(), ((1.0, 1.0),), ((1.0, 0.0), (1.0, 0.0)), ((0.0, -5.0), (1.0, 5.0))]
)
def test_few_and_equal_points_can_be_drawn(points: tuple[tuple[float, float], ...]) -> None:
    drawn = draw_chart(
        chart(
            lines=(Line(name="a", points=points, filled=True, dots=True),),
            marks=(),
            y=Axis(name="y", log=False),
        )
    )
    assert not re.search(r"nan|inf", drawn)
    ElementTree.fromstring(drawn)


def test_objects_are_drawn_over_the_picture_and_named() -> None:
    found = (
        Outline(
            label=HOSTILE, score=0.9, box=(1, 2, 3, 4), polygons=((1, 2, 4, 2, 4, 6),), colour=2
        ),
    )
    drawn = picture(
        Example(
            sample=3,
            right=None,
            expected="",
            answered="",
            picture="data:image/jpeg;base64,AA==",
            width=8,
            height=8,
            found=found,
        ),
        "found",
    )
    tags = [each.tag for each in elements(drawn)]
    assert tags.count("rect") == 3 and tags.count("polygon") == 1 and tags.count("image") == 1
    assert "0.90" in str(ElementTree.fromstring(drawn).get("aria-label"))


def test_names_of_marks_and_ticks_stay_on_the_drawing() -> None:
    """A tick at the right end was cut, and five digits at the left end on a narrow screen."""
    drawn = elements(
        draw_chart(
            chart(
                x=Axis(name="latency", low=0.0, high=2_000.0),
                y=Axis(name="rate", low=0.0, high=120_000.0),
            )
        )
    )
    ticks = [
        each for each in drawn if each.tag == "text" and each.get("class") == "ink" and each.text
    ]
    across = [each for each in ticks if each.text == "2,000"]
    assert [float(str(each.get("x"))) + 5 * PX_PER_LETTER / 2 <= WIDTH for each in across] == [True]
    assert "100k" in {each.text for each in ticks}
    assert all(
        len(str(each.text)) * PX_PER_LETTER <= LEFT - 8
        for each in ticks
        if each.get("text-anchor") == "end"
    )


def test_names_of_marks_are_drawn_over_every_line_and_clear_of_the_legend() -> None:
    drawn = elements(
        draw_chart(
            chart(
                marks=(
                    Mark(name="bound", value=5.0, upright=False),
                    Mark(name="p50", value=5.0, upright=True),
                )
            )
        )
    )
    names = [
        number
        for number, each in enumerate(drawn)
        if each.tag == "text" and each.get("class") == "mark"
    ]
    lines = [
        number
        for number, each in enumerate(drawn)
        if each.get("class") == "mark" and each.tag == "line"
    ]
    assert max(lines) < min(names)
    bound = drawn[names[1]]
    assert (
        bound.text == "bound"
        and bound.get("text-anchor") == "start"
        and float(str(bound.get("x"))) < LEFT + 10
    )


def test_a_legend_that_does_not_fit_beside_the_axis_has_rows_of_its_own() -> None:
    """Four engines and number formats ran into the name of the axis, and six beyond the drawing."""
    lines = tuple(
        Line(name=f"onnxruntime fp{number}", points=((0.0, 1.0), (1.0, 2.0))) for number in range(7)
    )
    root = ElementTree.fromstring(draw_chart(chart(lines=lines)))
    names = [each for each in root if each.tag == "text"]
    (moved,) = (each for each in root if each.tag == "g")
    below = float(str(moved.get("transform")).removeprefix("translate(0 ").removesuffix(")"))
    assert [each.text for each in names] == [line.name for line in lines] and float(
        str(root.get("height"))
    ) == HEIGHT + below
    assert all(
        float(str(each.get("x"))) + len(str(each.text)) * PX_PER_LETTER <= WIDTH for each in names
    )
    assert max(float(str(each.get("y"))) for each in names) < below + 16 - 8
    assert "<g" not in draw_chart(chart()), "two short names fit"


def test_an_axis_of_batches_names_batches() -> None:
    """Nobody measured a batch of 3 or 100 in a sweep of powers of two; neighbours that would touch
    are left out.
    """
    lines = (Line(name="a", points=tuple((2.0**power, 1.0) for power in range(8))),)
    ticks = [
        each.text
        for each in elements(
            draw_chart(chart(lines=lines, x=Axis(name="batch", log=True, whole=True), marks=()))
        )
        if each.tag == "text" and each.get("text-anchor") == "middle"
    ]
    assert ticks == ["1", "2", "4", "8", "16", "32", "64", "128", "batch"]
    assert AxisScale(
        low=1, high=128, begin=LEFT, end=RIGHT, log=True, whole=True, values=(1, 127, 128)
    ).choose_ticks() == [1, 127]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "values",
    [(-1.7e308, 1.7e308), (0.0, 5e-324), (5e-324, 5e-324), (1e-320, 1.7e308), (1.7e308, 1.7e308)],
)
def test_numbers_at_the_ends_of_what_a_file_may_state_are_drawn(
    values: tuple[float, ...], log: bool
) -> None:
    """A table may come from anybody, and the report ended in a traceback."""
    scale = choose_axis_scale(Axis(name="", unit="", log=log), values, 0.0, 100.0, room=True)
    assert all(0.0 <= scale.map_value(each) <= 100.0 for each in values)
    ticks = scale.choose_ticks()
    assert 0 < len(ticks) <= MAX_AXIS_TICKS + 1 and all(map(format_tick, ticks))


@pytest.mark.parametrize("peak", [0.1, 0.2, 0.3])
def test_names_of_marks_lie_beside_the_curve(peak: float) -> None:
    """Percentiles of first tokens were written across the curve and one another."""
    points = tuple((float(x), 100 * math.exp(-(((x / 50) - peak) ** 2) / 0.02)) for x in range(51))
    marks = tuple(
        Mark(name=f"p{share} 12.34 ms", value=50.0 * peak + share / 8, upright=True)
        for share in (50, 90, 99)
    )
    chart = Chart(
        id="a",
        title="a",
        description="a",
        x=Axis(name="x", high=50.0),
        y=Axis(name="y"),
        lines=(Line(name="a", points=points),),
        marks=marks,
    )
    svg = str(draw_chart(chart))
    (path,) = re.findall(r'<path class="s0" d="M([^"]*)"', svg)
    corners = [tuple(map(float, corner.split())) for corner in path.split("L")]
    found = re.findall(
        r'<text class="mark" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)"[^>]*>(p[^<]*)<', svg
    )
    assert len(found) == 3
    for x, y, anchor, name in found:
        begin = float(x) - (len(name) * NARROW_LETTER_WIDTH if anchor == "end" else 0)
        end = begin + len(name) * NARROW_LETTER_WIDTH
        met = [up for at, up in corners if begin <= at <= end and float(y) - 12 <= up <= float(y)]
        assert not met, name
