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
TOKEN_COUNT_TOLERANCE: Final = 0.02
"""House rule: a tokenizer may split a text otherwise than it was generated."""
MOST_AT_ONCE_SHARE: Final = 0.1
"""House rule: of streamed answers of several tokens, whose tokens may all come in one piece."""
TOKEN_BYTES: Final = 4
"""Of one token in an answer: suite/workload.py, GeneratingInference."""


def describe_answers_at_once(at_once: int, answers: int) -> str:
    """Say how many streamed answers came in one piece, if they are too many for the time per token
    to mean anything; "" if they are not.
    """
    if at_once <= MOST_AT_ONCE_SHARE * answers:
        return ""
    return (
        f"{at_once:,} of {answers:,} answers came in one piece: the time per token is that of their"
        " transport, not of the server's tokens"
    )


def is_token_count_plausible(logged: int, counted: int, answers: float) -> bool:
    """Return whether as many tokens as servers count of their answers may be those of the answers'
    texts: within one of each answer, for the token that ends it, and two per cent.
    """
    return abs(logged - counted) <= answers + TOKEN_COUNT_TOLERANCE * counted
