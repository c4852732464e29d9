"""The page of a history, and a picture of each series."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from submissions.cells import NAMING_RATE_UNITS, format_metric_name, format_metric_value
from submissions.history.commits import shorten_commit
from submissions.history.reports import (
    describe_change,
    describe_commits,
    describe_latest,
    describe_noise,
    format_history_summary,
    iterate_change_details,
)
from submissions.history.series import Series
from submissions.history.verdicts import (
    CheckedSeries,
    CheckSettings,
    SeriesChange,
    Standing,
    describe_share,
)
from submissions.output_file import write_report_file
from submissions.report.command import render_document_html
from submissions.report.document import (
    Axis,
    Chart,
    Document,
    Line,
    Mark,
    Note,
    Section,
    Table,
    Tone,
    convert_document_to_data,
    parse_document_data,
)
from submissions.report.drawing.svg import draw_chart
from submissions.report.pictures import make_figure_name_unique, make_svg_standalone
from suite import __version__
from suite.units import NS_PER_MS

PAGE_FILE: Final = "index.html"
NOTE_TONES: Final = {
    Standing.REGRESSED: Tone.BAD,
    Standing.ACCEPTED: Tone.CAUTION,
    Standing.FASTER: Tone.GOOD,
}
"""Changes that have a note of their own."""
LEGEND: Final = (
    "A point is the geometric mean of a commit's results. A level holds from one change to the"
    " next.",
    "The noise floor is the standard deviation of results of one commit, from all commits that have"
    " several.",
)


def write_history_pictures(
    folder: Path, found: Sequence[CheckedSeries], settings: CheckSettings
) -> int:
    """Write the page and the pictures into a folder; return the number of pictures."""
    document = parse_document_data(convert_document_to_data(build_document(found, settings)))
    folder.mkdir(exist_ok=True)
    write_report_file(folder / PAGE_FILE, render_document_html(document).encode())
    pictures: dict[str, str] = {}
    for section in document.sections:
        for chart in section.charts:
            name = make_figure_name_unique(chart.id, pictures)
            pictures[name] = make_svg_standalone(draw_chart(chart))
    for name, svg in pictures.items():
        write_report_file(folder / f"{name}.svg", svg.encode())
    return len(pictures)


def build_document(found: Sequence[CheckedSeries], settings: CheckSettings) -> Document:
    """Build the page: what is open, the series, then a section for each."""
    shown = [each for each in found if each.series.points]
    return Document(
        title=f"History: {settings.path.name}",
        parts=(),
        sections=(
            build_overview(shown, settings),
            *(build_series_section(each, settings) for each in shown),
        ),
        legend=LEGEND,
        version=__version__,
    )


def build_overview(found: Sequence[CheckedSeries], settings: CheckSettings) -> Section:
    """Sum up all series in a table, those with open changes first."""
    ordered = sorted(found, key=lambda each: not each.open_changes)
    rows = tuple(
        (
            each.series.title,
            each.series.settings,
            each.standing,
            str(len(each.series.points)),
            describe_latest(each.series),
            describe_noise(each).removeprefix("noise floor "),
        )
        for each in ordered
    )
    columns = ("series", "configuration", "standing", "commits", "latest", "noise floor")
    return Section(
        id="series",
        title=format_history_summary(found, settings).capitalize(),
        notes=tuple(
            Note(text=f"{each.series.title}: {describe_change(change, each.series)}", tone=Tone.BAD)
            for each in ordered
            for change in each.open_changes
        ),
        tables=(Table(title="Series", columns=columns, rows=rows, numeric=(3,)),),
    )


def build_series_section(checked: CheckedSeries, settings: CheckSettings) -> Section:
    """Build the section of one series: its picture and its changes."""
    series = checked.series
    notes = [Note(text=f"Not tested: {checked.untested}.")] if checked.untested else []
    notes += [
        Note(text=describe_change_fully(each, series, settings), tone=NOTE_TONES[each.standing])
        for each in checked.changes
        if each.standing in NOTE_TONES
    ]
    tables = (build_change_table(checked),) if checked.changes else ()
    return Section(
        id=name_picture(series),
        title=series.title,
        intro=f"{series.settings}; {describe_noise(checked)}.",
        charts=(build_series_chart(checked),),
        notes=tuple(notes),
        tables=tables,
    )


def name_picture(series: Series) -> str:
    """Return a name of a series for an id and a file."""
    return "-".join(series.place.parts)


def describe_change_fully(found: SeriesChange, series: Series, settings: CheckSettings) -> str:
    """Describe a change with the commits between and what else changed."""
    details = (each.strip() for each in iterate_change_details(found, settings))
    return "; ".join([describe_change(found, series), *details])


def build_change_table(checked: CheckedSeries) -> Table:
    """List the changes of a series."""
    series = checked.series
    rows = tuple(
        (
            shorten_commit(each.first.commit),
            each.first.committed[:10],
            each.standing.value,
            describe_share(each.change),
            format_metric_value(each.change.before, series.first.unit),
            format_metric_value(each.change.after, series.first.unit),
            describe_commits(each),
        )
        for each in checked.changes
    )
    columns = ("commit", "day", "standing", "change", "before", "after", "commits")
    return Table(title="Changes", columns=columns, rows=rows, numeric=(3, 4, 5))


def build_series_chart(checked: CheckedSeries) -> Chart:
    """Draw a series: its results by commit, the levels, and the changes to slower."""
    series = checked.series
    factor = 1.0
    unit = series.first.unit
    if unit == "ns":
        factor, unit = NS_PER_MS, "ms"
    values = tuple((float(n), each.value / factor) for n, each in enumerate(series.points, 1))
    name = "throughput"
    if series.first.unit not in NAMING_RATE_UNITS:
        name = format_metric_name(series.first)
    better = "more" if series.is_higher_better else "less"
    lines = [Line(name="commits", points=values, dots=True)]
    if checked.changes:
        levels = tuple(iterate_levels(checked, factor))
        lines.append(Line(name="level", points=levels, holds=True))
    return Chart(
        id=name_picture(series),
        title=series.title,
        description=(
            f"{name.capitalize()} of {len(values)} commits in {unit}: {better} is"
            f" better. Latest: {describe_latest(series)}. {checked.standing.capitalize()}."
        ),
        x=Axis(name="commits, in their order", whole=True),
        y=Axis(name=f"{name}, {better} is better", unit=unit),
        lines=tuple(lines),
        marks=tuple(
            Mark(
                name=f"{describe_share(each.change)} {shorten_commit(each.first.commit)}",
                value=float(series.points.index(each.first) + 1),
                upright=True,
            )
            for each in checked.changes
        ),
    )


def iterate_levels(checked: CheckedSeries, factor: float) -> Iterator[tuple[float, float]]:
    """Yield where each level begins, and its height."""
    yield 1.0, checked.changes[0].change.before / factor
    for each in checked.changes:
        yield checked.series.points.index(each.first) + 1.0, each.change.after / factor
