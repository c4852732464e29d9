"""The section that lays another load generator's figures beside those of a curve."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from submissions.beside.figures import COUNTS, PODIUM, Figure, StatedRun, iterate_figures
from submissions.beside.reading import (
    compute_point_figures,
    find_curve,
    list_concurrencies,
    read_stated_runs,
)
from submissions.report.document import Note, Section, Table, Tone
from suite.columns import UNKNOWN_CELL
from suite.studies.measured import MeasuredStudy

BURST_NOTE: Final = (
    "podium counts all tokens of the first event as first; the other program counts one of them,"
    " and the others as tokens behind it."
)
APART_NOTE: Final = (
    "The programs loaded the server one after the other, each with prompts of its own: differences"
    " of a few per cent, and of other lengths, say nothing of either program. On the server's own"
    " machine a program's work also takes time from the server."
)


def build_beside_sections(paths: Sequence[Path], files: Sequence[Path]) -> Iterator[Section]:
    """Yield a section for each run in the files of other load generators; RequestError for a file
    of no known one, or without a curve among the paths.
    """
    if not files:
        return
    folder, study = find_curve(paths)
    runs = [(file, run) for file in files for run in read_stated_runs(file)]
    for number, (file, run) in enumerate(runs, 1):
        yield build_beside_section(number, file, run, folder, study)


def build_beside_section(
    number: int, file: Path, run: StatedRun, folder: Path, study: MeasuredStudy
) -> Section:
    """Show one run beside the curve's point with as many requests in flight."""
    own: Mapping[str, float] = {}
    alike: Mapping[str, float] = {}
    if run.in_flight is not None:
        own = compute_point_figures(folder, study, run.in_flight, PODIUM)
        alike = compute_point_figures(folder, study, run.in_flight, run.definition)
    program = f"{run.program} {run.version}".strip()
    notes = [
        Note(text=each) for each in (*run.definition.notes, *run.notes, BURST_NOTE, APART_NOTE)
    ]
    if not own:
        points = ", ".join(map(str, list_concurrencies(study)))
        notes.insert(
            0,
            Note(
                text=f"No point of {folder.name} has this load ({run.load}); it has {points} in"
                " flight.",
                tone=Tone.CAUTION,
            ),
        )
    columns = (
        "figure",
        "unit",
        "podium",
        f"podium's answers, as {run.program} counts",
        run.program,
        f"{run.program} / podium, counted alike",
    )
    return Section(
        id=f"beside-{number}",
        title=f"Beside {program}",
        intro=f"{file.name}: {run.load}. {describe_point(run, own)}",
        tables=(
            Table(
                title=f"{folder.name} beside {program}",
                columns=columns,
                rows=tuple(iterate_rows(run, own, alike)),
                numeric=(2, 3, 4, 5),
            ),
        ),
        notes=tuple(notes),
    )


def describe_point(run: StatedRun, own: Mapping[str, float]) -> str:
    """Say which answers of podium's stand beside it."""
    if not own:
        return "Nothing of podium's stands beside it."
    return (
        f"podium's answers are those of the curve's point with {run.in_flight} in flight: as podium"
        f" defines the figures, and as {run.program} does."
    )


def iterate_rows(
    run: StatedRun, own: Mapping[str, float], alike: Mapping[str, float]
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each figure that the program states."""
    for figure in iterate_figures():
        stated = run.figures.get(figure.key)
        if stated is None:
            continue
        yield (
            figure.name,
            figure.unit,
            format_beside_figure(figure, own.get(figure.key)),
            format_beside_figure(figure, alike.get(figure.key)),
            format_beside_figure(figure, stated),
            format_quotient(figure, stated, alike.get(figure.key)),
        )


def format_beside_figure(figure: Figure, value: float | None) -> str:
    """Format a figure."""
    return UNKNOWN_CELL if value is None else f"{value:,.{figure.decimals}f}"


def format_quotient(figure: Figure, stated: float, alike: float | None) -> str:
    """Format how much of podium's figure the program states."""
    if not alike or figure.key in COUNTS:
        return UNKNOWN_CELL
    return f"{stated / alike:.2f}"
