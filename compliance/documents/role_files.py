"""Several files of one role: a result has one summary and one log, and the judge reads one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from compliance.documents.base import Document
from compliance.recognition.tree_path import is_file
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG, compute_file_sha256

LOADGEN_ROLES: Final = {DETAIL_LOG: "detail log", SUMMARY_LOG: "summary"}
MAX_NAMED_FILES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleFiles(Document):
    """The file of a role that was read, and others of the same role with other contents."""

    document_name: ClassVar[str] = "files of one role"

    role: str
    """As a finding names it: summary, detail log."""
    read: Path
    others: Sequence[Path]

    @property
    def path(self) -> Path:
        """Return the file that was read."""
        return self.read


def compare_role_files(role: str, read: Path, candidates: Iterable[Path]) -> RoleFiles:
    """Return which other files of a role there are; a copy of the one that was read says nothing
    else.
    """
    found = [each for each in candidates if each != read and is_file(each)]
    if found:
        digest = hash_or_none(read)
        found = [each for each in found if hash_or_none(each) != digest]
    return RoleFiles(role=role, read=read, others=found)


def hash_or_none(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it cannot be read."""
    try:
        return compute_file_sha256(path)
    except OSError:
        return None


def list_second_loadgen_logs(folder: Path) -> list[RoleFiles]:
    """Return the second logs of a LoadGen run: files whose names begin as those of LoadGen's."""
    found = []
    for name, role in LOADGEN_ROLES.items():
        beginning, _, suffix = name.rpartition(".")
        candidates = sorted(folder.glob(f"{beginning}*{suffix}"))
        found.append(compare_role_files(role, folder / name, candidates))
    return found
