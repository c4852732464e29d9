"""Engines and precisions beside one another in a report."""

from typing import Final

from submissions.report.document import Note, Section, Table, Tone
from submissions.report.sections.studies.cells import (
    NO_RESULT_NOTE,
    format_generated_rate,
    format_ns_as_ms,
    format_threads,
)
from suite.studies.precision import SHOWN_PERCENTILES, PrecisionRow, PrecisionStudy

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
