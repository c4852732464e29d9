"""The tokens of a performance run's answers: `tokens.npy` beside `queries.npy`, both untrusted
files, and what a report draws of them.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from compliance.logs.loadgen.token_times import read_token_times
from compliance.logs.source_file import SourceFile
from submissions.report.records.queries import RecordedQueries
from suite.errors import JudgedError
from suite.files.layout import TOKEN_RECORD_FILE

# Legend: Q answers, in the order of `queries.npy`; S answers of several tokens.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTokens:
    """The token record of a run."""

    first_token_Q: npt.NDArray[np.int64]
    """ns from issue to the first token. In Server, LoadGen's starts at the scheduled time."""
    per_token_S: npt.NDArray[np.int64]
    """ns per further token."""
    tokens_Q: npt.NDArray[np.int64]


def read_recorded_tokens(folder: Path, queries: RecordedQueries) -> RecordedTokens | None:
    """Read the record of a run; None if there is none, JudgedError if it is malformed or of other
    queries.
    """
    path = folder / TOKEN_RECORD_FILE
    if not path.is_file():
        return None
    source = SourceFile(path)
    rows = read_token_times(source)
    if rows is None or len(rows) != len(queries.issued_Q):
        raise JudgedError(f"{TOKEN_RECORD_FILE} is not a record of the run's answers")
    first_Q, last_Q, tokens_Q = (
        np.array(each) for each in (rows.first_ns, rows.last_ns, rows.tokens)
    )
    first_token_Q = first_Q - queries.first_ns - queries.issued_Q
    if tokens_Q.min() < 1 or first_token_Q.min() < 0 or (last_Q < first_Q).any():
        raise JudgedError(
            f"{TOKEN_RECORD_FILE} contains answers without tokens, or that end before they begin"
        )
    several = tokens_Q > 1
    return RecordedTokens(
        first_token_Q=first_token_Q,
        per_token_S=(last_Q - first_Q)[several] // (tokens_Q[several] - 1),
        tokens_Q=tokens_Q,
    )
