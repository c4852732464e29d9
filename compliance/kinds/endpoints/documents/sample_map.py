"""Read `sample_idx_map.json`: which sample of its data set each issued one was.

Source: mlcommons/endpoints: {phase: {identifier: index}}, in the order of issue.
"""

import hashlib
from array import array
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from compliance.logs.source_file import ParseErrorKind, SourceFile, read_document_bytes

MAX_MAP_BYTES: Final = 1 << 28
"""Two million samples take a third of it."""
SampleIndex = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class PhaseMaps(msgspec.Struct, frozen=True):
    """The maps of a run; those of other phases are not decoded."""

    performance: dict[str, SampleIndex] = {}


MAP_DECODER: Final = msgspec.json.Decoder(PhaseMaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleMap:
    """The samples of the performance phase; a million identifiers themselves are not kept."""

    order: "array[int]" = field(default_factory=lambda: array("q"))
    """Index of each sample in the order of issue; empty if the run does not say it."""
    digest: str = ""
    """Digest of the identifiers, in the same order."""


def read_sample_map(source: SourceFile) -> SampleMap:
    """Read a map; an empty one with a parse error if that fails."""
    text = read_document_bytes(source, MAX_MAP_BYTES)
    if text is None:
        return SampleMap()
    try:
        issued = MAP_DECODER.decode(text).performance
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        source.add_parse_error(
            ParseErrorKind.SHAPE, str(error), "the index of each sample, by phase", 1
        )
        return SampleMap()
    identifiers = hashlib.sha256()
    for name in issued:
        identifiers.update(name.encode() + b"\n")
    return SampleMap(order=array("q", issued.values()), digest=identifiers.hexdigest())
