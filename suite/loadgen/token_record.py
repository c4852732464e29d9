"""The token record of a performance run, `tokens.npy`: its fields.

One row per generated answer, in the order of issue, and of completion for those of one query. NumPy
format, version 1.0, two dimensions, int64, no pickled objects. The harness writes it, the judge
reads it.
"""

from typing import Final

TOKEN_RECORD_FIELDS: Final = ("sample", "first_ns", "last_ns", "tokens")
"""Columns: the sample's number; when its first token and when its last one was handed to LoadGen,
by the monotonic clock of `queries.npy`; its number of tokens.
"""
TOKEN_BYTES: Final = 4
"""Of one token in an answer: suite/workload.py, GeneratingInference."""
