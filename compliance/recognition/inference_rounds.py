"""Determine which published inference round LoadGen's seeds belong to: every round has its own."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from suite import registry
from suite.rounds import RoundKind
from suite.rounds.load import parse_cached_toml

SEED_TABLES: Final = {RoundKind.INFERENCE_TEXT: "loadgen", RoundKind.INFERENCE_MLLOG: "rules"}
"""Kind of round -> the table of its file that has the seeds."""


@cache
def map_rounds_by_qsl_seed() -> Mapping[int, str]:
    """Map each published inference round's qsl_rng_seed to the round; podium-v1 uses a published
    round's seeds.
    """
    return map_rounds_by_seed("qsl_rng_seed")


@cache
def map_rounds_by_schedule_seed() -> Mapping[int, str]:
    """Map each published inference round's schedule_rng_seed to the round: the only seeds that
    other clients than LoadGen use are those of the schedule and of the order of samples.
    """
    return map_rounds_by_seed("schedule_rng_seed")


def map_rounds_by_seed(key: str) -> Mapping[int, str]:
    """Map a seed of each published inference round to the round, from the rounds' own files."""
    found = {}
    for name in registry.list_round_names():
        table = SEED_TABLES.get(registry.load_round_kind(name))
        if table is not None:
            text = registry.collect_round_texts(name)[0]
            found[read_seed(parse_cached_toml(text)[table][key])] = name
    return found


def read_seed(value: Any) -> int:
    """Return a seed, which a round file may give together with its source."""
    return int(value["value"] if isinstance(value, dict) else value)
