"""The record of what arrived of each streamed answer, `arrivals.npy` and `gaps.npy`: what
`tokens.npy`, which has first and last times, does not tell.

`arrivals.npy` has one row per answer, in the order of `tokens.npy`; `gaps.npy` the times between
arrivals, answer by answer in that order. NumPy format, version 1.0, int64, no pickled objects. The
harness writes them for runs that record when prompts begin.
"""

from dataclasses import dataclass
from typing import Any, Final

ARRIVAL_RECORD_FIELDS: Final = ("first_tokens", "gaps")
"""Columns: tokens that came with the first arrival, by the tokenizer, 0 if there is none; and how
many times between arrivals `gaps.npy` has of the answer.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnswerArrivals:
    """What arrived of the answers of a run."""

    first_tokens: Any
    """Array (answers,)."""
    counts: Any
    """Array (answers,): times between arrivals."""
    gaps_ns: Any
    """Array (sum of counts,): time from an arrival to the next one of the same answer."""

    def __len__(self) -> int:
        return len(self.first_tokens)

    @property
    def is_whole(self) -> bool:
        """Return whether there are as many times as the answers say."""
        counted = bool((self.counts >= 0).all())
        return counted and int(self.counts.sum()) == len(self.gaps_ns)

    def sum_gaps_ns(self) -> Any:
        """Return the time between the first and the last arrival of each answer: an array
        (answers,) of ns.
        """
        import numpy

        ends = numpy.concatenate(([0], numpy.cumsum(self.gaps_ns)))
        last = numpy.cumsum(self.counts)
        return ends[last] - ends[last - self.counts]


def build_answer_arrivals(table: Any, gaps_ns: Any) -> AnswerArrivals | None:
    """Build the record from the rows of both files; None if one is missing or of another form."""
    if table is None or gaps_ns is None or table.ndim != 2 or gaps_ns.ndim != 1:
        return None
    if table.shape[1] != len(ARRIVAL_RECORD_FIELDS):
        return None
    found = AnswerArrivals(first_tokens=table[:, 0], counts=table[:, 1], gaps_ns=gaps_ns)
    return found if found.is_whole else None
