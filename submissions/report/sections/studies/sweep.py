"""A sweep in a report: throughput, latency and efficiency against batch size, latency against
throughput, accuracy against speed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from submissions.report.document import Axis, Chart, Line, Mark, Section
from submissions.report.sections.studies.measured import build_measured_section
from suite.human_numbers import format_whole_digits
from suite.studies.measured import MeasuredStudy
from suite.studies.sweep import StudyRow, list_sweep_rows
from suite.units import NS_PER_MS

BATCH_AXIS: Final = Axis(name="batch", unit="samples", log=True, whole=True)
RATE_AXIS: Final = Axis(name="throughput", unit="samples/s", low=0.0)
MEAN_LATENCY_AXIS: Final = Axis(name="mean latency", unit="ms", log=True)
TAIL_LATENCY_AXIS: Final = Axis(name="latency", unit="ms", log=True)
"""Line of a chart with a latency budget, which applies to p99 where that is known."""
EFFICIENCY_AXIS: Final = Axis(name="efficiency", unit="samples/s/W", low=0.0)


def build_sweep_section(study: MeasuredStudy, name: str) -> Section:
    """Draw a sweep."""
    charts = [build_throughput_chart(study, name), build_efficiency_chart(study, name)]
    if study.request.within_ms is not None:
        charts.append(build_latency_rate_chart(study, name, study.request.within_ms))
    charts.append(build_accuracy_speed_chart(study, name))
    section = build_measured_section(study, name)
    return replace(section, charts=tuple(chart for chart in charts if chart.lines))


def build_study_lines(
    study: MeasuredStudy,
    x: Callable[[StudyRow], float | None],
    y: Callable[[StudyRow], float | None],
    name: str = "",
) -> tuple[Line, ...]:
    """Build a line for each engine and precision from the points that have both figures; `name`
    names the figure. A rate has its interval.
    """
    lines: dict[str, list[tuple[float, float]]] = {}
    rates: dict[str, list[tuple[float, float] | None]] = {}
    for row in sorted(list_sweep_rows(study), key=lambda row: row.batch):
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
    if drawn := row.shown_energy:
        return drawn.samples_per_s_per_w
    return None


def find_first_score(row: StudyRow) -> float | None:
    """Return the first score; None for a bare network."""
    return next(iter(row.scores.values()), None)


def build_throughput_chart(study: MeasuredStudy, name: str) -> Chart:
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


def build_efficiency_chart(study: MeasuredStudy, name: str) -> Chart:
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


def build_latency_rate_chart(study: MeasuredStudy, name: str, budget: float) -> Chart:
    """Draw latency against throughput, with the budget in ms; p99, too, since the budget applies to
    it.
    """
    tails = build_study_lines(study, get_samples_per_second, convert_p99_to_ms, "p99")
    figure, y = "", MEAN_LATENCY_AXIS
    if tails:
        figure, y = "mean", TAIL_LATENCY_AXIS
    means = build_study_lines(study, get_samples_per_second, convert_mean_latency_to_ms, figure)
    lines = (*means, *tails)
    marks = (Mark(name=f"budget {budget:g} ms", value=budget, upright=False),)
    maxima = describe_line_maxima(lines, "ms", "{} samples/s")
    description = f"{maxima} The budget is {budget:g} ms."
    return Chart(
        id=f"study-{name}-trade",
        title="Latency against throughput",
        description=description,
        x=RATE_AXIS,
        y=y,
        lines=lines,
        marks=marks,
    )


def build_accuracy_speed_chart(study: MeasuredStudy, name: str) -> Chart:
    """Draw accuracy against speed, if several engines or precisions were scored."""
    lines = build_study_lines(study, get_samples_per_second, find_first_score)
    axis = Axis(
        name=next((metric for row in list_sweep_rows(study) for metric in row.scores), "score")
    )
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
