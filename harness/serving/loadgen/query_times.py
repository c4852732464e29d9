"""Collects the issue and completion time of each query, and writes them as `queries.npy` after LoadGen has ended.

Inside LoadGen's clock a worker appends plain numbers to its own arrays; they become rows afterwards.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from suite.files.layout import QUERIES, written
from suite.loadgen.query_record import FIELDS, MOST_ROWS
from suite.loadgen.scenario import Scenario

NUMBERS: Final = 4
"""Per completion: its time, its batch, its rows, the samples per row."""


class Completions:
    """One worker's completions; each answers several single-sample queries, or a part of one query."""

    def __init__(self) -> None:
        self.issued = array("q")
        self.completed = array("q")

    def add(self, done_ns: int, batch: int, issued_ns: list[int], samples: int) -> None:
        """Record a completion: one row per issue time; rows beyond the record's limit are dropped."""
        if len(self.issued) < MOST_ROWS:
            rows = len(issued_ns)
            self.issued.extend(issued_ns)
            self.completed.extend((done_ns, batch, rows, samples // rows))


def table(scenario: Scenario, workers: Sequence[Completions]) -> Any:
    """Build the rows, a structured array (queries,), from all workers' completions; the parts of a MultiStream query become one row."""
    import numpy

    issued = numpy.concatenate([numpy.frombuffer(each.issued, numpy.int64) for each in workers])
    completed = numpy.concatenate([numpy.frombuffer(each.completed, numpy.int64).reshape(-1, NUMBERS) for each in workers])
    rows = numpy.empty(len(issued), numpy.dtype(list(FIELDS)))
    rows["issued_ns"] = issued
    for name, column in zip(("done_ns", "batch", "samples"), (0, 1, 3), strict=True):
        rows[name] = numpy.repeat(completed[:, column], completed[:, 2])
    rows = rows[numpy.lexsort((rows["done_ns"], rows["issued_ns"]))]
    return (whole_queries(rows) if scenario is Scenario.MULTI_STREAM else rows)[:MOST_ROWS]


def whole_queries(rows: Any) -> Any:
    """Join the parts of each query, which share its issue time; it completes with its last part."""
    import numpy

    if not len(rows):
        return rows
    first = numpy.flatnonzero(numpy.diff(rows["issued_ns"], prepend=rows["issued_ns"][0] - 1))
    last = numpy.append(first[1:], len(rows)) - 1
    joined = rows[last]
    joined["samples"] = numpy.add.reduceat(rows["samples"], first)
    return joined


def write(folder: Path, scenario: Scenario, workers: Sequence[Completions]) -> str:
    """Write the record into a run's folder; return why that failed, or "". The run counts without it."""
    import numpy

    try:
        with written(folder / QUERIES) as partial, partial.open("wb") as stream:
            numpy.save(stream, table(scenario, workers), allow_pickle=False)
    except (OSError, MemoryError) as error:
        return f"{QUERIES} is lost: {getattr(error, 'strerror', None) or 'too little memory'}"
    return ""
