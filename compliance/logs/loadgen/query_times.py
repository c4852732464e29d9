"""Memory-maps `queries.npy`: when each query of a performance run was issued and completed. Nothing
in the file is unpickled or evaluated.

Except for its spaces, the header must be the one that NumPy writes for these fields:
numpy/lib/format.py, format version 1.0.
"""

import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from compliance.logs.source_file import Kind, SourceFile
from suite.files.untrusted_files import opened
from suite.loadgen.query_record import FIELDS, MOST_ROWS

MAGIC: Final = b"\x93NUMPY\x01\x00"
HEADER_LIMIT: Final = 1024
"""Maximum header size in bytes; NumPy writes 192 or 256, to align the rows to 64."""
DESCRIPTION: Final = re.escape(repr(list(FIELDS)))
HEADER: Final = re.compile(
    (
        rf"\{{'descr': {DESCRIPTION}, 'fortran_order': False,"
        rf" 'shape': \(([0-9]{{1,9}}),\), \}} *\n"
    ).encode()
)
REQUIRED: Final = (
    f"a NumPy file, version 1.0, of at most {MOST_ROWS} rows with the fields"
    f" {', '.join(f'{name} {kind}' for name, kind in FIELDS)}"
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


def read(source: SourceFile) -> QueryTimes | None:
    """Memory-map the rows; None with a flaw if the file is not what the harness writes."""
    try:
        with opened(source.path) as stream:
            return mapped(stream, source)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return None


def mapped(stream: BinaryIO, source: SourceFile) -> QueryTimes | None:
    """Compare the header, then map what follows."""
    import numpy

    head = stream.read(len(MAGIC) + 2)
    text = stream.read(min(int.from_bytes(head[len(MAGIC) :], "little"), HEADER_LIMIT))
    match = HEADER.fullmatch(text) if head.startswith(MAGIC) else None
    if match is None or int(match[1]) > MOST_ROWS:
        source.add(
            Kind.SHAPE,
            (
                f"a header {text[:160]!r}"
                if head.startswith(MAGIC)
                else f"a file that begins with {head[:8]!r}"
            ),
            REQUIRED,
        )
        return None
    kind, rows = numpy.dtype(list(FIELDS)), int(match[1])
    size, wanted = os.fstat(stream.fileno()).st_size, stream.tell() + rows * kind.itemsize
    if size != wanted:
        source.add(Kind.CUT, f"{size} bytes", f"{wanted} bytes: the header and {rows} rows")
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
