"""Memory-map `starts.npy`: when each prompt of a curve's point began to be answered; and
`rooms.npy`, which has its form: when a place towards the servers was free for it.
"""

from typing import Any, Final

from compliance.logs.loadgen.npy_rows import NpyForm, read_npy_rows
from compliance.logs.source_file import SourceFile
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS

START_FORM: Final = NpyForm(
    kind="<i8",
    columns=None,
    max_rows=MAX_QUERY_RECORD_ROWS,
    described=(
        f"a NumPy file, version 1.0, of at most {MAX_QUERY_RECORD_ROWS} rows of int64: a time"
        " for each prompt"
    ),
)


def read_start_times(source: SourceFile) -> Any | None:
    """Memory-map the rows, an array (answers,) in the order of `tokens.npy`; None with a parse
    error if the file is not what the harness writes.
    """
    return read_npy_rows(source, START_FORM)
