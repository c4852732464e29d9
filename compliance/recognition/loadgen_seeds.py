"""What LoadGen's own records say about the round: its seeds, of which each published round has its
own.

LoadGen's version does not count: `.5a1` occurs in the logs of three rounds, and one round has logs
of five versions.
"""

import re
from typing import Final, NamedTuple

from compliance.recognition.round_evidence import FileHead, RoundEvidence, map_rounds_by_seed
from suite import registry

EVIDENCE_VERSION_PATTERN: Final = re.compile(
    rb'(?:"loadgen_version", ?"value": ?"|version : )([^\s"\\]{1,40})'
)
QSL_SEED_PATTERN: Final = re.compile(rb'qsl_rng_seed(?:", ?"value": ?| : )(\d{1,20})\b')


class LoadGenHead(NamedTuple):
    """LoadGen's settings at the start of a log."""

    indicated_by: str
    round: str | None
    """Published round whose seed it has."""


def read_loadgen_head(head: bytes) -> LoadGenHead | None:
    """Read version and seed of a LoadGen log; None if it states neither."""
    version, seed = EVIDENCE_VERSION_PATTERN.search(head), QSL_SEED_PATTERN.search(head)
    if version is None and seed is None:
        return None
    program = "LoadGen's summary"
    if version:
        program = f"LoadGen {version[1].decode('latin-1')}"
    if seed is None:
        return LoadGenHead(program, None)
    return LoadGenHead(
        f"{program} with qsl_rng_seed {int(seed[1])}",
        map_rounds_by_seed("qsl_rng_seed").get(int(seed[1])),
    )


def read_seed_evidence(file: FileHead, kind: str) -> RoundEvidence | None:
    """Read the seed of a LoadGen log; None if it is that of no round of this kind."""
    head = read_loadgen_head(file.record)
    if head is None or head.round is None or registry.load_round_kind(head.round).name != kind:
        return None
    return RoundEvidence(head.round, f"{head.indicated_by}, that of {head.round}")
