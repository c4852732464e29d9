"""The table of `podium precision` on the screen."""

import json
from pathlib import Path

import click
import msgspec

from suite.loadgen.headline import SAMPLE_RATE_UNIT, TOKEN_RATE_UNIT
from suite.studies.precision import SHOWN_PERCENTILES, PrecisionStudy
from suite.units import NS_PER_MS


def print_precision_table(study: PrecisionStudy, study_folder: Path, output_format: str) -> None:
    """Print the table, or the document alone."""
    if output_format == "json":
        click.echo(json.dumps(msgspec.to_builtins(study)))
        return
    from rich.console import Console
    from rich.table import Table

    generates = any(row.tokens_per_second is not None for row in study.rows)
    table = Table(
        "engine",
        "precision",
        "score",
        "to fp32",
        *([TOKEN_RATE_UNIT] if generates else []),
        SAMPLE_RATE_UNIT,
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "speed-up",
        "compliant",
    )
    for row in study.rows:
        latencies = [f"{value / NS_PER_MS:.2f}" for value in row.latency_ns.values()] or [
            "-"
        ] * len(SHOWN_PERCENTILES)
        table.add_row(
            row.engine,
            row.precision,
            "\n".join(f"{metric} {value:.4f}" for metric, value in row.scores.items()) or "-",
            "\n".join(
                f"{row.difference[metric]:+.4f}" if metric in row.difference else "-"
                for metric in row.scores
            )
            or "-",
            *([format_row_rate(row.tokens_per_second)] if generates else []),
            format_row_rate(row.samples_per_second),
            *latencies,
            f"{row.speed_up:.2f}" if row.speed_up else "-",
            "yes" if row.compliant else "no",
        )
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)
    for row in study.rows:
        if row.why:
            click.echo(f"  {row.engine} {row.precision}: {row.why}")
    click.echo(f"saved in {study_folder}")


def format_row_rate(rate: float | None) -> str:
    """Format a rate; a dash if there is none."""
    return f"{rate:,.1f}" if rate else "-"
