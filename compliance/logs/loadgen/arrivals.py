"""Memory-map `arrivals.npy` and `gaps.npy`: what arrived of each streamed answer of a point."""

from typing import Final

from compliance.logs.loadgen.npy_rows import NpyForm, read_npy_rows
from compliance.logs.source_file import SourceFile
from suite.loadgen.arrival_record import (
    ARRIVAL_RECORD_FIELDS,
    AnswerArrivals,
    build_answer_arrivals,
)
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS

ARRIVAL_FORM: Final = NpyForm(
    kind="<i8",
    columns=len(ARRIVAL_RECORD_FIELDS),
    max_rows=MAX_QUERY_RECORD_ROWS,
    described=(
        f"a NumPy file, version 1.0, of at most {MAX_QUERY_RECORD_ROWS} rows of int64:"
        f" {', '.join(ARRIVAL_RECORD_FIELDS)}"
    ),
)
GAP_FORM: Final = NpyForm(
    kind="<i8",
    columns=None,
    max_rows=MAX_QUERY_RECORD_ROWS,
    described=(
        f"a NumPy file, version 1.0, of at most {MAX_QUERY_RECORD_ROWS} rows of int64: times"
        " between arrivals"
    ),
)


def read_arrivals(arrivals: SourceFile, gaps: SourceFile) -> AnswerArrivals | None:
    """Memory-map the rows; None with a parse error if a file is not what the harness writes, or
    None if the two do not fit.
    """
    return build_answer_arrivals(
        read_npy_rows(arrivals, ARRIVAL_FORM), read_npy_rows(gaps, GAP_FORM)
    )
