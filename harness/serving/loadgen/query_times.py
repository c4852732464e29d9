"""Collects when each query was issued and completed, and writes them as `queries.npy` when LoadGen has ended.

Inside LoadGen's clock a worker adds plain numbers to arrays of its own; rows are made of them afterwards.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from suite.files.layout import QUERIES, written
from suite.loadgen.query_record import FIELDS, MOST_ROWS
from suite.loadgen.scenario import Scenario

NUMBERS: Final = 4
"""Of a completion: its time, its batch, its rows, the samples of each row."""


class Completions:
    """What one worker completed; a completion answers some queries of one sample each, or a part of one query."""

    def __init__(self) -> None:
        self.issued = array("q")
        self.completed = array("q")

    def add(self, done_ns: int, batch: int, issued_ns: list[int], samples: int) -> None:
        """Note a completion: one row for each stamp of issue; beyond the most rows of a record, nothing."""
        if len(self.issued) < MOST_ROWS:
            rows = len(issued_ns)
            self.issued.extend(issued_ns)
            self.completed.extend((done_ns, batch, rows, samples // rows))


def table(scenario: Scenario, workers: Sequence[Completions]) -> Any:
    """Make the rows, a structured array (queries,), of what all workers completed; MultiStream's parts of a query become one."""
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
    """Join the parts of each query, which have its time of issue: it is done with its last part."""
    import numpy

    if not len(rows):
        return rows
    first = numpy.flatnonzero(numpy.diff(rows["issued_ns"], prepend=rows["issued_ns"][0] - 1))
    last = numpy.append(first[1:], len(rows)) - 1
    joined = rows[last]
    joined["samples"] = numpy.add.reduceat(rows["samples"], first)
    return joined


def write(folder: Path, scenario: Scenario, workers: Sequence[Completions]) -> str:
    """Write the record into a run's folder; give why it could not be written, nothing where it was. The run counts without it."""
    import numpy

    try:
        with written(folder / QUERIES) as partial, partial.open("wb") as stream:
            numpy.save(stream, table(scenario, workers), allow_pickle=False)
    except (OSError, MemoryError) as error:
        return f"{QUERIES} is lost: {getattr(error, 'strerror', None) or 'too little memory'}"
    return ""
