"""Memory-map the rows of a NumPy file that somebody else wrote; it is neither unpickled nor
evaluated.

Except for its spaces, the header must be the one that NumPy writes for the rows:
numpy/lib/format.py, format version 1.0.
"""

import os
import re
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from compliance.logs.source_file import ParseErrorKind, SourceFile
from suite.files.untrusted_files import open_regular_file

NPY_MAGIC: Final = b"\x93NUMPY\x01\x00"
MAX_NPY_HEADER_BYTES: Final = 1024
"""Maximum header size in bytes; NumPy writes 192 or 256, to align the rows to 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NpyForm:
    """What a file's rows are."""

    kind: str | list[tuple[str, str]]
    """NumPy's description of a row's numbers: one type, or name and type of each field."""
    columns: int | None
    """Numbers of a row, of one type; None for rows with fields."""
    max_rows: int
    described: str
    """What is required of the file, in a finding."""

    def match_header(self, text: bytes) -> int | None:
        """Return the number of rows that a header states; None for any other header."""
        inner = ""
        if self.columns is not None:
            inner = f" {self.columns}"
        pattern = (
            rf"\{{'descr': {re.escape(repr(self.kind))}, 'fortran_order': False,"
            rf" 'shape': \(([0-9]{{1,9}}),{inner}\), \}} *\n"
        )
        match = re.fullmatch(pattern.encode(), text)
        if match and int(match[1]) <= self.max_rows:
            return int(match[1])
        return None


def read_npy_rows(source: SourceFile, form: NpyForm) -> Any | None:
    """Memory-map the rows, an array (rows,) or (rows, columns); None with a parse error if the file
    is not what the harness writes.
    """
    try:
        with open_regular_file(source.path) as stream:
            return map_npy_rows(stream, source, form)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return None


def map_npy_rows(stream: BinaryIO, source: SourceFile, form: NpyForm) -> Any | None:
    """Compare the header, then map what follows."""
    import numpy

    head = stream.read(len(NPY_MAGIC) + 2)
    text = stream.read(min(int.from_bytes(head[len(NPY_MAGIC) :], "little"), MAX_NPY_HEADER_BYTES))
    if not head.startswith(NPY_MAGIC):
        found = f"a file that begins with {head[:8]!r}"
        source.add_parse_error(ParseErrorKind.SHAPE, found, form.described)
        return None
    rows = form.match_header(text)
    if rows is None:
        found = f"a header {text[:160]!r}"
        source.add_parse_error(ParseErrorKind.SHAPE, found, form.described)
        return None
    kind = numpy.dtype(form.kind)
    shape = (rows,) if form.columns is None else (rows, form.columns)
    size = os.fstat(stream.fileno()).st_size
    required_size = stream.tell() + rows * (form.columns or 1) * kind.itemsize
    if size != required_size:
        source.add_parse_error(
            ParseErrorKind.CUT,
            f"{size} bytes",
            f"{required_size} bytes: the header and {rows} rows",
        )
        return None
    if rows:
        return numpy.memmap(stream, kind, "r", stream.tell(), shape)
    return numpy.empty(shape, kind)
