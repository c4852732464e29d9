"""A published training round as data: what results of that round are judged by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PUBLISHED_TABLES: Final = frozenset({"round"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTraining:
    """A published training round, whole."""

    name: str
    title: str
    sources: Mapping[str, str]
    """Dotted path of a value in the TOML -> where it comes from."""


def from_tables(name: str, tables: Mapping[str, Any], sources: Mapping[str, str]) -> PublishedTraining:
    """Check a round's tables, sources taken out; RequestError names the path of what does not fit."""
    return PublishedTraining(name=name, title=tables["round"]["title"], sources=sources)
