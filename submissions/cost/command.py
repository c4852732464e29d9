"""`podium cost`: the cost of a million samples or tokens and of a training run at a user's prices.
It is never part of a score, a bundle or a comparison.

Source of the rule: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, section 9: a
derived metric must be reported with its inputs.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Final

import click

from submissions.compare.command import format_result_name
from submissions.compare.compared_results import judge_comparison_sides
from submissions.cost.costs import Cost, compute_result_cost, explain_missing_cost
from submissions.cost.formula import Money
from submissions.cost.prices import Prices, read_prices
from submissions.cost.studies import compute_study_costs, is_study_path
from suite.errors import JudgedError
from suite.files.untrusted_files import replace_unprintable

MONEY_FIELDS: Final = (
    "per_million_tokens",
    "per_million_samples",
    "per_10000_samples",
    "per_training_run",
)
STUDY_ROWS_NOTE: Final = (
    "rows of a study are not results and have no verdict; their ranges include the 95 % interval "
    "of the rate"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutCost:
    """A result that can have no cost, and why."""

    path: str
    system: str
    workload: str
    scenario: str | None
    reason: str


def report_costs(paths: Sequence[Path], prices_file: Path, output_format: str) -> None:
    """Print the costs of results and of rows of studies, then raise JudgedError if one could not be
    read, is not compliant, or has no price.
    """
    prices = read_prices(prices_file)  # rejects invalid prices before anything is read
    problems: list[str] = []
    sides = judge_comparison_sides([path for path in paths if not is_study_path(path)], problems)
    rows = [row for side in sides if (row := compute_result_cost(side, prices, problems))]
    rows += [
        row
        for path in paths
        if is_study_path(path)
        for row in compute_study_costs(path, prices, problems)
    ]
    without = [
        WithoutCost(
            path=side.path,
            system=side.score.system,
            workload=side.score.workload,
            scenario=side.score.scenario,
            reason=reason,
        )
        for side in sides
        if (reason := explain_missing_cost(side))
    ]
    print_cost_rows(rows, without, prices, output_format)
    problems += [
        f"{format_result_name(side)} is not compliant" for side in sides if not side.score.compliant
    ]
    if not rows and not problems:
        problems.append("contains no training set and no rate; latencies have no cost")
    if problems:
        raise JudgedError(
            "\n  ".join(["some results have no valid cost:", *dict.fromkeys(problems)])
        )


def print_cost_rows(
    rows: Sequence[Cost], without: Sequence[WithoutCost], prices: Prices, output_format: str
) -> None:
    """Print the costs in the requested format."""
    source = {"currency": prices.currency, "date": prices.date, "sha256": prices.sha256}
    if output_format == "json":
        click.echo(
            json.dumps(
                {
                    "costs": [asdict(row) for row in rows],
                    "without_cost": [asdict(each) for each in without],
                    "prices": source,
                    "legend": describe_cost_prices(rows, prices),
                },
                indent=2,
            )
        )
    elif output_format == "csv":
        click.echo(format_cost_csv(rows), nl=False)
        for line in [*map(format_missing_cost, without), describe_cost_prices(rows, prices)]:
            click.echo(line, err=True)
    elif rows or without:
        click.echo(
            "\n".join(
                [
                    *(line for row in rows for line in format_cost_lines(row)),
                    *map(format_missing_cost, without),
                    "",
                    describe_cost_prices(rows, prices),
                ]
            )
        )


def describe_cost_prices(rows: Sequence[Cost], prices: Prices) -> str:
    """Return the notes needed to read the figures."""
    studied = f"; {STUDY_ROWS_NOTE}" if any(row.study for row in rows) else ""
    return (
        f"derived figures are not official metrics; prices in {prices.currency} of {prices.date}, "
        f"file {prices.sha256[:12]}{studied}"
    )


def format_cost_lines(row: Cost) -> list[str]:
    """Format one result for people."""
    costs = [
        f"{format_money(money)} {row.currency} per {what}"
        for money, what in (
            (row.per_million_tokens, "million tokens"),
            (row.per_million_samples, "million samples"),
            (row.per_training_run, "training run"),
        )
        if money
    ]
    name = (
        f"{row.workload}, batch {row.batch}, {row.system}, row of a study"
        if row.study
        else f"{row.workload} {row.scenario or 'training'}, {row.system}"
    )
    return [
        replace_unprintable(f"{name}: {', '.join(costs) or '-'}; {row.energy}"),
        replace_unprintable(f"  {row.formula}"),
    ]


def format_missing_cost(each: WithoutCost) -> str:
    """Format a result without a cost for people."""
    name = f"{each.workload} {each.scenario or 'training'}, {each.system}"
    return replace_unprintable(f"{name}: no cost, since {each.reason}")


def format_money(money: Money) -> str:
    """Format money with its range."""
    return (
        f"{money.value:.4g}"
        if money.low == money.high
        else f"{money.value:.4g} ({money.low:.4g}-{money.high:.4g})"
    )


def format_cost_csv(rows: Iterable[Cost]) -> str:
    """Format the rows as CSV; money takes three columns: value, low, high."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for flat in map(flatten_cost_row, rows):
        if writer is None:
            writer = csv.DictWriter(text, list(flat), lineterminator="\n")
            writer.writeheader()
        writer.writerow(flat)
    return text.getvalue()


def flatten_cost_row(row: Cost) -> dict[str, object]:
    """Convert a cost to one row, with money in three columns."""
    cells: dict[str, object] = {}
    for each in fields(row):
        value = getattr(row, each.name)
        if each.name in MONEY_FIELDS:
            cells |= {
                each.name: value.value if value else "",
                f"{each.name}_low": value.low if value else "",
                f"{each.name}_high": value.high if value else "",
            }
        else:
            cells[each.name] = value
    return cells
