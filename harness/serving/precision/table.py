"""The table of `podium precision` on the screen."""

import json
from pathlib import Path

import click
import msgspec

from suite.studies.precision import SHOWN_PERCENTILES, PrecisionStudy
from suite.units import NS_PER_MS


def print_precision_table(study: PrecisionStudy, study_folder: Path, output_format: str) -> None:
    """Print the table, or the document alone."""
    if output_format == "json":
        click.echo(json.dumps(msgspec.to_builtins(study)))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "engine",
        "precision",
        "score",
        "to fp32",
        "samples/s",
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
            f"{row.samples_per_second:,.1f}" if row.samples_per_second else "-",
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
