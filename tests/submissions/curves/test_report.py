"""Curves in reports and on sites: two figures and a table with the same values, for everybody to
read.
"""

import csv
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jsonschema
import pytest
from click.testing import CliRunner

from submissions.commands.publish import publish
from submissions.report import build
from submissions.report.command import format_document_json, render_document_html
from submissions.report.document import (
    Axis,
    Band,
    Chart,
    Document,
    Line,
    Shape,
    build_document_schema,
    convert_document_to_data,
    parse_document_data,
)
from submissions.report.drawing.svg import BOTTOM, LEFT, RIGHT, draw_chart
from suite.errors import JudgedError

if TYPE_CHECKING:
    from browser import Browser

CURVE = Path("results/box/deepseek-r1")
MODES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 780}},
}


def build_document(*paths: Path, against: tuple[Path, ...] = ()) -> Document:
    return parse_document_data(
        convert_document_to_data(build.judge_and_build_report(paths, against)[0])
    )


def draw(*lines: Line, bands: tuple[Band, ...] = ()) -> list[ElementTree.Element]:
    chart = Chart(
        id="c",
        title="t",
        description="d",
        x=Axis(name="x", low=0.0),
        y=Axis(name="y", low=0.0),
        lines=lines,
        bands=bands,
    )
    return list(ElementTree.fromstring(draw_chart(chart)).iter())


def test_a_report_of_a_submission_is_about_its_curve(submitted: Path) -> None:
    [part] = build_document(submitted / "beta" / "s1").parts
    assert (part.title, part.verdict) == ("deepseek-r1: box", "Valid")
    assert "the rules of endpoints-v1.0" in part.summary and "summaries of the runs" in part.summary
    assert [each.id.partition("-")[0] for each in part.sections] == ["curve", "findings"]
    assert part.tiles[0].value == "1,752.6" and dict(part.facts)["Organisation"] == "beta"


def test_both_figures_and_the_table_show_the_same_points(submitted: Path) -> None:
    section = build_document(submitted / "beta" / "s1").parts[0].sections[0]
    rates, times = section.charts
    [table] = section.tables
    assert len(table.rows) == 8
    assert len(rates.lines[0].points) == len(times.lines[0].points) == 7
    shown = {f"{y:,.5g}" for _, y in rates.lines[0].points}
    assert shown == {row[2] for row in table.rows[:-1]}
    assert [(each.name, each.upright) for each in rates.marks] == [("Offline 1,339.4", False)]
    assert [each.name for each in times.bands] == ["low latency", "low", "medium", "high", "margin"]
    assert table.rows[-1][0] == "Offline" and table.rows[-1][-1] == "dashed line"


def test_dominated_points_are_hollow(submitted: Path) -> None:
    section = build_document(submitted / "delta" / "s1").parts[0].sections[0]
    hollow = [each for each in section.charts[0].lines if each.shape is Shape.RING]
    assert [len(each.points) for each in hollow] == [1]
    roles = {row[1]: row[-1] for row in section.tables[0].rows}
    assert roles["64"] == "dominated" and roles["128"] == "on the curve"


def test_points_that_break_a_rule_are_crossed_out_with_it(altered: Path) -> None:
    section = build_document(altered).parts[0].sections[0]
    for chart in section.charts:
        [crossed] = [each for each in chart.lines if each.shape is Shape.CROSS]
        assert crossed.name == "breaks endpoints.derived" and len(crossed.points) == 1
    roles = {row[1]: row[-1] for row in section.tables[0].rows}
    assert roles["30"] == "crossed out, breaks endpoints.derived"


def test_several_curves_are_compared(submitted: Path) -> None:
    document = build_document(submitted / "beta" / "s1", against=(submitted / "acme" / "s1",))
    [section] = [each for each in document.sections if each.id == "curve-comparison"]
    assert [each.title for each in section.parts] == ["deepseek-r1: B dominates"]
    several = build_document(submitted)
    assert len({each.id for each in several.parts[0].sections}) == 5


def test_the_json_has_every_figure(submitted: Path) -> None:
    data = json.loads(format_document_json(build_document(submitted / "acme" / "s1")))
    jsonschema.Draft202012Validator(build_document_schema()).validate(data)
    [curve] = data["parts"][0]["curves"]
    assert [each["concurrency"] for each in curve["points"]] == [1, 6, 16, 30, 64, 128, 256]


def test_a_step_line_has_no_slopes() -> None:
    line = Line(name="a", points=((2.0, 8.0), (6.0, 3.0)), steps=True)
    [path] = [each for each in draw(line) if each.tag.endswith("path")]
    corners = [tuple(map(float, each.split())) for each in path.attrib["d"][1:].split("L")]
    assert corners[0][0] == LEFT
    for (x, y), (next_x, next_y) in zip(corners, corners[1:], strict=False):
        assert x == next_x or y == next_y


@pytest.mark.parametrize("shape", [Shape.RING, Shape.CROSS])
def test_shapes_are_outlines_also_in_the_legend(shape: Shape) -> None:
    lines = (
        Line(name="a", points=((0.0, 1.0), (1.0, 2.0))),
        Line(name="b", points=((0.5, 1.0),), loose=True, shape=shape),
    )
    drawn = [each for each in draw(*lines) if each.get("class") == "s1"]
    assert len(drawn) == 2
    assert all((each.get("fill"), each.get("stroke")) == ("none", "currentColor") for each in drawn)


def test_bands_that_are_too_narrow_have_no_name() -> None:
    bands = (Band(name="low", low=0.0, high=0.1), Band(name="high", low=0.1, high=10.0))
    drawn = draw(Line(name="a", points=((0.0, 1.0), (10.0, 2.0))), bands=bands)
    rects = [each for each in drawn if each.tag.endswith("rect")]
    assert float(rects[1].attrib["x"]) + float(rects[1].attrib["width"]) == pytest.approx(RIGHT)
    assert all(float(each.attrib["y"]) + float(each.attrib["height"]) == BOTTOM for each in rects)
    words = [each.text for each in drawn if each.tag.endswith("text")]
    assert "high" in words and "low" not in words


def test_a_site_has_a_row_for_each_point(submitted: Path, tmp_path: Path) -> None:
    paths = [str(submitted / each / "s1") for each in ("acme", "beta", "acme")]
    CliRunner().invoke(publish, [*paths, "-o", str(tmp_path / "site")], catch_exceptions=False)
    text = (tmp_path / "site/data/endpoints.csv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert [each["org"] for each in rows] == ["acme"] * 7 + ["beta"] * 8
    assert {each["verdict"] for each in rows} == {"Valid"}
    assert rows[-1]["tps_per_user"] == "" and rows[-1]["region"] == "offline"
    index = (tmp_path / "site/index.html").read_text("utf-8")
    assert "2 curves of MLPerf Endpoints" in index
    reports = [*(tmp_path / "site/r").glob("*/index.html")]
    assert len(reports) == 2 and not [*(tmp_path / "site").rglob("*.zst")]
    for page in (*reports, tmp_path / "site/index.html"):
        assert str(submitted) not in page.read_text("utf-8"), "folders of others are private"


def test_a_submission_that_is_not_valid_is_left_out(
    submitted: Path, altered: Path, tmp_path: Path
) -> None:
    words = [str(submitted / "beta" / "s1"), str(altered), "-o", str(tmp_path / "site")]
    with pytest.raises(JudgedError, match=r"left out:\s+s1: Not compliant: endpoints\.derived"):
        CliRunner().invoke(publish, words, catch_exceptions=False, standalone_mode=False)
    text = (tmp_path / "site/data/endpoints.csv").read_text("utf-8")
    assert len(text.splitlines()) == 1 + 8


def test_runs_that_two_organisations_submit_are_left_out(submitted: Path, tmp_path: Path) -> None:
    """Nothing shows whose they are; a third organisation's stay."""
    copied = Path(shutil.copytree(submitted / "acme" / "s1", tmp_path / "zcorp" / "s1"))
    homes = submitted / "acme" / "s1", copied, submitted / "beta" / "s1"
    words = [*map(str, homes), "-o", str(tmp_path / "site")]
    with pytest.raises(JudgedError, match="the same run as s1, of another organisation") as raised:
        CliRunner().invoke(publish, words, catch_exceptions=False, standalone_mode=False)
    assert str(raised.value).count("the same run") == 2
    text = (tmp_path / "site/data/endpoints.csv").read_text("utf-8")
    assert {each["org"] for each in csv.DictReader(text.splitlines())} == {"beta"}


def test_runs_that_two_folders_hold_are_listed_once(submitted: Path, tmp_path: Path) -> None:
    """The folder with more runs stays, and is named."""
    copied = Path(shutil.copytree(submitted / "acme" / "s1", tmp_path / "acme" / "s2"))
    (copied / "docs" / "notes.md").write_text("Once more.\n")
    words = [str(copied), str(submitted / "acme" / "s1"), "-o", str(tmp_path / "site")]
    result = CliRunner().invoke(publish, words, catch_exceptions=False)
    assert "s1: not listed; s2 has all of its runs" in result.output
    text = (tmp_path / "site/data/endpoints.csv").read_text("utf-8")
    assert len(text.splitlines()) == 1 + 7


def test_reasons_to_leave_a_path_out_advise_what_helps(
    submitted: Path, altered: Path, tmp_path: Path
) -> None:
    """A run of the client cannot be packed, and a site shows no folders of others."""
    point = submitted / "acme" / "s1" / CURVE / "r64"
    run = tmp_path / "run"
    (run / "performance").mkdir(parents=True)
    shutil.copy(point / "config.yaml", run)
    shutil.copy(point / "result_summary.json", run / "performance")
    (altered / "docs" / "software_disclosure.md").unlink()
    (altered / "docs").rmdir()
    words = [str(run), str(altered), "-o", str(tmp_path / "site")]
    with pytest.raises(JudgedError) as raised:
        CliRunner().invoke(publish, words, catch_exceptions=False, standalone_mode=False)
    assert "run: a run of the Endpoints client; publish a submission" in str(raised.value)
    assert "more errors, which podium check lists" in str(raised.value)
    assert str(tmp_path) not in (tmp_path / "site/index.html").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_everybody_can_read_the_page(
    browser: "Browser", altered: Path, tmp_path: Path, mode: str
) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_document_html(build_document(altered)), "utf-8")
    with browser.opened(page, **MODES[mode]) as seen:
        assert (seen.violations(), seen.requests, seen.complaints) == ([], [], [])
        assert seen.width() <= (MODES[mode].get("viewport") or {"width": 1280})["width"]


@pytest.mark.slow
def test_the_page_needs_no_script(browser: "Browser", submitted: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_document_html(build_document(submitted / "acme" / "s1")), "utf-8")
    with browser.opened(page, java_script_enabled=False) as seen:
        assert seen.page.locator("svg.chart").count() == 2
        assert "1,348.1" in seen.page.locator("main").inner_text()
