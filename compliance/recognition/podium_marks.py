"""What shows that podium wrote a file."""

import re
from typing import Final, NamedTuple

from compliance.recognition.round_evidence import FileHead
from suite.files.layout import RUN_RECORD, SYSTEM_RECORD

ROUND_STAMP_PATTERN: Final = re.compile(rb'"key": ?"podium_round", ?"value": ?"([^"\\]{1,40})"')
PODIUM_EVENT_PATTERN: Final = re.compile(rb'"key": ?"(?:podium_\w+|campaign_nonce)"')
"""podium's own events."""


class PodiumMark(NamedTuple):
    """A mark of podium's in a file."""

    indicated_by: str
    round: str | None = None
    """The round that the mark names."""


def find_podium_mark(file: FileHead) -> PodiumMark | None:
    """Find podium's mark in a file: its record of a run, its description of a system, or its stamps
    in a training log.
    """
    if file.path.name == RUN_RECORD:
        return PodiumMark("podium's record of a run")
    if file.path.name == SYSTEM_RECORD and b'"engine_package"' in file.record:
        return PodiumMark("podium's record of a system")
    if file.path.suffix == ".json":
        if b'"podium"' in file.record:
            return PodiumMark("podium's system description")
        return None
    if not file.record.startswith(b":::MLLOG"):
        return None
    stamp = ROUND_STAMP_PATTERN.search(file.record)
    if stamp is None and not PODIUM_EVENT_PATTERN.search(file.record):
        return None
    return PodiumMark("podium's stamps", stamp[1].decode("latin-1") if stamp else None)
