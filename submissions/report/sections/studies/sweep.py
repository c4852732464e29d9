"""A sweep in a report: throughput, latency and efficiency against batch size, latency against
throughput, accuracy against speed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.sections.studies.cells import (
    NO_RESULT_NOTE,
    format_generated_rate,
    format_ns_as_ms,
    format_study_rate,
    format_threads,
)
from suite.human_numbers import format_whole_digits
from suite.studies.documents import Study, StudyRow, select_shown_energy
from suite.units import NS_PER_MS

BATCH_AXIS: Final = Axis(name="batch", unit="samples", log=True, whole=True)
RATE_AXIS: Final = Axis(name="throughput", unit="samples/s", low=0.0)
MEAN_LATENCY_AXIS: Final = Axis(name="mean latency", unit="ms", log=True)
TAIL_LATENCY_AXIS: Final = Axis(name="latency", unit="ms", log=True)
"""Line of a chart with a latency budget, which applies to p99 where that is known."""
EFFICIENCY_AXIS: Final = Axis(name="efficiency", unit="samples/s/W", low=0.0)
RATE_AND_LATENCY_COLUMNS: Final = (
    "samples/s",
    "95 % interval",
    "mean ms",
    "p50 ms",
    "p90 ms",
    "p99 ms",
)
POWER_COLUMNS: Final = ("W", "grade, scope", "samples/s/W")


def build_sweep_section(study: Study, name: str) -> Section:
    """Draw a sweep."""
    charts = [build_throughput_chart(study, name), build_efficiency_chart(study, name)]
    if study.within_ms is not None:
        charts.append(build_latency_rate_chart(study, name))
    charts.append(build_accuracy_speed_chart(study, name))
    intro = (
        f"{study.subject} on {study.system}, {study.device}, {format_threads(study.threads)}, by"
        f" batch size. {NO_RESULT_NOTE}"
    )
    return Section(
        id=f"study-{name}",
        title=f"Sweep of {study.subject}",
        intro=intro,
        charts=tuple(chart for chart in charts if chart.lines),
        tables=(build_sweep_points_table(study),),
        notes=tuple(build_sweep_notes(study)),
    )


def build_sweep_points_table(study: Study) -> Table:
    """Show each point; power and scores if any point has them."""
    columns = ["engine", "precision", "batch", *RATE_AND_LATENCY_COLUMNS]
    rows = [
        [row.engine, row.precision, str(row.batch), *format_rate_and_latencies(row)]
        for row in study.rows
    ]
    numeric = list(range(2, len(columns)))
    if any(row.energy for row in study.rows):
        numeric += [len(columns), len(columns) + 2]
        columns += POWER_COLUMNS
        for cells, row in zip(rows, study.rows, strict=True):
            cells += format_power_and_efficiency(row)
    if any(row.scores for row in study.rows):
        columns.append("score")
        for cells, row in zip(rows, study.rows, strict=True):
            cells.append(format_study_scores(row))
    return Table(
        title="Points",
        columns=tuple(columns),
        rows=tuple(map(tuple, rows)),
        numeric=tuple(numeric),
    )


def build_sweep_notes(study: Study) -> Iterator[Note]:
    """Yield notes on what the table does not show."""
    if not study.finished:
        yield Note(text="The sweep is unfinished: points may be missing.", tone=Tone.CAUTION)
    if study.within_ms is not None:
        best_batches = [
            f"{best.batch} in {best.engine} {best.precision}, by its {best.by} of"
            f" {format_ns_as_ms(best.latency_ns)} ms"
            for best in study.best
        ]
        yield Note(
            text=(
                f"Largest batch within {study.within_ms:g} ms:"
                f" {'; '.join(best_batches) or 'none of those measured'}."
            )
        )
    if idle := select_shown_energy(study.idle):
        yield Note(
            text=(
                f"Idle: {idle.average_w:,.1f} W ({idle.name}, {idle.grade_description}), not"
                " subtracted."
            )
        )
    yield from (
        Note(text=f"{row.engine} {row.precision}, batch {row.batch}: {row.why}")
        for row in study.rows
        if row.why
    )
    for drift in study.drift:
        yield Note(
            text=(
                f"Drift of {drift.engine} {drift.precision}: batch {drift.batch} again at the end,"
                f" {100 * drift.change:+.1f} %."
            )
        )


def build_study_lines(
    study: Study,
    x: Callable[[StudyRow], float | None],
    y: Callable[[StudyRow], float | None],
    name: str = "",
) -> tuple[Line, ...]:
    """Build a line for each engine and precision from the points that have both figures; `name`
    names the figure. A rate has its interval.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    rates: dict[str, list[tuple[float, float] | None]] = {}
    for row in sorted(study.rows, key=lambda row: row.batch):
        across, up = x(row), y(row)
        if across is not None and up is not None:
            series = f"{row.engine} {row.precision}{name and f' {name}'}"
            lines.setdefault(series, []).append((across, up))
            rates.setdefault(series, []).append(
                (row.low, row.high) if row.low and row.high else None
            )
    return tuple(
        Line(
            name=name,
            points=tuple(points),
            dots=True,
            x_intervals=select_known_intervals(rates[name] if x is get_samples_per_second else ()),
            y_intervals=select_known_intervals(rates[name] if y is get_samples_per_second else ()),
        )
        for name, points in lines.items()
    )


def select_known_intervals(
    found: Sequence[tuple[float, float] | None],
) -> tuple[tuple[float, float] | None, ...]:
    """Return the intervals of a line's points; nothing if no point has one."""
    if any(found):
        return tuple(found)
    return ()


def get_batch(row: StudyRow) -> float:
    return float(row.batch)


def get_samples_per_second(row: StudyRow) -> float | None:
    """Return samples/s."""
    return row.samples_per_second


def convert_mean_latency_to_ms(row: StudyRow) -> float | None:
    """Return the mean latency, ms."""
    if row.mean_latency_ns is None:
        return None
    return row.mean_latency_ns / NS_PER_MS


def convert_p99_to_ms(row: StudyRow) -> float | None:
    """Return p99 in ms; None for a point with too few queries."""
    if row.p99_ns is None:
        return None
    return row.p99_ns / NS_PER_MS


def find_row_efficiency(row: StudyRow) -> float | None:
    """Return samples/s/W of the system, or of all parts together; None if no power was read."""
    if drawn := select_shown_energy(row.energy):
        return drawn.samples_per_s_per_w
    return None


def find_first_score(row: StudyRow) -> float | None:
    """Return the first score; None for a bare network."""
    return next(iter(row.scores.values()), None)


def build_throughput_chart(study: Study, name: str) -> Chart:
    """Draw throughput against batch size."""
    lines = build_study_lines(study, get_batch, get_samples_per_second)
    return Chart(
        id=f"study-{name}-rate",
        title="Throughput against batch size",
        description=describe_line_maxima(lines, "samples/s", "batch {}"),
        x=BATCH_AXIS,
        y=RATE_AXIS,
        lines=lines,
    )


def build_efficiency_chart(study: Study, name: str) -> Chart:
    """Draw efficiency against batch size, if power was read."""
    lines = build_study_lines(study, get_batch, find_row_efficiency)
    description = describe_line_maxima(lines, "samples/s/W", "batch {}")
    return Chart(
        id=f"study-{name}-watts",
        title="Efficiency against batch size",
        description=description,
        x=BATCH_AXIS,
        y=EFFICIENCY_AXIS,
        lines=lines,
    )


def build_latency_rate_chart(study: Study, name: str) -> Chart:
    """Draw latency against throughput; with a budget, draw p99 too, since the budget
    applies to it.
    """
    budget = study.within_ms
    if budget is not None:
        tails = build_study_lines(study, get_samples_per_second, convert_p99_to_ms, "p99")
    else:
        tails = ()
    lines = (
        *build_study_lines(
            study, get_samples_per_second, convert_mean_latency_to_ms, "mean" if tails else ""
        ),
        *tails,
    )
    marks = (
        () if budget is None else (Mark(name=f"budget {budget:g} ms", value=budget, upright=False),)
    )
    description = describe_line_maxima(lines, "ms", "{} samples/s")
    if budget is not None:
        description += f" The budget is {budget:g} ms."
    if tails:
        y = TAIL_LATENCY_AXIS
    else:
        y = MEAN_LATENCY_AXIS
    return Chart(
        id=f"study-{name}-trade",
        title="Latency against throughput",
        description=description,
        x=RATE_AXIS,
        y=y,
        lines=lines,
        marks=marks,
    )


def build_accuracy_speed_chart(study: Study, name: str) -> Chart:
    """Draw accuracy against speed, if several engines or precisions were scored."""
    lines = build_study_lines(study, get_samples_per_second, find_first_score)
    axis = Axis(name=next((metric for row in study.rows for metric in row.scores), "score"))
    lines = lines if len(lines) > 1 else ()
    return Chart(
        id=f"study-{name}-score",
        title="Accuracy against speed",
        description=describe_line_maxima(lines, axis.name, "{} samples/s"),
        x=RATE_AXIS,
        y=axis,
        lines=lines,
    )


def describe_line_maxima(lines: Sequence[Line], unit: str, location: str) -> str:
    """Describe the highest value of each line; `location` is a template for its position, such as
    `batch {}`.
    """
    tops = [(line.name, *max(line.points, key=lambda point: point[1])) for line in lines]
    return " ".join(
        f"{name}: at most {format_whole_digits(y)} {unit}, at"
        f" {location.format(format_whole_digits(x))}."
        for name, x, y in tops
    )


def format_rate_and_latencies(row: StudyRow) -> tuple[str, ...]:
    """Format the rate with its interval, and the latencies."""
    ends = "-"
    if row.low and row.high:
        ends = f"{format_study_rate(row.low)} to {format_study_rate(row.high)}"
    return (
        format_generated_rate(row.samples_per_second, row.tokens_per_second),
        ends,
        *map(format_ns_as_ms, (row.mean_latency_ns, row.p50_ns, row.p90_ns, row.p99_ns)),
    )


def format_power_and_efficiency(row: StudyRow) -> tuple[str, str, str]:
    """Format power with its grade, and efficiency; dashes if nothing was read."""
    drawn = select_shown_energy(row.energy)
    if drawn is None:
        return "-", "-", "-"
    efficiency = "-"
    if drawn.samples_per_s_per_w is not None:
        efficiency = format_whole_digits(drawn.samples_per_s_per_w, 3)
    return f"{drawn.average_w:,.1f}", f"{drawn.grade}, {'+'.join(drawn.scope)}", efficiency


def format_study_scores(row: StudyRow) -> str:
    return " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items())
