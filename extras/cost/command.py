"""`podium cost`: the cost of a million samples or tokens and of a training run at a user's prices.
It is never part of a score, a bundle or a comparison.

Source of the rule: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc, section 9: a
derived metric must be reported with its inputs.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final

import click

from extras.cost.costs import explain_missing_cost, price_result
from extras.cost.prices import Prices, read_prices
from extras.cost.studies import compute_study_costs
from submissions.compare.command import format_result_name
from submissions.compare.compared_results import judge_compared_results
from submissions.labels import PathLabels, parse_path_labels
from submissions.result_columns import rename_column, select_columns
from submissions.result_index import is_study_path
from suite.columns import Column, Table
from suite.errors import JudgedError
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_whole_digits
from suite.result import Money, Result

MONEY_COLUMNS: Final = (
    "per_million_tokens",
    "per_million_samples",
    "per_10000_samples",
    "per_training_run",
)
STUDY_ROWS_NOTE: Final = (
    "rows of a study are not results and have no verdict; their ranges include the 95 % interval "
    "of the rate"
)


RANGE_ENDS: Final = {"": "value", "_low": "low", "_high": "high"}
"""End of a column's name -> which end of a range of money stands in it."""


def build_cost_column(name: str) -> Column[Result]:
    """Return a column of what a result costs."""
    return Column(name, attrgetter(f"cost.{name}"))


def build_money_columns(name: str) -> Iterator[Column[Result]]:
    """Yield three columns for an amount of money: its value and both ends of its range."""
    for ending, end in RANGE_ENDS.items():
        yield Column(f"{name}{ending}", partial(get_money_end, name=name, end=end))


def get_money_end(row: Result, name: str, end: str) -> float | None:
    """Return one end of the range of an amount of money; None if there is none."""
    return getattr(getattr(row.cost, name), end, None)


PRICED_COLUMNS: Final = (
    rename_column("path", "source"),
    *select_columns("org", "system", "round", "profile", "workload", "scenario"),
    *select_columns("engine", "precision", "value", "unit", "compliant"),
    *map(build_cost_column, ("currency", "match", "per_useful_hour")),
)
USED_COLUMNS: Final = (
    *map(build_cost_column, ("watts", "energy", "formula")),
    *select_columns("study", "batch"),
    Column("value_low", lambda row: getattr(row.figure.stated_interval, "low", None)),
    Column("value_high", lambda row: getattr(row.figure.stated_interval, "high", None)),
)
COST_TABLE: Final[Table[Result]] = Table(
    columns=(*PRICED_COLUMNS, *map(build_cost_column, MONEY_COLUMNS), *USED_COLUMNS)
)
COST_CSV: Final[Table[Result]] = Table(
    columns=(
        *PRICED_COLUMNS,
        *(column for name in MONEY_COLUMNS for column in build_money_columns(name)),
        *USED_COLUMNS,
    )
)
"""Money takes three columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutCost:
    """A result that can have no cost, and why."""

    path: str
    system: str
    workload: str
    scenario: str | None
    reason: str


def report_costs(
    paths: Sequence[Path], prices_file: Path, output_format: str, names: Sequence[str] = ()
) -> None:
    """Print the costs of results and of rows of studies, then raise JudgedError if one could not be
    read, is not compliant, or has no price. `names` are the labels of the paths, each as
    LETTER=NAME.
    """
    labels = parse_path_labels(paths, names)
    prices = read_prices(prices_file)  # rejects invalid prices before anything is read
    problems: list[str] = []
    sides = judge_compared_results([path for path in paths if not is_study_path(path)], problems)
    rows = [row for side in sides if (row := price_result(side, prices, problems))]
    rows += [
        row
        for path in paths
        if is_study_path(path)
        for row in compute_study_costs(path, prices, problems)
    ]
    without = [
        WithoutCost(
            path=side.source,
            system=side.system,
            workload=side.workload,
            scenario=side.scenario,
            reason=reason,
        )
        for side in sides
        if (reason := explain_missing_cost(side))
    ]
    print_cost_rows(rows, without, prices, output_format, labels)
    problems += [
        f"{format_result_name(side)} is not compliant" for side in sides if not side.compliant
    ]
    if not rows and not problems:
        problems.append("contains no run set and no rate; latencies have no cost")
    if problems:
        raise JudgedError(
            "\n  ".join(["some results have no valid cost:", *dict.fromkeys(problems)])
        )


def print_cost_rows(
    rows: Sequence[Result],
    without: Sequence[WithoutCost],
    prices: Prices,
    output_format: str,
    labels: PathLabels,
) -> None:
    """Print the costs in the requested format."""
    source = {"currency": prices.currency, "date": prices.date, "sha256": prices.sha256}
    if output_format == "json":
        click.echo(
            json.dumps(
                {
                    "costs": add_label_column(COST_TABLE, labels).list_plain_rows(rows),
                    "without_cost": [asdict(each) for each in without],
                    "prices": source,
                    "legend": describe_cost_prices(rows, prices),
                },
                indent=2,
            )
        )
    elif output_format == "csv":
        click.echo(format_cost_csv(rows, labels), nl=False)
        for line in [*map(format_missing_cost, without), describe_cost_prices(rows, prices)]:
            click.echo(line, err=True)
    elif rows or without:
        repeated = find_repeated_results(rows)
        click.echo(
            "\n".join(
                [
                    *(line for row in rows for line in format_cost_lines(row, repeated, labels)),
                    *map(format_missing_cost, without),
                    "",
                    describe_cost_prices(rows, prices),
                ]
            )
        )


def describe_cost_prices(rows: Sequence[Result], prices: Prices) -> str:
    """Return the notes needed to read the figures."""
    studied = ""
    if any(row.origin.study for row in rows):
        studied = f"; {STUDY_ROWS_NOTE}"
    return (
        f"derived figures are not official metrics; prices in {prices.currency} of {prices.date}, "
        f"file {prices.sha256[:12]}{studied}"
    )


def find_repeated_results(rows: Iterable[Result]) -> set[tuple[str, str, str | None]]:
    """Find what several paths have a result of: workload, system and scenario."""
    counts = Counter((row.workload, row.system, row.scenario) for row in rows)
    return {result for result, count in counts.items() if count > 1}


def format_cost_lines(
    row: Result, repeated: Collection[tuple[str, str, str | None]], labels: PathLabels
) -> list[str]:
    """Format one result for people, with the name that the user gave its path; without one, of one
    system's results from several paths with its path.
    """
    cost = row.cost
    if cost is None:
        return []
    costs = [
        f"{format_money(money)} {cost.currency} per {what}"
        for money, what in (
            (cost.per_million_tokens, "million tokens"),
            (cost.per_million_samples, "million samples"),
            (cost.per_training_run, "training run"),
        )
        if money
    ]
    if row.origin.study:
        name = f"{row.workload}, batch {row.made_with.batch}, {row.system}, row of a study"
    else:
        name = f"{row.workload} {row.scenario or 'training'}, {row.system}"
    if row.source in labels.given:
        name = f"{labels.given[row.source]}: {name}"
    elif (row.workload, row.system, row.scenario) in repeated:
        name += f" ({row.source})"
    return [
        replace_unprintable(f"{name}: {', '.join(costs) or '-'}; {cost.energy}"),
        replace_unprintable(f"  {cost.formula}"),
    ]


def format_missing_cost(each: WithoutCost) -> str:
    """Format a result without a cost for people."""
    name = f"{each.workload} {each.scenario or 'training'}, {each.system}"
    return replace_unprintable(f"{name}: no cost, since {each.reason}")


def format_money(money: Money) -> str:
    """Format money with its range."""
    value, low, high = map(format_whole_digits, (money.value, money.low, money.high))
    if money.low == money.high:
        return value
    return f"{value} ({low}-{high})"


def add_label_column(table: Table[Result], labels: PathLabels) -> Table[Result]:
    """Add the name or the letter of each result's path as the last column."""
    label: Column[Result] = Column("label", lambda row: labels.name_path(row.source))
    return replace(table, columns=(*table.columns, label))


def format_cost_csv(rows: Sequence[Result], labels: PathLabels) -> str:
    """Format the rows as CSV; money takes three columns: value, low, high."""
    if rows:
        return add_label_column(COST_CSV, labels).format_csv_text(rows)
    return ""
