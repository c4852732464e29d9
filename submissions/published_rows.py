"""Published results as reference points: CSV rows, each with its source, its runs, and the value
computed from them.

Imports nothing from the judge, so that `podium published` starts fast.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from submissions.result_columns import rename_column, select_columns, select_text_columns
from suite import registry
from suite.columns import Table
from suite.errors import RequestError, build_unknown_name_error
from suite.files.layout import fold_name
from suite.files.untrusted_files import (
    UnreadableError,
    parse_digits,
    read_untrusted_text,
    replace_unprintable,
)
from suite.loadgen.scenario import Scenario
from suite.measurement.metrics import (
    TIME_TO_TRAIN,
    DerivedFigure,
    compute_accelerator_figure,
    compute_olympic_mean,
    is_derivable_figure,
    is_higher_better,
)
from suite.result import (
    PUBLISHED_PROFILE,
    Convergence,
    Figure,
    Judgement,
    Machine,
    Result,
    ResultOrigin,
    ResultPlace,
)
from suite.rounds.compatibility import find_podium_workload

PUBLISHED_ROWS_FOLDER: Final = files("suite.rounds") / "published"
PUBLISHED_LEGEND: Final = (
    (
        "Rows of kind 'recomputed' were computed from the result logs that MLCommons published, at "
        "the commit in their source if it has one. Rows of kind 'reported' state what their source "
        "says: MLCommons' own tables, with their ids, or a document, whose figures are not MLPerf "
        "results."
    ),
    (
        "The MLPerf name and logo are registered and unregistered trademarks of MLCommons"
        " Association in the United States and other countries. All rights reserved. Unauthorized"
        " use strictly prohibited. See www.mlcommons.org for more information."
    ),
)
"""Shown with every such row. Source: mlcommons/policies, MLPerf_Results_Messaging_Guidelines.adoc,
section 11.2.
"""
WORKLOAD_HALVES: Final = ("training", "inference")
RECOMPUTED_KIND: Final = "recomputed"
PUBLISHED_ROW_KINDS: Final = (RECOMPUTED_KIND, "reported")
"""Recomputed from published logs, or taken from a table or an article."""
PLAIN_UNIT: Final = "1"
"""Of a number without a unit, such as a ratio."""
PUBLISHED_UNITS: Final = (
    "minutes",
    "samples/s",
    "queries/s",
    "sentences/s",
    "samples/query",
    "tokens/s",
    "ns",
    "ms",
    "W",
    "samples/s/W",
    PLAIN_UNIT,
)
INTERACTIVE_SCENARIO: Final = "Interactive"
"""Server with tighter bounds, which LoadGen knows no name for."""
PUBLISHED_SCENARIOS: Final = (
    "",
    *(scenario.label for scenario in Scenario),
    INTERACTIVE_SCENARIO,
)
MIN_OLYMPIC_RUNS: Final = 3
"""Number of runs from which a set's mean drops the fastest and the slowest, as published rounds are
scored.
"""
ROUNDING_SHARE: Final = 0.500001
"""Largest rounding error, in units of the last digit: half of one, plus the error of a double."""
LEAST_PUBLISHED_NUMBER: Final = 1e-15
LARGEST_PUBLISHED_NUMBER: Final = 1e15
"""No figure lies outside these, and sums, products and ratios of such numbers stay finite."""
PLAIN_NUMBER_CHARACTERS: Final = frozenset("0123456789.")
"""Characters in a number without an exponent."""
MISSED_RUN_MARK: Final = "-"
"""A run that did not reach its target."""


def compute_row_figure(row: Result) -> DerivedFigure | None:
    """Return the figure per accelerator; None for latencies, and if there are no accelerators or
    their number is unknown.
    """
    if row.headline is None or not is_derivable_figure(row.metric, row.unit):
        return None
    return compute_accelerator_figure(row.headline, row.unit, row.accelerators)


PUBLISHED_TABLE: Final[Table[Result]] = Table(
    columns=(
        *select_text_columns("id", "round", "half", "division", "org", "system", "accelerator"),
        *select_columns("accelerators", "nodes", "workload"),
        *select_text_columns("scenario"),
        *select_columns("metric", "unit", "value", "runs", "kind"),
        rename_column("source", "document"),
        *select_columns("note"),
        rename_column("convergence_factor", "factor"),
    )
)
"""One published set or entry, in CSV and JSON."""
PUBLISHED_COLUMNS: Final = tuple(column.name for column in PUBLISHED_TABLE.columns)
OPTIONAL_COLUMNS: Final = ("convergence_factor",)
"""Columns at the end that a file may lack."""
WORKLOAD_COLUMN: Final = PUBLISHED_COLUMNS.index("workload")


def list_published_files() -> tuple[str, ...]:
    """Return the names of the files that podium includes: published rounds, and `documents`."""
    return tuple(
        sorted(
            Path(each.name).stem
            for each in PUBLISHED_ROWS_FOLDER.iterdir()
            if each.name.endswith(".csv")
        )
    )


def read_workload_rows(workloads: Iterable[str]) -> tuple[Result, ...]:
    """Read the included rows of some workloads; rows of others are not parsed."""
    folded = frozenset(map(fold_name, workloads))
    return tuple(row for name in list_published_files() for row in read_included_rows(name, folded))


def read_included_rows(name: str, workloads: frozenset[str] | None = None) -> tuple[Result, ...]:
    """Read one included file, as `parse_published_rows` does."""
    return parse_published_rows(
        (PUBLISHED_ROWS_FOLDER / f"{name}.csv").read_text("utf-8"), f"{name}.csv", workloads
    )


def read_published_rows(name: str) -> tuple[Result, ...]:
    """Read the rows of a round, of the documents, or of a user's file; RequestError if it does not
    exist or one of its rows is invalid.
    """
    if name in list_published_files():
        return read_included_rows(name)
    if not name.endswith(".csv"):
        raise build_unknown_round_error(name)
    return read_published_file(Path(name))


def read_published_file(path: Path) -> tuple[Result, ...]:
    """Read the rows of a user's file; RequestError as for `parse_published_rows`, and for a file
    that cannot be read.
    """
    try:
        return parse_published_rows(read_untrusted_text(path, "utf-8-sig"), str(path))
    except UnreadableError as error:
        raise RequestError(str(error)) from error


def build_unknown_round_error(name: str) -> RequestError:
    """Return an error for a round without rows: one that podium judges has none because no logs of
    podium's workloads were at hand.
    """
    if name in registry.list_round_names():
        return RequestError(
            f"{name} has no rows, because no whole results of podium's workloads were at hand;"
            f" rounds with rows: {', '.join(list_published_files())}"
        )
    return build_unknown_name_error("published round", name, list_published_files())


def parse_published_rows(
    text: str, name: str, workloads: frozenset[str] | None = None
) -> tuple[Result, ...]:
    """Parse all rows of a CSV text, or those of some workloads, given by their normalised names;
    RequestError names the invalid line.
    """
    reader = csv.reader(io.StringIO(text))
    rows: list[Result] = []
    row_ids: set[str] = set()
    try:
        header = next(reader, None) or []
        if header not in (
            list(PUBLISHED_COLUMNS),
            list(PUBLISHED_COLUMNS[: -len(OPTIONAL_COLUMNS)]),
        ):
            raise ValueError(
                f"columns {', '.join(header) or 'none'}; required:"
                f" {', '.join(PUBLISHED_COLUMNS)} (the last may be left out)"
            )
        for cells in filter(None, reader):
            if (
                workloads is not None
                and len(cells) == len(header)
                and fold_name(cells[WORKLOAD_COLUMN].strip()) not in workloads
            ):
                continue
            row = parse_published_row(cells, header)
            if row.origin.id in row_ids:
                raise ValueError(f"duplicate id {row.origin.id}")
            row_ids.add(row.origin.id)
            rows.append(row)
    except (ValueError, csv.Error) as error:
        raise RequestError(
            replace_unprintable(f"{name}:{max(1, reader.line_num)}: {error}")
        ) from error
    return tuple(rows)


def parse_published_row(cells: Sequence[str], header: Sequence[str]) -> Result:
    """Parse one row; ValueError if it is invalid."""
    if len(cells) != len(header):
        raise ValueError(f"{len(cells)} cells; required: {len(header)}")
    row_texts = {
        name: replace_unprintable(cell.strip()) for name, cell in zip(header, cells, strict=True)
    }
    for name in ("id", "round", "workload", "metric", "source"):
        if not row_texts[name]:
            raise ValueError(f"no {name}")
    for name, allowed in (
        ("half", WORKLOAD_HALVES),
        ("scenario", PUBLISHED_SCENARIOS),
        ("unit", PUBLISHED_UNITS),
        ("kind", PUBLISHED_ROW_KINDS),
    ):
        if row_texts[name] not in allowed:
            raise ValueError(
                f"{name} {row_texts[name] or 'missing'}; required:"
                f" {', '.join(filter(None, allowed))}"
            )
    check_published_value(row_texts)
    return build_published_result(row_texts)


def build_published_result(row_texts: Mapping[str, str]) -> Result:
    """Build the result of a row whose texts are valid: nobody judged it here."""
    factor = parse_convergence_factor(row_texts)
    return Result(
        place=ResultPlace(
            round=row_texts["round"],
            profile=PUBLISHED_PROFILE,
            division=row_texts["division"],
            org=row_texts["org"],
            system=row_texts["system"],
            workload=row_texts["workload"],
            scenario=row_texts["scenario"] or None,
            half=row_texts["half"],
        ),
        figure=Figure(
            metric=row_texts["metric"],
            unit=row_texts["unit"],
            value=parse_positive_number(row_texts["value"]),
            runs=parse_published_runs(row_texts["runs"]),
        ),
        origin=ResultOrigin(
            source=row_texts["id"],
            id=row_texts["id"],
            kind=row_texts["kind"],
            document=row_texts["source"],
            note=row_texts["note"],
        ),
        machine=Machine(
            accelerator=row_texts["accelerator"] or None,
            accelerators=parse_published_count(row_texts, "accelerators"),
            nodes=parse_published_count(row_texts, "nodes"),
        ),
        judgement=Judgement(compliant=True),
        convergence=None if factor is None else Convergence(factor=factor),
    )


def parse_convergence_factor(row_texts: Mapping[str, str]) -> float | None:
    """Parse the factor of a run set; empty is none."""
    text = row_texts.get("convergence_factor", "")
    if not text:
        return None
    if row_texts["metric"] != TIME_TO_TRAIN or parse_positive_number(text) <= 1:
        raise ValueError(
            f"convergence_factor {text}; required: a number above 1 for a time to train, or nothing"
        )
    return float(text)


def parse_published_runs(text: str) -> tuple[float | None, ...]:
    """Parse the runs, separated by spaces."""
    return tuple(
        None if run == MISSED_RUN_MARK else parse_positive_number(run) for run in text.split()
    )


def parse_positive_number(text: str) -> float:
    """Parse a number above 0 that a result may have."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise ValueError(f"'{text}' is not a number above 0")
    if not LEAST_PUBLISHED_NUMBER <= value <= LARGEST_PUBLISHED_NUMBER:
        raise ValueError(
            f"'{text}' is not between {LEAST_PUBLISHED_NUMBER:g} and {LARGEST_PUBLISHED_NUMBER:g}"
        )
    return value


def parse_published_count(row_texts: Mapping[str, str], name: str) -> int | None:
    """Parse a count; empty is unknown."""
    found = parse_digits(row_texts[name])
    if row_texts[name] and found is None:
        raise ValueError(f"{name} {row_texts[name]}; required: a whole number, or nothing")
    return found


def check_published_value(row_texts: Mapping[str, str]) -> None:
    """Raise ValueError for a value that does not follow from its runs, within the precision of
    their digits.
    """
    value, texts = (
        row_texts["value"],
        [run for run in row_texts["runs"].split() if run != MISSED_RUN_MARK],
    )
    if not row_texts["runs"]:
        if row_texts["kind"] == RECOMPUTED_KIND:
            raise ValueError("recomputed, but without runs")
        return
    computed = compute_published_value(parse_published_runs(row_texts["runs"]), row_texts["metric"])
    tolerance = (
        compute_last_digit_size(value) + max(map(compute_last_digit_size, texts), default=0.0)
    ) * ROUNDING_SHARE
    if computed is None or abs(computed - parse_positive_number(value)) > tolerance:
        raise ValueError(
            f"value {value}, but its runs give {'none' if computed is None else f'{computed:.7g}'}"
        )


def compute_published_value(runs: Sequence[float | None], metric: str) -> float | None:
    """Compute the value of runs: the olympic mean of times, the slowest of several LoadGen runs."""
    if metric == TIME_TO_TRAIN:
        return compute_olympic_mean(runs, MIN_OLYMPIC_RUNS)
    finished = [run for run in runs if run is not None]
    if len(finished) < len(runs):
        return None
    if is_higher_better(metric):
        return min(finished)
    return max(finished)


def compute_last_digit_size(text: str) -> float:
    """Return the size of a number's last digit; 0 for a number with an exponent, for which no
    rounding is allowed.
    """
    if not PLAIN_NUMBER_CHARACTERS.issuperset(text):
        return 0.0
    return 10.0 ** -len(text.partition(".")[2])


def select_rows_of_kind(
    rows: Iterable[Result], workload: str, half: str, scenario: str | None, metric: str
) -> list[Result]:
    """Return the rows of one workload and scenario; figures without a scenario are matched by
    metric.
    """
    return [
        row
        for row in rows
        if fold_name(row.workload) == fold_name(workload)
        and row.half == half
        and (row.scenario or row.metric) in (scenario, metric)
    ]


def rank_row_by_value(row: Result) -> tuple[str, str, str, str, str, float]:
    """Return a sort key: rows of one kind of figure together, the best value first."""
    headline = row.headline or 0.0
    worse = -headline if is_higher_better(row.metric) else headline
    return (fold_name(row.workload), row.half, row.scenario or "", row.metric, row.unit, worse)


def filter_published_rows(
    rows: Iterable[Result], workload: str | None, org: str | None
) -> Iterator[Result]:
    """Return the rows of a workload and an organisation; all rows if neither is given."""
    for row in rows:
        if (workload is None or is_workload_name(workload, row)) and (
            org is None or fold_name(row.org) == fold_name(org)
        ):
            yield row


def is_workload_name(name: str, row: Result) -> bool:
    """Return whether a name is that of a row's workload: podium's, or one of MLPerf's."""
    return fold_name(row.workload) in map(fold_name, (name, find_podium_workload(row.half, name)))
