"""A sweep's table for people, and as CSV with the columns that vendors publish."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from suite.studies import Row, Study

NS_PER_MS: Final = 1e6
GAP: Final = "  "
HEAD: Final = ("engine", "precision", "batch", "samples/s", "p50 ms", "p90 ms", "p99 ms", "mean ms", "score", "to fp32")
COLUMNS: Final = (
    "subject", "system", "engine", "precision", "batch", "queries", "samples_per_second", "low", "high",
    "mean_latency_ms", "p50_ms", "p90_ms", "p99_ms", "score", "why",
)  # fmt: skip


def text_of(study: Study) -> str:
    """Print a study: a line per point, then the best batch and the drift."""
    lines = [HEAD, *(cells(row) for row in study.rows)]
    shown = [index for index in range(len(HEAD)) if index < 8 or any(line[index] for line in lines[1:])]
    widths = [max(len(line[index]) for line in lines) for index in range(len(HEAD))]
    table = [GAP.join(line[index].rjust(widths[index]) for index in shown).rstrip() for line in lines]
    weights = study.weights if study.weights.startswith("random") else f"weights {study.weights[:12]}"
    title = f"{study.subject} on {study.system}, {study.device}, {study.threads} threads; {weights}"
    why = [f"{row.engine} {row.precision}, batch {row.batch}: {row.why}" for row in study.rows if row.why]
    return "\n".join([title, *table, *why, *below(study)])


def cells(row: Row) -> tuple[str, ...]:
    """Print one point."""
    latencies = (row.p50_ns, row.p90_ns, row.p99_ns, row.mean_latency_ns)
    scores = " ".join(f"{metric} {value:.4f}" for metric, value in row.scores.items())
    differences = " ".join(f"{value:+.4f}" for value in row.difference.values())
    return (row.engine, row.precision, str(row.batch), rate_of(row), *map(milliseconds, latencies), scores, differences)


def rate_of(row: Row) -> str:
    """Print a rate; a dash where there is none."""
    half = f" \u00b1{50 * (row.high - row.low) / row.samples_per_second:.1f}%" if row.low and row.high and row.samples_per_second else ""
    return f"{row.samples_per_second:,.1f}{half}" if row.samples_per_second else "-"


def milliseconds(value_ns: float | None) -> str:
    """Print a latency; a dash where there are too few queries for it."""
    return f"{value_ns / NS_PER_MS:,.2f}" if value_ns is not None else "-"


def below(study: Study) -> Iterable[str]:
    """Yield what stands below the table."""
    if study.within_ms is not None:
        found = [f"{best.batch} in {best.engine} {best.precision} ({best.samples_per_second:,.1f} samples/s, {best.by} latency)" for best in study.best]
        yield f"largest batch within {study.within_ms:g} ms: {'; '.join(found) or 'none of those measured'}"
    for drift in study.drift:
        yield f"drift of {drift.engine} {drift.precision}, batch {drift.batch} again at the end: {100 * drift.change:+.1f} %"


def csv_of(studies: Sequence[Study]) -> str:
    """Give all points as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for study in studies:
        writer.writerows(values(study, row) for row in study.rows)
    return text.getvalue()


def values(study: Study, row: Row) -> tuple[object, ...]:
    """Give the cells of one line; empty where there is no figure."""
    latencies = (row.mean_latency_ns, row.p50_ns, row.p90_ns, row.p99_ns)
    shown = ("" if value is None else value / NS_PER_MS for value in latencies)
    scores = " ".join(f"{metric}={value!r}" for metric, value in row.scores.items())
    rate = "" if row.samples_per_second is None else row.samples_per_second
    ends = ("" if end is None else end for end in (row.low, row.high))
    return (study.subject, study.system, row.engine, row.precision, row.batch, row.queries, rate, *ends, *shown, scores, row.why)
