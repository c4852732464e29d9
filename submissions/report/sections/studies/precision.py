"""Engines and precisions beside one another in a report, and studies of speed alone."""

from typing import Final

from submissions.report.document import Note, Section, Table, Tone
from submissions.report.sections.studies.cells import (
    NO_RESULT_NOTE,
    format_generated_rate,
    format_ns_as_ms,
    format_threads,
)
from submissions.tables import format_metric_value
from suite.loadgen.headline import LATENCY_METRIC, get_rate_unit
from suite.studies.precision import SHOWN_PERCENTILES, PrecisionRow, PrecisionStudy
from suite.studies.rates import SpeedRow, SpeedStudy

PRECISION_COLUMNS: Final = (
    "engine",
    "precision",
    "accuracy",
    "difference",
    "samples/s, Offline",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "times as fast",
    "valid",
)


def build_speed_section(study: SpeedStudy, name: str) -> Section:
    """Show a study of speed alone."""
    rows = tuple(map(format_speed_cells, study.rows))
    table = Table(
        title="Runs", columns=("scenario", "verdict", "metric", "value"), rows=rows, numeric=(3,)
    )
    intro = (
        f"{study.stamps.workload}, weights"
        f" {study.stamps.origin or study.stamps.checkpoint_sha256[:12]}: {study.note}."
    )
    return Section(
        id=f"study-{name}", title=f"Speed of {study.stamps.workload}", intro=intro, tables=(table,)
    )


def format_speed_cells(row: SpeedRow) -> tuple[str, ...]:
    """Format the run of one scenario."""
    late = row.metric == LATENCY_METRIC
    return (
        row.scenario,
        row.verdict,
        "latency" if late else row.metric.replace("_", " "),
        format_metric_value(row.value, "ns" if late else get_rate_unit(row.metric)),
    )


def build_precision_section(study: PrecisionStudy, name: str) -> Section:
    """Show a study of engines and precisions."""
    unfinished = Note(text="The comparison is unfinished: rows may be missing.", tone=Tone.CAUTION)
    table = Table(
        title="Accuracy and speed",
        columns=PRECISION_COLUMNS,
        rows=tuple(map(format_precision_cells, study.rows)),
        numeric=(4, 5, 6, 7, 8),
    )
    intro = f"Measured by podium precision on {study.device}, {format_threads(study.threads)}."
    return Section(
        id=f"study-{name}",
        title=f"Engines and precisions of {study.workload}",
        intro=f"{intro} {NO_RESULT_NOTE}",
        tables=(table,),
        notes=() if study.finished else (unfinished,),
    )


def format_precision_cells(row: PrecisionRow) -> tuple[str, ...]:
    """Format the row of one engine and precision."""
    return (
        row.engine,
        row.precision,
        " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items()) or "-",
        " ".join(f"{metric} {value:+.4f}" for metric, value in row.difference.items()) or "-",
        format_generated_rate(row.samples_per_second, row.tokens_per_second),
        *(format_ns_as_ms(row.latency_ns.get(f"p{percent}")) for percent in SHOWN_PERCENTILES),
        "-" if row.speed_up is None else f"{row.speed_up:.2f}",
        "yes" if row.compliant else f"no: {row.why}",
    )
