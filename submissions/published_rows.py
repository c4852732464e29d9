"""Published results as reference points: CSV rows, each with its source, its runs, and a value
computed from them.

Imports nothing of the judge, so that `podium published` starts fast.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from submissions.metrics import TIME_TO_TRAIN, more_is_better, olympic
from suite.errors import RequestError, unknown
from suite.files.layout import fold
from suite.files.untrusted_files import UnreadableError, printable, read_text, whole_number
from suite.loadgen.scenario import Scenario

FOLDER: Final = files("suite.rounds") / "published"
LEGEND: Final = (
    (
        "Rows of MLPerf rounds were recomputed from the result logs that MLCommons published, at"
        " the commit in their source; their result ids are in none of these files. Rows of kind"
        " 'reported' are what their document says, and no MLPerf results."
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
HALVES: Final = ("training", "inference")
RECOMPUTED: Final = "recomputed"
KINDS: Final = (RECOMPUTED, "reported")
"""Recomputed from published logs; taken from a table or an article."""
UNITS: Final = (
    "minutes",
    "samples/s",
    "queries/s",
    "sentences/s",
    "samples/query",
    "ns",
    "ms",
    "W",
    "samples/s/W",
    "1",
)
SCENARIOS: Final = ("", *(scenario.label for scenario in Scenario))
OLYMPIC_FROM: Final = 3
"""Number of runs from which a set's mean drops the fastest and the slowest, as published rounds are
scored.
"""
HALF: Final = 0.500001
"""Of the last digit: the largest rounding error, plus a double's own."""
PLAIN: Final = frozenset("0123456789.")
"""Characters of a number without an exponent."""
MISSED: Final = "-"
"""A run that did not reach its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One published set or entry; its fields are the columns of the CSV, in this order."""

    id: str
    round: str
    half: str
    division: str
    """Empty if the files do not state it."""
    org: str
    system: str
    accelerator: str
    accelerators: int | None
    """Of all nodes together."""
    nodes: int | None
    workload: str
    """Podium's name of the workload, if it has one."""
    scenario: str
    """LoadGen's name; empty for training, and for figures without a scenario."""
    metric: str
    unit: str
    value: float
    runs: tuple[float | None, ...]
    """None for one that missed its target."""
    kind: str
    source: str
    note: str


COLUMNS: Final = tuple(field.name for field in fields(Reference))
WORKLOAD: Final = COLUMNS.index("workload")


def bundled() -> tuple[str, ...]:
    """Return what podium includes: published rounds, and `documents`."""
    return tuple(
        sorted(Path(each.name).stem for each in FOLDER.iterdir() if each.name.endswith(".csv"))
    )


def about(workloads: Iterable[str]) -> tuple[Reference, ...]:
    """Read what podium includes of some workloads, without a look at the rows of others."""
    folded = frozenset(map(fold, workloads))
    return tuple(row for name in bundled() for row in included(name, folded))


def included(name: str, workloads: frozenset[str] | None = None) -> tuple[Reference, ...]:
    """Read one of what podium includes, as `parsed` does."""
    return parsed((FOLDER / f"{name}.csv").read_text("utf-8"), f"{name}.csv", workloads)


def load(name: str) -> tuple[Reference, ...]:
    """Read the rows of a round, of the documents, or of a user's file; RequestError if it does not
    exist or one of its rows is invalid.
    """
    if name in bundled():
        return included(name)
    if not name.endswith(".csv"):
        raise unknown("published round", name, bundled())
    try:
        return parsed(read_text(Path(name), "utf-8-sig"), name)
    except UnreadableError as error:
        raise RequestError(str(error)) from error


def parsed(text: str, name: str, workloads: frozenset[str] | None = None) -> tuple[Reference, ...]:
    """Parse CSV, all or the rows of some workloads, whose folded names are given; RequestError
    names the invalid line.
    """
    reader = csv.reader(io.StringIO(text))
    rows: list[Reference] = []
    seen: set[str] = set()
    try:
        if (header := next(reader, None)) != list(COLUMNS):
            raise ValueError(
                f"columns {', '.join(header or ()) or 'none'}; required: {', '.join(COLUMNS)}"
            )
        for cells in filter(None, reader):
            if (
                workloads is not None
                and len(cells) == len(COLUMNS)
                and fold(cells[WORKLOAD].strip()) not in workloads
            ):
                continue
            row = row_of(cells)
            if row.id in seen:
                raise ValueError(f"duplicate id {row.id}")
            seen.add(row.id)
            rows.append(row)
    except (ValueError, csv.Error) as error:
        raise RequestError(printable(f"{name}:{max(1, reader.line_num)}: {error}")) from error
    return tuple(rows)


def row_of(cells: Sequence[str]) -> Reference:
    """Parse one row; ValueError if it is invalid."""
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{len(cells)} cells; required: {len(COLUMNS)}")
    told: dict[str, Any] = {
        name: printable(cell.strip()) for name, cell in zip(COLUMNS, cells, strict=True)
    }
    for name in ("id", "round", "workload", "metric", "source"):
        if not told[name]:
            raise ValueError(f"no {name}")
    for name, allowed in (
        ("half", HALVES),
        ("scenario", SCENARIOS),
        ("unit", UNITS),
        ("kind", KINDS),
    ):
        if told[name] not in allowed:
            raise ValueError(
                f"{name} {told[name] or 'missing'}; required: {', '.join(filter(None, allowed))}"
            )
    check_value(told)
    counts = {name: count(told, name) for name in ("accelerators", "nodes")}
    return Reference(
        **told | counts | {"value": positive(told["value"]), "runs": runs_of(told["runs"])}
    )


def runs_of(text: str) -> tuple[float | None, ...]:
    """Parse the runs, separated by spaces."""
    return tuple(None if run == MISSED else positive(run) for run in text.split())


def positive(text: str) -> float:
    """Parse a finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"'{text}' is not a number above 0")
    return value


def count(told: Mapping[str, str], name: str) -> int | None:
    """Parse a count; empty is unknown."""
    found = whole_number(told[name])
    if told[name] and found is None:
        raise ValueError(f"{name} {told[name]}; required: a whole number, or nothing")
    return found


def check_value(told: Mapping[str, str]) -> None:
    """Reject a value that does not follow from its runs, within the precision of their digits."""
    value, texts = told["value"], [run for run in told["runs"].split() if run != MISSED]
    if not told["runs"]:
        if told["kind"] == RECOMPUTED:
            raise ValueError("recomputed, but without runs")
        return
    given = value_of(runs_of(told["runs"]), told["metric"])
    room = (last_digit(value) + max(map(last_digit, texts), default=0.0)) * HALF
    if given is None or abs(given - positive(value)) > room:
        raise ValueError(
            f"value {value}, but its runs give {'none' if given is None else f'{given:.7g}'}"
        )


def value_of(runs: Sequence[float | None], metric: str) -> float | None:
    """Compute the value of runs: the olympic mean of times, the slowest of several LoadGen runs."""
    if metric == TIME_TO_TRAIN:
        return olympic(runs, OLYMPIC_FROM)
    finished = [run for run in runs if run is not None]
    if len(finished) < len(runs):
        return None
    return min(finished) if more_is_better(metric) else max(finished)


def last_digit(text: str) -> float:
    """Return the size of a number's last digit; 0 for a number with an exponent, which allows no
    rounding.
    """
    return 10.0 ** -len(text.partition(".")[2]) if PLAIN.issuperset(text) else 0.0


def beside_kind(
    rows: Iterable[Reference], workload: str, half: str, scenario: str | None, metric: str
) -> list[Reference]:
    """Return the rows of one workload and scenario; figures without a scenario are matched by
    metric.
    """
    return [
        row
        for row in rows
        if fold(row.workload) == fold(workload)
        and row.half == half
        and (row.scenario or row.metric) in (scenario, metric)
    ]


def select(rows: Iterable[Reference], workload: str | None, org: str | None) -> Iterator[Reference]:
    """Return the rows of a workload and an organisation; all if neither is named."""
    for row in rows:
        if (workload is None or fold(row.workload) == fold(workload)) and (
            org is None or fold(row.org) == fold(org)
        ):
            yield row
