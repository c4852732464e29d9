"""Memory-map `usage.npy`: what servers count of the prompt of each answer."""

from typing import Final

from compliance.logs.loadgen.npy_rows import NpyForm, read_npy_rows
from compliance.logs.source_file import SourceFile
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.usage_record import USAGE_RECORD_FIELDS, PromptUsage

USAGE_FORM: Final = NpyForm(
    kind="<i8",
    columns=len(USAGE_RECORD_FIELDS),
    max_rows=MAX_QUERY_RECORD_ROWS,
    described=(
        f"a NumPy file, version 1.0, of at most {MAX_QUERY_RECORD_ROWS} rows of int64:"
        f" {', '.join(USAGE_RECORD_FIELDS)}"
    ),
)


def read_prompt_usage(source: SourceFile) -> PromptUsage | None:
    """Memory-map the rows; None with a parse error if the file is not what the harness writes."""
    table = read_npy_rows(source, USAGE_FORM)
    if table is None:
        return None
    columns = {name: table[:, place] for place, name in enumerate(USAGE_RECORD_FIELDS)}
    return PromptUsage(**columns)
