"""Memory-map `queries.npy`: when each query of a performance run was issued and completed."""

from typing import Final

from compliance.logs.loadgen.npy_rows import NpyForm, read_npy_rows
from compliance.logs.source_file import SourceFile
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS, QUERY_RECORD_FIELDS, QueryTimes

QUERY_FORM: Final = NpyForm(
    kind=list(QUERY_RECORD_FIELDS),
    columns=None,
    max_rows=MAX_QUERY_RECORD_ROWS,
    described=(
        f"a NumPy file, version 1.0, of at most {MAX_QUERY_RECORD_ROWS} rows with the fields"
        f" {', '.join(f'{name} {kind}' for name, kind in QUERY_RECORD_FIELDS)}"
    ),
)


def read_query_times(source: SourceFile) -> QueryTimes | None:
    """Memory-map the rows; None with a parse error if the file is not what the harness writes."""
    table = read_npy_rows(source, QUERY_FORM)
    if table is None:
        return None
    return QueryTimes(
        issued_ns=table["issued_ns"],
        done_ns=table["done_ns"],
        batch=table["batch"],
        samples=table["samples"],
    )
