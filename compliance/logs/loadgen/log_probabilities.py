"""Memory-map `logprobs.npy` and `reference_logprobs.npy`: how likely the system and PyTorch find
the answers of an accuracy run.
"""

from typing import Any, Final

from compliance.logs.loadgen.npy_rows import NpyForm, read_npy_rows
from compliance.logs.source_file import SourceFile
from suite.loadgen.logprob_record import MAX_LOGPROB_ROWS, REFERENCE_FIELDS, SAID_FIELDS


def describe_logprob_form(fields: tuple[tuple[str, str], ...]) -> NpyForm:
    """Describe a file of rows with these fields."""
    names = ", ".join(name for name, _ in fields)
    return NpyForm(
        kind=list(fields),
        columns=None,
        max_rows=MAX_LOGPROB_ROWS,
        described=f"a NumPy file, version 1.0, of at most {MAX_LOGPROB_ROWS} rows of {names}",
    )


SAID_FORM: Final = describe_logprob_form(SAID_FIELDS)
REFERENCE_FORM: Final = describe_logprob_form(REFERENCE_FIELDS)


def read_said_logprobs(source: SourceFile) -> Any | None:
    """Memory-map what the system said; None with a parse error if it is not what the harness
    writes.
    """
    return read_npy_rows(source, SAID_FORM)


def read_reference_logprobs(source: SourceFile) -> Any | None:
    """Memory-map what PyTorch computed; None as above."""
    return read_npy_rows(source, REFERENCE_FORM)
