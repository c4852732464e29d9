"""The record of a performance run's queries, `queries.npy`: its fields, and how many rows it has at most.

One row for each query, in the order of issue; of Offline's one query, one row for each chunk of samples that was completed at once, in the order of
completion. NumPy's format, version 1.0, one dimension, no pickled objects. The same numbers that the harness writes the judge reads.
"""

from typing import Final

FIELDS: Final = (("issued_ns", "<i8"), ("done_ns", "<i8"), ("batch", "<u4"), ("samples", "<u4"))
"""Name and type of each field: when the query was issued to podium and when its last answer was handed to LoadGen, both by the monotonic clock;
the number of the batch that held its last sample, from 0; its samples."""
MOST_ROWS: Final = 8_388_608
"""House rule: 2**23 rows of 24 bytes are 192 MiB. A longer run's record ends there; what follows is not written."""
