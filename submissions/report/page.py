"""Renders the page from the document: Jinja2 with autoescape, one inline style sheet and script,
and a policy that allows nothing else.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from submissions.report.document import Chart, Document, Line, Part, Section
from submissions.report.drawing import bars, pictures, svg
from submissions.report.drawing.card import CARD_HEIGHT, CARD_WIDTH
from suite.human_numbers import format_whole_digits

CHART_DIGITS: Final = 5
TEMPLATE_FOLDER: Final = "templates"
REPORT_TEMPLATE: Final = "report.html.j2"
MIN_LINES_FOR_COLUMNS: Final = 2
"""Number of series from which a table has one column per series, if all have the same x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A link next to the page's name, for a page within a site."""

    words: str
    target: str
    """Relative to the page."""


def render_report_page(document: Document, links: Sequence[PageLink] = (), card: str = "") -> str:
    """Render the page; equal documents give equal bytes. `card` is the address of a picture of it
    for pages that link to it; empty if there is none.
    """
    style = read_page_asset("report.css")
    script = read_page_asset("report.js") + read_page_asset("save.js")
    page = build_template_environment("submissions.report").get_template(REPORT_TEMPLATE)
    return page.render(
        doc=document,
        links=links,
        card=card,
        style=Markup(style),
        script=Markup(script),
        policy=build_page_policy(style, script),
    )


@cache
def build_template_environment(package: str) -> Environment:
    """Set up Jinja2: everything is escaped except podium's own drawings, and an undefined name is
    an error.
    """
    template_environment = Environment(
        loader=PackageLoader(package, TEMPLATE_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template_environment.globals |= {
        "draw": svg.draw_chart,
        "draw_bars": bars.draw_bar_chart,
        "numbers": build_chart_numbers,
        "picture": pictures.draw_example_picture,
        "contents": iterate_contents_sections,
        "preview": build_preview_tags,
    }
    return template_environment


@cache
def read_page_asset(name: str) -> str:
    """Read the style sheet or the script."""
    return (files("submissions.report") / TEMPLATE_FOLDER / name).read_text("utf-8")


def build_preview_tags(title: str, card: str) -> Markup:
    """Return what other sites show of a page that they link to; nothing without a card. Source:
    the Open Graph protocol, ogp.me.
    """
    if not card:
        return Markup("")
    return Markup(
        '<meta property="og:type" content="website">\n<meta property="og:title" content="{}">\n'
        '<meta property="og:image" content="{}">\n<meta property="og:image:width" content="{}">\n'
        '<meta property="og:image:height" content="{}">\n'
        '<meta name="twitter:card" content="summary_large_image">'
    ).format(title, card, CARD_WIDTH, CARD_HEIGHT)


def build_page_policy(style: str, script: str) -> str:
    """Return a content policy that allows this style sheet, this script and inline images only."""
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src"
        f" '{compute_policy_hash(style)}'; script-src '{compute_policy_hash(script)}'"
    )


def compute_policy_hash(text: str) -> str:
    """Hash the text between the tags, as Content Security Policy Level 3 defines it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def build_chart_numbers(chart: Chart) -> dict[str, Any]:
    """Return a chart's numbers as a table: one column per line if all lines have the same x, else
    one row per point.
    """
    unit_x, unit_y = (f" ({axis.unit})" if axis.unit else "" for axis in (chart.x, chart.y))
    x = f"{chart.x.name}{unit_x}"
    if any(line.names for line in chart.lines):
        return {
            "columns": ["point", "line", x, f"{chart.y.name}{unit_y}", "95 % interval"],
            "rows": [row for line in chart.lines for row in iterate_named_rows(line)],
            "words": 2,
        }
    if any(line.x_intervals or line.y_intervals for line in chart.lines):
        return {
            "columns": ["line", x, f"{chart.y.name}{unit_y}", "95 % interval"],
            "rows": [row for line in chart.lines for row in iterate_interval_rows(line)],
            "words": 1,
        }
    if len({tuple(point[0] for point in line.points) for line in chart.lines}) == 1:
        if len(chart.lines) >= MIN_LINES_FOR_COLUMNS:
            names = [line.name for line in chart.lines]
        else:
            names = [chart.y.name]
        rows = [
            [format_chart_number(column[0][0]), *(format_chart_number(y) for _, y in column)]
            for column in zip(*(line.points for line in chart.lines), strict=True)
        ]
        return {"columns": [x, *(f"{name}{unit_y}" for name in names)], "rows": rows, "words": 0}
    rows = [
        [line.name, format_chart_number(px), format_chart_number(py)]
        for line in chart.lines
        for px, py in line.points
    ]
    return {"columns": ["line", x, f"{chart.y.name}{unit_y}"], "rows": rows, "words": 1}


def iterate_interval_rows(line: Line) -> Iterator[list[str]]:
    """Yield a row for each point of a line, with its interval on either axis."""
    nothing: tuple[None, ...] = (None,) * len(line.points)
    for point, *ends in zip(
        line.points, line.x_intervals or nothing, line.y_intervals or nothing, strict=True
    ):
        told = " / ".join(" to ".join(map(format_chart_number, each)) for each in ends if each)
        yield [line.name, *map(format_chart_number, point), told or "-"]


def iterate_named_rows(line: Line) -> Iterator[list[str]]:
    """Yield a row for each point of a line whose points have names."""
    names = line.names or ("",) * len(line.points)
    yield from ([name, *row] for name, row in zip(names, iterate_interval_rows(line), strict=True))


def format_chart_number(value: float) -> str:
    """Format a number in a table."""
    return format_whole_digits(value, CHART_DIGITS)


def iterate_contents_sections(part: Part) -> Iterator[Section]:
    """Yield the sections in the table of contents."""
    yield from part.sections
