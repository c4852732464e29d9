"""The token record of a performance run, `tokens.npy`: its fields.

One row per generated answer, in the order of issue, and of completion for those of one query. NumPy
format, version 1.0, two dimensions, int64, no pickled objects. The harness writes it, the judge
reads it.
"""

from dataclasses import dataclass
from typing import Any, Final

from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS

TOKEN_RECORD_FIELDS: Final = ("sample", "first_ns", "last_ns", "tokens")
"""Columns: the sample's number; when its first token and when its last one was handed to LoadGen,
by the monotonic clock of `queries.npy`; its number of tokens.
"""
TOKEN_BYTES: Final = 4
"""Of one token in an answer: suite/workload.py, GeneratingInference."""
TOKEN_COUNT_TOLERANCE: Final = 0.02
"""House rule: a tokenizer may split a text otherwise than it was generated."""
MAX_SHARE_WITHOUT_TIMES: Final = 0.9
"""Of answers whose tokens came all at once: with more, the 90th percentile is one of theirs."""
MAX_SHARE_IN_ONE_READ: Final = 0.25
"""House rule: of answers whose tokens came all at once, with no time between them. A busy client
reads some so; with a quarter of them the 90th percentile of the times per token is the 87th of the
others.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenTimes:
    """The rows, as memory-mapped NumPy arrays (answers,), in the order of `queries.npy`."""

    sample: Any
    first_ns: Any
    last_ns: Any
    tokens: Any

    def __len__(self) -> int:
        return len(self.sample)

    @property
    def total(self) -> int | None:
        """Return the tokens of all answers; None if the record may lack answers."""
        if len(self) >= MAX_QUERY_RECORD_ROWS:
            return None
        return int(self.tokens.sum())


def is_token_count_credible(told: float, recounted: float, answers: float) -> bool:
    """Return whether a server's number of tokens is that of its answers' texts: within one token
    of each answer, since the one that ends it may or may not be counted, and the tolerance.
    """
    return abs(told - recounted) <= answers + TOKEN_COUNT_TOLERANCE * recounted


def is_time_per_token_known(in_one_read: int | None, answers: float) -> bool:
    """Return whether enough answers came in several reads for the 90th percentile of the time per
    token to be one of theirs.
    """
    return (in_one_read or 0) < MAX_SHARE_WITHOUT_TIMES * answers


def is_streaming_credible(in_one_read: int | None, answers: float) -> bool:
    """Return whether answers came token by token, as far as it is known."""
    return (in_one_read or 0) <= MAX_SHARE_IN_ONE_READ * answers
