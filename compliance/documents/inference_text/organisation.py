"""Published inference results: a system description, and an organisation's part of a submission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from compliance.documents.inference_text.entry_files import ANY_JSON_DECODER, ENTRY_FILE_LENIENCY
from compliance.logs.source_file import ParseErrorKind, SourceFile, read_json_document
from compliance.recognition.tree_path import TreePosition
from compliance.verdict import About, Fault, Severity
from suite.rounds.inference_text import InferenceTextRound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextSystem:
    """A system description of a published inference round."""

    document_name: ClassVar[str] = "a system"

    path: Path
    source: SourceFile
    fields: Mapping[str, Any] | None
    """None if the file is not a JSON object."""
    place: TreePosition | None
    round: InferenceTextRound

    def build_fault(
        self,
        found: str,
        required: str,
        severity: Severity | None = None,
        *,
        about: About | None = None,
    ) -> Fault:
        """Build a Fault."""
        return Fault(file=self.path, found=found, required=required, severity=severity, about=about)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextBenchmarkFolder:
    """A benchmark of a system, with the submitted scenarios."""

    document_name: ClassVar[str] = "a benchmark of a system"

    folder: Path
    model: str
    scenarios: Sequence[str]
    """Folder names."""
    place: TreePosition
    system_type: str | None
    round: InferenceTextRound


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextOrganisation:
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

    def build_fault(
        self,
        found: str,
        required: str,
        file: Path | None = None,
        severity: Severity | None = None,
        *,
        about: About | None = None,
    ) -> Fault:
        """Build a Fault for this part of the tree."""
        return Fault(
            file=file or self.place.organisation_folder,
            found=found,
            required=required,
            severity=severity,
            about=about,
        )


def read_text_system(
    path: Path, place: TreePosition | None, round: InferenceTextRound
) -> TextSystem:
    """Read a system description."""
    source = SourceFile(path, leniency=ENTRY_FILE_LENIENCY)
    fields: Any = read_json_document(source, ANY_JSON_DECODER)
    if fields is not None and not isinstance(fields, dict):
        source.add_parse_error(ParseErrorKind.SHAPE, f"a {type(fields).__name__}", "a JSON object")
    return TextSystem(
        path=path,
        source=source,
        fields=fields if isinstance(fields, dict) else None,
        place=place,
        round=round,
    )


def read_system_type(path: Path, round: InferenceTextRound) -> str | None:
    """Read the system type from a description, if the round has system types."""
    fields = read_text_system(path, None, round).fields if round.filing.system_types else None
    stated = fields.get("system_type") if fields else None
    return stated.casefold() if isinstance(stated, str) else None
