"""Collects the issue and completion time of each query, and writes them as `queries.npy` after
LoadGen has ended.

Inside LoadGen's clock its thread reads the time of each issue, and workers append these and their
completions to arrays, which become rows afterwards.
Queries are identified by their number in the order of issue.
"""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from suite.files.layout import QUERY_RECORD_FILE, replace_atomically
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS, QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario

NUMBERS_PER_COMPLETION: Final = 5
"""Per completion: its time, its batch, its first query (from 0, in the order of issue), its
queries, the samples per query.
"""


class WorkerCompletions:
    """One worker's completions; each answers several single-sample queries, or a part of one
    query.
    """

    def __init__(self) -> None:
        self.numbers = array("q")

    def add_completion(
        self, done_ns: int, batch: int, first: int, queries: int, samples: int
    ) -> None:
        """Record a completion of so many queries; completions beyond the record's limit are
        dropped.
        """
        if len(self.numbers) < NUMBERS_PER_COMPLETION * MAX_QUERY_RECORD_ROWS:
            self.numbers.extend((done_ns, batch, first, queries, samples // queries))


def build_query_table(
    scenario: Scenario, issued: "array[int]", workers: Sequence[WorkerCompletions]
) -> Any:
    """Build the rows, a structured array (queries,), from the issue times and all workers'
    completions; the parts of a MultiStream query become one row.
    """
    import numpy

    completed = numpy.concatenate(
        [
            numpy.frombuffer(each.numbers, numpy.int64).reshape(-1, NUMBERS_PER_COMPLETION)
            for each in workers
        ]
    )
    completed = completed[completed[:, 2] < MAX_QUERY_RECORD_ROWS]
    counts = completed[:, 3]
    query = numpy.repeat(completed[:, 2] - counts.cumsum() + counts, counts) + numpy.arange(
        counts.sum()
    )
    rows = numpy.empty(len(query), numpy.dtype(list(QUERY_RECORD_FIELDS)))
    rows["issued_ns"] = numpy.frombuffer(issued, numpy.int64)[query]
    for name, column in zip(("done_ns", "batch", "samples"), (0, 1, 4), strict=True):
        rows[name] = numpy.repeat(completed[:, column], counts)
    rows = rows[numpy.lexsort((rows["done_ns"], rows["issued_ns"]))]
    return (join_query_parts(rows) if scenario is Scenario.MULTI_STREAM else rows)[
        :MAX_QUERY_RECORD_ROWS
    ]


def join_query_parts(rows: Any) -> Any:
    """Join the parts of each query, which share its issue time; it completes with its last part."""
    import numpy

    if not len(rows):
        return rows
    first = numpy.flatnonzero(numpy.diff(rows["issued_ns"], prepend=rows["issued_ns"][0] - 1))
    last = numpy.append(first[1:], len(rows)) - 1
    joined = rows[last]
    joined["samples"] = numpy.add.reduceat(rows["samples"], first)
    return joined


def write_query_times(
    folder: Path, scenario: Scenario, issued: "array[int]", workers: Sequence[WorkerCompletions]
) -> str:
    """Write the record into a run's folder; return why that failed, or "". The run counts without
    it.
    """
    import numpy

    try:
        with (
            replace_atomically(folder / QUERY_RECORD_FILE) as partial,
            partial.open("wb") as stream,
        ):
            numpy.save(stream, build_query_table(scenario, issued, workers), allow_pickle=False)
    except (OSError, MemoryError) as error:
        return (
            f"{QUERY_RECORD_FILE} is lost:"
            f" {getattr(error, 'strerror', None) or 'too little memory'}"
        )
    return ""
