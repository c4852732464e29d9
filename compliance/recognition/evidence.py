"""Evidence in one file for its round: podium's stamps, LoadGen's seeds, a training log's date.

Each kind of round reads its own. Only what no two rounds share counts.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from compliance.recognition.podium_marks import find_podium_mark
from compliance.recognition.round_evidence import FileHead, RoundEvidence
from suite import registry
from suite.rounds.kind_checks import find_round_obstacle, guard_kind_call
from suite.rounds.load import RUNNABLE_KIND


@cache
def load_evidence_readers() -> Sequence[Callable[[FileHead], RoundEvidence | None]]:
    """Return what each kind of round reads its evidence with: first the rounds that are run here,
    whose seeds are those of a published round.
    """
    kinds = sorted(registry.iterate_kinds(), key=lambda kind: (kind.published, kind.name))
    readers = [
        guard_kind_call(kind, read)
        for kind in kinds
        if (read := registry.load_kind_part(kind, "evidence"))
    ]
    if all(kind.name != RUNNABLE_KIND for kind in kinds):
        readers.insert(0, read_unjudged_podium_evidence)
    return readers


def read_unjudged_podium_evidence(file: FileHead) -> RoundEvidence | None:
    """Read podium's marks where podium's own round is not judged, so that its results do not count
    as those of the published round whose form or seeds they have.
    """
    mark = find_podium_mark(file)
    if mark is None:
        return None
    obstacle = find_round_obstacle(registry.DEFAULT_ROUND)
    return RoundEvidence(None, f"{mark.indicated_by}; {obstacle}", decisive=True)


def read_round_evidence(path: Path) -> RoundEvidence | None:
    """Read the evidence in one file; None if it has no record or cannot be read."""
    file = FileHead(path)
    found = next((found for read in load_evidence_readers() if (found := read(file))), None)
    if found and found.round and found.round not in registry.list_round_names():
        return found._replace(round=None)
    return found
