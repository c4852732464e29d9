"""A sweep's table as text, and as CSV with the columns that vendors publish."""

from collections.abc import Iterable, Sequence
from typing import Final

from suite.files.csv_tables import format_csv_table
from suite.human_numbers import format_whole_digits
from suite.studies.documents import Study, StudyRow, select_shown_energy
from suite.units import NS_PER_MS

COLUMN_GAP: Final = "  "
SWEEP_TABLE_HEAD: Final = (
    "engine",
    "precision",
    "batch",
    "samples/s",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "mean ms",
    "W",
    "samples/s/W",
    "tokens/s",
    "score",
    "to reference",
)
FIRST_OPTIONAL_COLUMN: Final = SWEEP_TABLE_HEAD.index("tokens/s")
"""Columns from here on are shown only if one of their cells is filled."""
SWEEP_CSV_COLUMNS: Final = (
    "subject",
    "system",
    "engine",
    "precision",
    "batch",
    "queries",
    "samples_per_second",
    "tokens_per_second",
    "low",
    "high",
    "mean_latency_ms",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "watts",
    "grade",
    "scope",
    "samples_per_s_per_w",
    "j_per_sample",
    "j_per_token",
    "score",
    "why",
)


def format_sweep_text(study: Study) -> str:
    """Format a study: one line per point, then the best batch and the drift."""
    lines = [SWEEP_TABLE_HEAD, *(format_point_cells(row) for row in study.rows)]
    shown = [
        index
        for index in range(len(SWEEP_TABLE_HEAD))
        if index < FIRST_OPTIONAL_COLUMN or any(line[index] for line in lines[1:])
    ]
    widths = [max(len(line[index]) for line in lines) for index in range(len(SWEEP_TABLE_HEAD))]
    table = [
        COLUMN_GAP.join(line[index].rjust(widths[index]) for index in shown).rstrip()
        for line in lines
    ]
    weights = (
        study.weights if study.weights.startswith("random") else f"weights {study.weights[:12]}"
    )
    title = f"{study.subject} on {study.system}, {study.device}, {study.threads} threads; {weights}"
    why = [
        f"{row.engine} {row.precision}, batch {row.batch}: {row.why}"
        for row in study.rows
        if row.why
    ]
    return "\n".join([title, *table, *why, *describe_sweep_results(study)])


def format_point_cells(row: StudyRow) -> tuple[str, ...]:
    """Format one point."""
    latencies = (row.p50_ns, row.p90_ns, row.p99_ns, row.mean_latency_ns)
    scores = " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items())
    differences = " ".join(f"{value:+.4f}" for value in row.difference.values())
    return (
        row.engine,
        row.precision,
        str(row.batch),
        format_point_rate(row),
        *map(format_latency_ms, latencies),
        *format_point_watts(row),
        "" if row.tokens_per_second is None else f"{row.tokens_per_second:,.1f}",
        scores,
        differences,
    )


def format_point_watts(row: StudyRow) -> tuple[str, str]:
    """Format power with its grade, and efficiency; dashes if nothing was read."""
    drawn = select_shown_energy(row.energy)
    if drawn is None:
        return "-", "-"
    rate = drawn.samples_per_s_per_w
    told = "-" if rate is None else format_whole_digits(rate, 3)
    return f"{drawn.average_w:,.1f} {drawn.grade}", told


def format_point_rate(row: StudyRow) -> str:
    """Format a rate; a dash if there is none."""
    half = (
        f" \u00b1{50 * (row.high - row.low) / row.samples_per_second:.1f}%"
        if row.low and row.high and row.samples_per_second
        else ""
    )
    return f"{row.samples_per_second:,.1f}{half}" if row.samples_per_second else "-"


def format_latency_ms(value_ns: float | None) -> str:
    """Format a latency; a dash if there are too few queries for it."""
    return f"{value_ns / NS_PER_MS:,.2f}" if value_ns is not None else "-"


def describe_sweep_results(study: Study) -> Iterable[str]:
    """Yield the lines below the table."""
    if study.within_ms is not None:
        found = [
            f"{best.batch} in {best.engine} {best.precision} ({best.samples_per_second:,.1f}"
            f" samples/s, {best.by} latency)"
            for best in study.best
        ]
        yield (
            f"largest batch within {study.within_ms:g} ms:"
            f" {'; '.join(found) or 'none of those measured'}"
        )
    if idle := select_shown_energy(study.idle):
        yield (
            f"idle: {idle.average_w:,.1f} W ({idle.name}, {idle.grade_description}), not subtracted"
        )
    for drift in study.drift:
        yield (
            f"drift of {drift.engine} {drift.precision}, batch {drift.batch} again at the end:"
            f" {100 * drift.change:+.1f} %"
        )


def format_sweep_csv(studies: Sequence[Study]) -> str:
    """Format all points as CSV."""
    return format_csv_table(
        SWEEP_CSV_COLUMNS,
        (
            dict(zip(SWEEP_CSV_COLUMNS, build_csv_cells(study, row), strict=True))
            for study in studies
            for row in study.rows
        ),
    )


def build_csv_cells(study: Study, row: StudyRow) -> tuple[object, ...]:
    """Return the cells of one CSV line; empty if there is no figure."""
    latencies = (row.mean_latency_ns, row.p50_ns, row.p90_ns, row.p99_ns)
    shown = ("" if value is None else value / NS_PER_MS for value in latencies)
    scores = " ".join(f"{metric}={value!r}" for metric, value in row.scores.items())
    rates = (
        "" if rate is None else rate for rate in (row.samples_per_second, row.tokens_per_second)
    )
    ends = ("" if end is None else end for end in (row.low, row.high))
    drawn = select_shown_energy(row.energy)
    power = (
        (
            drawn.average_w,
            drawn.grade,
            "+".join(drawn.scope),
            drawn.samples_per_s_per_w,
            drawn.per_sample_j,
            drawn.per_token_j,
        )
        if drawn
        else (None,) * 6
    )
    power_cells = ("" if value is None else value for value in power)
    return (
        study.subject,
        study.system,
        row.engine,
        row.precision,
        row.batch,
        row.queries,
        *rates,
        *ends,
        *shown,
        *power_cells,
        scores,
        row.why,
    )
