"""The queries of a performance run: `queries.npy`, an untrusted file, and the statistics of its
columns.

The file has one row per query, or per completed chunk of Offline's one query: issued_ns, done_ns
(monotonic clock), batch, samples.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from compliance.results.run_figures import LOADGEN_PERCENTILES
from suite.errors import JudgedError
from suite.files.layout import QUERY_RECORD_FILE
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS, QUERY_RECORD_FIELDS
from suite.units import NS_PER_MS, NS_PER_S

# Legend: Q queries in order of issue, B bins, G groups.
FloatArray: TypeAlias = npt.NDArray[np.float64]
QUERY_ROW_DTYPE: Final = np.dtype(list(QUERY_RECORD_FIELDS))
LATENCY_BINS: Final = 48
"""Bins of the distribution, on a logarithmic axis."""
RATE_SLICES: Final = 25
"""Slices of a run's duration, for rates."""
MIN_SLICE_CHUNKS: Final = 2
"""Minimum mean number of chunks in a slice."""
MAX_SINGLE_QUERIES: Final = 400
"""Maximum number of queries drawn individually; more are drawn in groups."""
MIN_GROUP_QUERIES: Final = 20
"""Minimum number of queries in a group: enough for a median that is insensitive to one slow
query.
"""
MAX_QUERY_GROUPS: Final = 100
"""Maximum number of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedQueries:
    """The query record of a run."""

    first_ns: int
    """Issue time of the first query, by the monotonic clock."""
    issued_Q: npt.NDArray[np.int64]
    """ns since the first query."""
    latency_Q: npt.NDArray[np.int64]
    """ns from issue to completion. In Server, LoadGen's latency differs: it starts at the scheduled
    time.
    """
    batch_Q: npt.NDArray[np.uint32]
    samples_Q: npt.NDArray[np.uint32]

    @property
    def duration_ns(self) -> int:
        """ns from the first query to the last completion."""
        return int((self.issued_Q + self.latency_Q).max())


def read_recorded_queries(path: Path) -> RecordedQueries | None:
    """Read the record; None if there is none, JudgedError if it is malformed."""
    if not path.is_file():
        return None
    try:
        rows = map_npy_array(path)
    except UnreadableError as error:
        raise JudgedError(f"{QUERY_RECORD_FILE} cannot be read: {error.reason}") from error
    if (
        rows.dtype != QUERY_ROW_DTYPE
        or rows.ndim != 1
        or not 0 < len(rows) <= MAX_QUERY_RECORD_ROWS
    ):
        raise JudgedError(f"{QUERY_RECORD_FILE} is not a record of queries")
    issued_Q, done_Q = rows["issued_ns"], rows["done_ns"]
    first = int(issued_Q.min())
    latency_Q = done_Q - issued_Q
    if first < 0 or latency_Q.min() < 0:
        raise JudgedError(
            f"{QUERY_RECORD_FILE} contains queries that were answered before they were issued"
        )
    return RecordedQueries(
        first_ns=first,
        issued_Q=issued_Q - first,
        latency_Q=latency_Q,
        batch_Q=np.array(rows["batch"]),
        samples_Q=np.array(rows["samples"]),
    )


def compute_latency_percentiles(
    latency_Q: npt.NDArray[np.int64],
) -> list[tuple[float, float]]:
    """Return percentiles of latencies in ns, with their values in ms. As in LoadGen, the index into
    the sorted latencies is the percentile's share of the count, rounded down.
    """
    sorted_Q, count = np.sort(latency_Q), len(latency_Q)
    return [
        (percent, float(sorted_Q[min(int(count * (percent / 100)), count - 1)]) / NS_PER_MS)
        for percent in LOADGEN_PERCENTILES
    ]


def compute_latency_distribution(
    latency_Q: npt.NDArray[np.int64],
) -> list[tuple[float, float]]:
    """Return the centre of each bin in ms, on a logarithmic axis, and the percentage of latencies,
    given in ns, in it.
    """
    value_Q = np.maximum(latency_Q, 1) / NS_PER_MS
    low, high = float(value_Q.min()), float(value_Q.max())
    if high <= low:
        return [(low, 100.0)]
    edges = np.geomspace(low, high, LATENCY_BINS + 1)
    count_B, _ = np.histogram(value_Q, bins=edges)
    middle_B = np.sqrt(edges[:-1] * edges[1:])
    return [
        (float(x), float(100.0 * y / len(value_Q))) for x, y in zip(middle_B, count_B, strict=True)
    ]


def sort_by_issue_time(queries: RecordedQueries) -> tuple[FloatArray, FloatArray]:
    """Return issue times in seconds and latencies in ms, in order of issue."""
    order_Q = np.argsort(queries.issued_Q, kind="stable")
    return queries.issued_Q[order_Q] / NS_PER_S, queries.latency_Q[order_Q] / NS_PER_MS


def list_query_latencies(queries: RecordedQueries) -> list[tuple[float, float]]:
    """Return the latency in ms of every query; x is its issue time in seconds."""
    return [(float(x), float(y)) for x, y in zip(*sort_by_issue_time(queries), strict=True)]


def compute_query_group_size(queries: RecordedQueries) -> int:
    """Return the number of consecutive queries in a group; the last group has up to twice as
    many.
    """
    return max(MIN_GROUP_QUERIES, -(-len(queries.latency_Q) // MAX_QUERY_GROUPS))


def compute_group_latencies(
    queries: RecordedQueries,
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the median and the highest latency in ms of each group of consecutive queries; x is
    their mean issue time in seconds.

    Groups have equal numbers of queries, and every query is in a group: groups of equal time would
    contain many fast queries and few slow ones.
    """
    issued_Q, latency_Q = sort_by_issue_time(queries)
    cuts = np.arange(
        1, max(1, len(latency_Q) // compute_query_group_size(queries))
    ) * compute_query_group_size(queries)
    times = [float(part.mean()) for part in np.split(issued_Q, cuts)]
    parts = np.split(latency_Q, cuts)
    return list(zip(times, (float(np.median(part)) for part in parts), strict=True)), list(
        zip(times, (float(part.max()) for part in parts), strict=True)
    )


def has_drawable_rate(queries: RecordedQueries) -> bool:
    """Return whether a rate over time shows the system: with fewer chunks it shows which slices
    their ends fell into.
    """
    return len(queries.latency_Q) >= MIN_SLICE_CHUNKS * RATE_SLICES


def compute_completion_rates(
    queries: RecordedQueries, weight_Q: npt.NDArray[Any]
) -> list[tuple[float, float]]:
    """Return the samples or tokens per second completed in each slice of the run, by the number
    that each completion has of them; x is in seconds since the first query.
    """
    done_Q = queries.issued_Q + queries.latency_Q
    ends = np.linspace(0, int(done_Q.max()) + 1, RATE_SLICES + 1)
    weight_S, _ = np.histogram(done_Q, bins=ends, weights=weight_Q)
    return [
        (float((a + b) / 2 / NS_PER_S), float(n / ((b - a) / NS_PER_S)))
        for a, b, n in zip(ends[:-1], ends[1:], weight_S, strict=True)
    ]


def compute_batch_size_shares(queries: RecordedQueries) -> list[tuple[float, float]]:
    """Return batch sizes, in samples, with the percentage of samples answered in a batch of that
    size.
    """
    size_B, weight_B = count_samples_by_batch_size(queries)
    total = float(weight_B.sum())
    if not total:
        return []
    return [
        (float(size), float(100.0 * weight / total))
        for size, weight in zip(size_B, weight_B, strict=True)
    ]


def count_samples_by_batch_size(queries: RecordedQueries) -> tuple[FloatArray, FloatArray]:
    """Count the samples answered in batches of each size; `batch` is the number of the batch that
    contained a query's last sample.
    """
    _, index_Q = np.unique(queries.batch_Q, return_inverse=True)
    size_of: FloatArray = np.bincount(index_Q, weights=queries.samples_Q).astype(np.float64)
    size_B, count_B = np.unique(size_of, return_counts=True)
    weight_B: FloatArray = size_B * count_B
    return np.asarray(size_B, dtype=np.float64), weight_B
