"""The section of a study by its kind: columns as a table, a chart, and what its points say."""

from collections.abc import Iterator

from submissions.report.document import Axis, Chart, Line, Note, Section, Table, Tone
from submissions.report.sections.studies.cells import NO_RESULT_NOTE
from submissions.report.shown_table import build_shown_table
from suite.columns import Column
from suite.studies.kind import StudiedRow
from suite.studies.measured import (
    MeasuredStudy,
    describe_cached_prompts,
    describe_idle_power,
    describe_subject,
)


def build_measured_section(study: MeasuredStudy, name: str) -> Section:
    """Show a study: its table, its chart, and what its points say."""
    kind = study.kind
    told = kind.describe_answer(study.request, study.answer, study.points)
    told = (*told, *describe_cached_prompts(study), *describe_idle_power(study))
    notes = [Note(text=each) for each in told]
    if not study.is_finished:
        notes.insert(
            0, Note(text="The study is unfinished: points may be missing.", tone=Tone.CAUTION)
        )
    return Section(
        id=f"study-{name}",
        title=f"{kind.name.capitalize()} of {study.subject.workload or name}",
        intro=f"{describe_subject(study)}. {NO_RESULT_NOTE}",
        charts=tuple(iterate_study_charts(study, name)),
        tables=(build_column_table(study),),
        notes=tuple(notes),
    )


def build_column_table(study: MeasuredStudy) -> Table:
    """Build the table of a study's columns."""
    return build_shown_table("Points", study.kind.table, study.rows)


def iterate_study_charts(study: MeasuredStudy, name: str) -> Iterator[Chart]:
    """Yield the chart of a study, if its kind has one and its points have numbers."""
    if study.kind.chart is None:
        return
    named = {each.name: each for each in study.kind.table.columns}
    x, y = (named[name] for name in study.kind.chart)
    points = tuple(sorted(iterate_chart_points(study, x, y)))
    if points:
        yield Chart(
            id=f"study-{name}-chart",
            title=f"{y.heading} against {x.heading}",
            description=f"{len(points)} points, in the table below.",
            x=Axis(name=x.heading),
            y=Axis(name=y.heading, low=0.0),
            lines=(Line(name=study.subject.system, points=points, dots=True),),
        )


def iterate_chart_points(
    study: MeasuredStudy, x: Column[StudiedRow], y: Column[StudiedRow]
) -> Iterator[tuple[float, float]]:
    """Yield where the rows of a study lie in its chart."""
    for row in study.rows:
        found = x.read(row), y.read(row)
        if isinstance(found[0], int | float) and isinstance(found[1], int | float):
            yield float(found[0]), float(found[1])
