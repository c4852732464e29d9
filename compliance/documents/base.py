"""What the documents that rules check have in common: where they lie, and faults about them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from compliance.logs.log_index import LogIndex, R
from compliance.logs.source_file import SourceFile
from compliance.verdict import About, Fault, Severity


class Document(ABC):
    """A document that rules check, read from one file or several."""

    __slots__ = ()

    document_name: ClassVar[str]
    """Name in `podium explain`, with its article."""

    if TYPE_CHECKING:  # a property here would be the default of a subclass's field `path`

        @property
        @abstractmethod
        def path(self) -> Path:
            """The file or folder that faults are about if they name no other."""

    def find_line(self, key: str) -> int | None:
        """Return the line of a value by its key; None if the document is no log."""
        return None

    def build_fault(
        self,
        found: str,
        required: str,
        line: int | str | None = None,
        *,
        file: Path | str | None = None,
        severity: Severity | None = None,
        about: About | None = None,
        advice: str | None = None,
    ) -> Fault:
        """Build a Fault about the document. `line` is a number, or the key of a value in a log;
        `file` is another file: its path, or a name beside the document's own.
        """
        if isinstance(file, str):
            file = self.path.parent / file
        return Fault(
            file=file or self.path,
            line=self.find_line(line) if isinstance(line, str) else line,
            found=found,
            required=required,
            severity=severity,
            about=about,
            advice=advice,
        )


class LogDocument(Document, Generic[R]):
    """A document that is a log, or that has one: its values by their keys."""

    __slots__ = ()

    if TYPE_CHECKING:  # a field of its subclasses

        @property
        @abstractmethod
        def index(self) -> LogIndex[R]:
            """Return the log's records by key."""

    def list_records(self, key: str) -> Sequence[R]:
        """Return all records of a key."""
        return self.index.get(key, ())

    def find_record(self, key: str) -> R | None:
        """Return the record of a key that counts; None if there is none."""
        return self.index.find_record(key)

    def find_value(self, key: str) -> Any:
        """Return the value of a key; None if there is none."""
        return self.index.find_value(key)

    def find_number(self, key: str) -> float | None:
        """Return the value of a key as a finite number; None if it is none."""
        return self.index.find_number(key)

    def find_line(self, key: str) -> int | None:
        """Return the line of a key."""
        return self.index.find_line(key)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileDocument(Document):
    """A document that was read from one file."""

    source: SourceFile

    @property
    def path(self) -> Path:
        """The file."""
        return self.source.path


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderDocument(Document):
    """A document that was read from files of a folder."""

    main_file: ClassVar[str] = ""
    """The file that faults are about if they name no other; empty if it is the folder."""

    folder: Path

    @property
    def path(self) -> Path:
        """The main file, or the folder."""
        return self.folder / self.main_file
