"""The query record of a performance run, `queries.npy`: its fields and its row limit.

One row per query, in order of issue. Offline has one query; its rows are the chunks of samples that
completed together, in order of completion. NumPy format, version 1.0, one dimension, no pickled
objects. The harness writes it, the judge reads it.
"""

from dataclasses import dataclass
from typing import Any, Final

QUERY_RECORD_FIELDS: Final = (
    ("issued_ns", "<i8"),
    ("done_ns", "<i8"),
    ("batch", "<u4"),
    ("samples", "<u4"),
)
"""Name and type of each field: when the query was issued to podium and when its last answer was
handed to LoadGen, both by the monotonic clock;
the 0-based number of the batch that contained its last sample; its number of samples."""
MAX_QUERY_RECORD_ROWS: Final = 8_388_608
"""House rule: 2**23 rows of 24 bytes are 192 MiB. The record of a longer run is cut off there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryTimes:
    """The rows, as memory-mapped NumPy arrays (queries,)."""

    issued_ns: Any
    done_ns: Any
    batch: Any
    samples: Any

    def __len__(self) -> int:
        return len(self.issued_ns)
