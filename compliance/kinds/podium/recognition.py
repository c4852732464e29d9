"""Recognise results of podium's own rounds by podium's marks."""

from typing import Final

from compliance.recognition.podium_marks import find_podium_mark
from compliance.recognition.round_evidence import FileHead, RoundEvidence
from suite import registry

PODIUM_ROUND: Final = registry.DEFAULT_ROUND


def read_podium_evidence(file: FileHead) -> RoundEvidence | None:
    """Read podium's mark in a file."""
    mark = find_podium_mark(file)
    if mark is None:
        return None
    return RoundEvidence(resolve_stamped_round(mark.round), mark.indicated_by, decisive=True)


def resolve_stamped_round(name: str | None) -> str:
    """Return a stamped round if it can be run here, else podium's own: the judge then reports the
    stamp.
    """
    if name is None or name not in registry.list_round_names():
        return PODIUM_ROUND
    if registry.load_round_kind(name).published:
        return PODIUM_ROUND
    return name
