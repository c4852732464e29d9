"""Published inference results: a system description, and an organisation's part of a submission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from compliance.documents.base import Document, FileDocument, FolderDocument
from compliance.kinds.inference_text.documents.entry_files import ENTRY_FILE_LENIENCY
from compliance.kinds.inference_text.round import InferenceTextRound
from compliance.logs.source_file import (
    ANY_JSON_DECODER,
    ParseErrorKind,
    SourceFile,
    read_json_document,
)
from compliance.recognition.tree_path import TreePosition


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextSystem(FileDocument):
    """A system description of a published inference round."""

    document_name: ClassVar[str] = "a system"

    fields: Mapping[str, Any] | None
    """None if the file is not a JSON object."""
    place: TreePosition | None
    round: InferenceTextRound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextBenchmarkFolder(FolderDocument):
    """A benchmark of a system, with the submitted scenarios."""

    document_name: ClassVar[str] = "a benchmark of a system"

    model: str
    scenarios: Sequence[str]
    """Folder names."""
    place: TreePosition
    system_type: str | None
    round: InferenceTextRound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextOrganisation(Document):
    """An organisation's part of a submission, or one of its systems or benchmarks."""

    document_name: ClassVar[str] = "an organisation"

    place: TreePosition
    systems: Sequence[str]
    """Systems that have results."""
    described: Sequence[str]
    """Systems that have a description."""
    models: Sequence[TextBenchmarkFolder]
    unexpected_paths: Sequence[Path]
    """Unexpected entries among the results."""
    round: InferenceTextRound

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.place.organisation_folder


def read_inference_text_system(
    path: Path, place: TreePosition | None, round: InferenceTextRound
) -> TextSystem:
    """Read a system description."""
    source = SourceFile(path, leniency=ENTRY_FILE_LENIENCY)
    fields: Any = read_json_document(source, ANY_JSON_DECODER)
    if fields is not None and not isinstance(fields, dict):
        source.add_parse_error(ParseErrorKind.SHAPE, f"a {type(fields).__name__}", "a JSON object")
    return TextSystem(
        source=source,
        fields=fields if isinstance(fields, dict) else None,
        place=place,
        round=round,
    )


def read_system_type(path: Path, round: InferenceTextRound) -> str | None:
    """Read the system type from a description, if the round has system types."""
    fields = None
    if round.filing.system_types:
        fields = read_inference_text_system(path, None, round).fields
    stated = None
    if fields:
        stated = fields.get("system_type")
    if isinstance(stated, str):
        return stated.casefold()
    return None
