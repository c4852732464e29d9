"""What a file says about the round of its result, in the words that kinds of rounds share."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from compliance.recognition.first_record import read_first_record
from suite import registry
from suite.rounds.load import parse_cached_toml


class FileHead:
    """A file whose round is sought, read once for all kinds of rounds."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def record(self) -> bytes:
        """Return the file from its first record on (read_first_record)."""
        return read_first_record(self.path)


class OpenRounds(Protocol):
    """What logs tell that do not name their round, so that several rounds are open."""

    def merge_evidence(self, evidence: Sequence["RoundEvidence"]) -> "RoundEvidence":
        """Merge the evidence of several logs, all of this class."""
        ...

    def can_belong_to_round(self, name: str) -> bool:
        """Return whether the logs may belong to a round."""
        ...

    def is_round_excluded(self, name: str | None) -> bool:
        """Return whether the logs cannot belong to a round of which this is known."""
        ...

    def list_candidate_rounds(self) -> tuple[str, ...]:
        """Return the rounds that the logs may belong to, in chronological order."""
        ...

    def has_other_benchmark(self) -> bool:
        """Return whether a log names another benchmark than its folder does."""
        ...


class RoundEvidence(NamedTuple):
    """The evidence in a file."""

    round: str | None
    """A known round; None for an unknown one."""
    indicated_by: str
    """Description of the evidence."""
    decisive: bool = False
    """True if it outweighs what all other files of the same result say."""
    sure: bool = True
    """False if it rests only on convention; then other files of the same result are read first."""
    logs: OpenRounds | None = None
    """What logs tell that could belong to several rounds; None if they name theirs."""


@cache
def map_rounds_by_seed(key: str) -> Mapping[int, str]:
    """Map a seed of each published round that has seeds of its own to the round, from the rounds'
    own files; podium-v1 uses a published round's seeds.
    """
    found = {}
    for name in registry.list_round_names():
        if table := registry.load_round_kind(name).seed_table:
            tables = parse_cached_toml(registry.collect_round_texts(name)[0])
            if key in tables.get(table, {}):  # another package's round may lack a seed
                found[read_seed(tables[table][key])] = name
    return found


def find_round_of_seeds(seeds: Mapping[str, Any]) -> str | None:
    """Return the published round that has all of these seeds, by their names; None if none has."""
    rounds = {
        map_rounds_by_seed(name).get(seed) if isinstance(seed, int) else None
        for name, seed in seeds.items()
    }
    if len(rounds) == 1:
        return rounds.pop()
    return None


def read_seed(value: Any) -> int:
    """Return a seed, which a round file may give together with its source."""
    return int(value["value"] if isinstance(value, dict) else value)
