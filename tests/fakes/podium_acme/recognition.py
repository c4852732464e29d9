"""Recognise runs of Acme's by their log."""

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.recognition.round_evidence import FileHead, RoundEvidence
from compliance.recognition.tree_path import is_file, read_file_head

ACME_LOG = "acme.log"


def read_acme_evidence(file: FileHead) -> RoundEvidence | None:
    """Read the first line of a log."""
    if file.path.name != ACME_LOG:
        return None
    program, _, year = read_file_head(file.path).split(b"\n")[0].partition(b" ")
    if program != b"acme":
        return None
    return RoundEvidence(f"acme-{year.decode('latin-1')}", "the first line of Acme's log")


class AcmePlaces:
    """A run is a folder with a log."""

    rounds: Mapping[PathKind, RoundEvidence] = {}
    summary_files: Sequence[str] = (ACME_LOG,)
    run_files: Set[str] = frozenset({ACME_LOG})

    def find_part(self, path: Path, folder: bool) -> RecognisedPath | None:
        """Recognise nothing of a submission."""
        return None

    def find_loose_run(self, path: Path, folder: bool) -> RecognisedPath | None:
        """Recognise a run, and its log."""
        run = path if folder else path.parent
        if not is_file(run / ACME_LOG) or not (folder or path.name == ACME_LOG):
            return None
        return RecognisedPath(path=run, kind=PathKind.RUN)

    def is_judgeable_part(self, folder: Path) -> bool:
        """Return whether a folder is a run."""
        return is_file(folder / ACME_LOG)


PLACES = AcmePlaces()
