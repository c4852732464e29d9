"""Collects the issue and completion time of each query, and writes them as `queries.npy` after
LoadGen has ended; of generated answers `tokens.npy` as well.

Inside LoadGen's clock its thread reads the time of each issue, and workers append these and their
completions to arrays, which become rows afterwards.
Queries are identified by their number in the order of issue.
"""

import errno
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from suite.files.layout import (
    ARRIVAL_RECORD_FILE,
    GAP_RECORD_FILE,
    LOGPROB_FILE,
    QUERY_RECORD_FILE,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
    replace_atomically,
)
from suite.loadgen.arrival_record import ARRIVAL_RECORD_FIELDS
from suite.loadgen.logprob_record import (
    MAX_KEPT_SAMPLES,
    MAX_LOGPROB_ROWS,
    SAID_COLUMN,
    SAID_FIELDS,
    SaidAnswer,
)
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS, QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_RECORD_FIELDS
from suite.loadgen.usage_record import USAGE_RECORD_FIELDS

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
    return write_record_array(
        folder / QUERY_RECORD_FILE, lambda: build_query_table(scenario, issued, workers)
    )


def build_token_table(
    issued: "array[int]",
    workers: Sequence[WorkerCompletions],
    rows: "array[int]",
    columns: int = len(TOKEN_RECORD_FIELDS),
) -> Any:
    """Build the token record, int64 (answers, columns): of each answer a row, of the same place in
    the completions, sorted as the query record is.
    """
    import numpy

    table = numpy.frombuffer(rows, numpy.int64).reshape(-1, columns)
    completed = numpy.concatenate(
        [
            numpy.frombuffer(each.numbers, numpy.int64).reshape(-1, NUMBERS_PER_COMPLETION)
            for each in workers
        ]
    )[: len(table)]
    begun = numpy.frombuffer(issued, numpy.int64)[completed[:, 2]]
    return table[numpy.lexsort((completed[:, 0], begun))]


def write_token_times(
    folder: Path,
    issued: "array[int]",
    workers: Sequence[WorkerCompletions],
    rows: "array[int]",
) -> str:
    """Write the token record into a run's folder; return why that failed, or ""."""
    return write_record_array(
        folder / TOKEN_RECORD_FILE, lambda: build_token_table(issued, workers, rows)
    )


def write_prompt_usage(
    folder: Path,
    issued: "array[int]",
    workers: Sequence[WorkerCompletions],
    rows: "array[int]",
) -> str:
    """Write the usage record into a run's folder; return why that failed, or ""."""
    columns = len(USAGE_RECORD_FIELDS)
    return write_record_array(
        folder / USAGE_RECORD_FILE, lambda: build_token_table(issued, workers, rows, columns)
    )


def write_log_probabilities(folder: Path, kept: Mapping[int, SaidAnswer]) -> str:
    """Write what a system said of its answers, by sample, into an accuracy run's folder; of the
    first samples, and as far as there is room. Return why that failed, or "".
    """
    return write_record_array(folder / LOGPROB_FILE, lambda: build_said_table(kept))


def build_said_table(kept: Mapping[int, SaidAnswer]) -> Any:
    """Build the rows of `logprobs.npy`; what is no finite number is left out."""
    import numpy

    rows = [
        (sample, place, kept[sample].prompt_tokens, value)
        for sample in sorted(set(range(MAX_KEPT_SAMPLES)) & kept.keys())
        for place, value in enumerate(kept[sample].values)
    ][:MAX_LOGPROB_ROWS]
    with numpy.errstate(over="ignore"):
        table = numpy.array(rows, numpy.dtype(list(SAID_FIELDS)))
    return table[numpy.isfinite(table[SAID_COLUMN])]


def write_arrivals(
    folder: Path,
    issued: "array[int]",
    workers: Sequence[WorkerCompletions],
    rows: "array[int]",
    gaps: "array[int]",
) -> Iterator[str]:
    """Write what arrived of each answer into a run's folder; yield why that failed, or "", for each
    of the two files.

    Args:
        folder: of the run.
        issued: time of each query.
        workers: the completions of one worker.
        rows: ARRIVAL_RECORD_FIELDS of each answer, in the order of completion.
        gaps: times between arrivals, answer by answer in the same order.
    """
    columns = len(ARRIVAL_RECORD_FIELDS)
    if len(gaps) > MAX_QUERY_RECORD_ROWS:
        yield f"{GAP_RECORD_FILE} is lost: more than {MAX_QUERY_RECORD_ROWS:,} times"
        return
    yield write_record_array(
        folder / ARRIVAL_RECORD_FILE, lambda: build_token_table(issued, workers, rows, columns)
    )
    yield write_record_array(
        folder / GAP_RECORD_FILE, lambda: order_gaps(issued, workers, rows, gaps)
    )


def order_gaps(
    issued: "array[int]",
    workers: Sequence[WorkerCompletions],
    rows: "array[int]",
    gaps: "array[int]",
) -> Any:
    """Return the times between arrivals in the order of the answers' rows, int64 (all gaps,)."""
    import numpy

    counts = numpy.frombuffer(rows, numpy.int64).reshape(-1, len(ARRIVAL_RECORD_FIELDS))[:, 1]
    ends = numpy.cumsum(counts)
    places = array("q", (ends - counts).tolist())  # of each answer's first gap, before the sorting
    starts = build_token_table(issued, workers, places, 1).ravel()
    lengths = build_token_table(issued, workers, array("q", counts.tolist()), 1).ravel()
    shifts = numpy.repeat(starts - (numpy.cumsum(lengths) - lengths), lengths)
    taken = shifts + numpy.arange(len(shifts))
    return numpy.frombuffer(gaps, numpy.int64)[taken]


def write_prompt_times(
    path: Path,
    issued: "array[int]",
    workers: Sequence[WorkerCompletions],
    times: "array[int]",
) -> str:
    """Write a time of each prompt, as its start, as a file of a run; return why that failed, or
    "".
    """
    return write_record_array(path, lambda: build_token_table(issued, workers, times, 1).ravel())


def write_record_array(path: Path, build: Callable[[], Any]) -> str:
    """Write an array as a file of a run; return why that failed, or ""."""
    import numpy

    try:
        with replace_atomically(path) as partial, partial.open("wb") as stream:
            numpy.save(stream, build(), allow_pickle=False)
    except MemoryError:
        return f"{path.name} is lost: too little memory"
    except OSError as error:  # NumPy's own has no number: fewer bytes were written than asked for
        return f"{path.name} is lost: {error.strerror or os.strerror(errno.ENOSPC)}"
    return ""
