"""What results of a kind of round look like as files and folders, where they are no trees of MLPerf
Training and Inference.
"""

from collections.abc import Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from compliance.recognition.round_evidence import RoundEvidence
from suite import registry
from suite.rounds.kind import RoundKind
from suite.rounds.kind_checks import guard_kind_call

if TYPE_CHECKING:
    from compliance.recognition.path_kind import PathKind, RecognisedPath


class ResultPlaces(Protocol):
    """Recognises results of a kind of round."""

    rounds: "Mapping[PathKind, RoundEvidence]"
    """Kinds of paths that belong to a round whatever they contain."""
    summary_files: Sequence[str]
    """Files of a run that show its round, beside LoadGen's."""
    run_files: Set[str]
    """Other files of a run in an inference entry, beside LoadGen's."""

    def find_part(self, path: Path, folder: bool) -> "RecognisedPath | None":
        """Recognise a part of a submission, wherever it lies, and a file in one."""
        ...

    def find_loose_run(self, path: Path, folder: bool) -> "RecognisedPath | None":
        """Recognise a run outside of any tree, and a file in one."""
        ...

    def is_judgeable_part(self, folder: Path) -> bool:
        """Return whether a folder of several results is to be judged by those in this one."""
        ...


class GuardedPlaces:
    """The places of a kind of round; those of another package recognise nothing where they raise an
    error.
    """

    def __init__(self, kind: RoundKind, places: ResultPlaces) -> None:
        self.rounds = places.rounds
        self.summary_files, self.run_files = places.summary_files, places.run_files
        self.find_part = guard_kind_call(kind, places.find_part)
        self.find_loose_run = guard_kind_call(kind, places.find_loose_run)
        self.is_judgeable_part = guard_kind_call(kind, places.is_judgeable_part)


@cache
def load_result_places() -> Sequence[GuardedPlaces]:
    """Load the places of all kinds that have any."""
    return [
        GuardedPlaces(kind, places)
        for kind in registry.iterate_kinds()
        if (places := registry.load_kind_part(kind, "places"))
    ]


@cache
def list_summary_files() -> Sequence[str]:
    """List the files of a run that show its round, beside LoadGen's."""
    return tuple(name for places in load_result_places() for name in places.summary_files)


@cache
def list_entry_files() -> frozenset[str]:
    """List the files of a run in an inference entry, beside LoadGen's."""
    return frozenset[str]().union(*(places.run_files for places in load_result_places()))
