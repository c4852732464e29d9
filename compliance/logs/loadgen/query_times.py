"""Memory-map `queries.npy`: when each query of a performance run was issued and completed. The file
is neither unpickled nor evaluated.

Except for its spaces, the header must be the one that NumPy writes for these fields:
numpy/lib/format.py, format version 1.0.
"""

import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from compliance.logs.source_file import ParseErrorKind, SourceFile
from suite.files.untrusted_files import open_regular_file
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS, QUERY_RECORD_FIELDS

NPY_MAGIC: Final = b"\x93NUMPY\x01\x00"
MAX_NPY_HEADER_BYTES: Final = 1024
"""Maximum header size in bytes; NumPy writes 192 or 256, to align the rows to 64."""
NPY_FIELDS_PATTERN: Final = re.escape(repr(list(QUERY_RECORD_FIELDS)))
NPY_HEADER_PATTERN: Final = re.compile(
    (
        rf"\{{'descr': {NPY_FIELDS_PATTERN}, 'fortran_order': False,"
        rf" 'shape': \(([0-9]{{1,9}}),\), \}} *\n"
    ).encode()
)
REQUIRED_QUERY_FILE: Final = (
    f"a NumPy file, version 1.0, of at most {MAX_QUERY_RECORD_ROWS} rows with the fields"
    f" {', '.join(f'{name} {kind}' for name, kind in QUERY_RECORD_FIELDS)}"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryTimes:
    """The rows, as memory-mapped NumPy arrays (queries,)."""

    issued_ns: Any
    done_ns: Any
    batch: Any
    samples: Any

    def __len__(self) -> int:
        return len(self.issued_ns)


def read_query_times(source: SourceFile) -> QueryTimes | None:
    """Memory-map the rows; None with a parse error if the file is not what the harness writes."""
    try:
        with open_regular_file(source.path) as stream:
            return map_query_rows(stream, source)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return None


def map_query_rows(stream: BinaryIO, source: SourceFile) -> QueryTimes | None:
    """Compare the header, then map what follows."""
    import numpy

    head = stream.read(len(NPY_MAGIC) + 2)
    text = stream.read(min(int.from_bytes(head[len(NPY_MAGIC) :], "little"), MAX_NPY_HEADER_BYTES))
    match = NPY_HEADER_PATTERN.fullmatch(text) if head.startswith(NPY_MAGIC) else None
    if match is None or int(match[1]) > MAX_QUERY_RECORD_ROWS:
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            (
                f"a header {text[:160]!r}"
                if head.startswith(NPY_MAGIC)
                else f"a file that begins with {head[:8]!r}"
            ),
            REQUIRED_QUERY_FILE,
        )
        return None
    kind, rows = numpy.dtype(list(QUERY_RECORD_FIELDS)), int(match[1])
    size, required_size = os.fstat(stream.fileno()).st_size, stream.tell() + rows * kind.itemsize
    if size != required_size:
        source.add_parse_error(
            ParseErrorKind.CUT,
            f"{size} bytes",
            f"{required_size} bytes: the header and {rows} rows",
        )
        return None
    table: Any = (
        numpy.memmap(stream, kind, "r", stream.tell(), (rows,)) if rows else numpy.empty(0, kind)
    )
    return QueryTimes(
        issued_ns=table["issued_ns"],
        done_ns=table["done_ns"],
        batch=table["batch"],
        samples=table["samples"],
    )
