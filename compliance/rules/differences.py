"""Where podium's verdict differs from the official checkers': a file `differences.toml` beside the
rules of a kind of round, which `podium explain` and the documentation show.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

from suite import plugins, registry

FILE_NAME: Final = "differences.toml"


class CheckerDifference(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One case in which an official checker and podium's judge come to different results."""

    subject: str
    official: str
    """What the official checker does."""
    here: str
    """What podium's judge does."""
    reason: str = ""
    rules: tuple[str, ...]
    """Ids of the rules of podium that decide the case; empty if no rule is about it."""


class DifferenceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The differences from one official checker."""

    title: str
    sources: str = ""
    """The checker's version and files that the table quotes."""
    difference: tuple[CheckerDifference, ...]


class DifferenceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file of one kind of round."""

    table: tuple[DifferenceTable, ...]


@cache
def load_difference_tables() -> tuple[DifferenceTable, ...]:
    """Read the tables of podium's own kinds of rounds."""
    return tuple(iterate_difference_tables())


def iterate_difference_tables() -> Iterator[DifferenceTable]:
    points = registry.map_entry_points(registry.ROUND_KIND_GROUP)
    for kind in registry.iterate_kind_records():
        if not plugins.is_own_entry_point(points[kind.name]):
            continue
        file = files(kind.rules.rpartition(".")[0]) / FILE_NAME
        if file.is_file():
            yield from msgspec.convert(tomllib.loads(file.read_text("utf-8")), DifferenceFile).table


def list_rule_differences(rule: str) -> list[CheckerDifference]:
    """List the differences that a rule decides, by its id."""
    return [
        each
        for table in load_difference_tables()
        for each in table.difference
        if rule in each.rules
    ]
