"""Replaces figures that have too few points to show anything by a sentence with their numbers."""

from dataclasses import replace
from typing import Final

from submissions.report.document import Axis, Chart, Note, Section
from submissions.report.page import format_chart_number

MIN_FIGURE_POSITIONS: Final = 2
"""Different positions on the x axis from which points make a figure."""
MAX_TOLD_POINTS: Final = 5


def replace_thin_figures(section: Section) -> Section:
    """Return a section in which each figure of fewer positions is a note, also in its parts."""
    thin = [chart for chart in section.charts if not has_drawable_points(chart)]
    return replace(
        section,
        charts=tuple(chart for chart in section.charts if chart not in thin),
        notes=(*section.notes, *(Note(text=describe_thin_figure(chart)) for chart in thin)),
        parts=tuple(map(replace_thin_figures, section.parts)),
    )


def has_drawable_points(chart: Chart) -> bool:
    """Return whether the points of a chart make a figure."""
    return len({x for line in chart.lines for x, _ in line.points}) >= MIN_FIGURE_POSITIONS


def describe_thin_figure(chart: Chart) -> str:
    """Tell the points that would have been drawn."""
    points = [
        (line.name if len(chart.lines) > 1 else "", x, y)
        for line in chart.lines
        for x, y in line.points
    ]
    told = [
        f"{f'{name}: ' if name else ''}{format_axis_value(chart.y, y)} at"
        f" {format_axis_value(chart.x, x)}"
        for name, x, y in points[:MAX_TOLD_POINTS]
    ]
    more = ""
    if len(points) > len(told):
        more = f" and {len(points) - len(told)} more"
    marks = "".join(f", {mark.name}" for mark in chart.marks)
    return f"{chart.title}: {'; '.join(told)}{more}{marks}. Too few points for a figure."


def format_axis_value(axis: Axis, value: float) -> str:
    """Format a value with the name and the unit of its axis."""
    number = format_chart_number(value)
    return " ".join(filter(None, (axis.name, number, "" if axis.unit == axis.name else axis.unit)))
