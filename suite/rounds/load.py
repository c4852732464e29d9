"""Parses TOML into a `Round`: strips sources and validates values against the dataclasses.

In the TOML a value is written as `{ value = 0.759, source = "..." }`, or plainly in a table that
has a `source` of its own.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Final, Union, cast, get_args, get_origin, get_type_hints

from suite.errors import RequestError
from suite.rounds import (
    Benchmark,
    LoadGenRules,
    NoiseRules,
    Round,
    Setting,
    TrainingRules,
)
from suite.rounds.row_checks import check_row

ROUND_TABLES = frozenset({"round", "loadgen", "training", "settings", "noise"})
RUNNABLE_KIND: Final = "podium"
"""Kind of the rounds that can be run, if a file states no other."""
MAX_CACHED_ROUNDS: Final = 8
"""Rounds that are remembered at a time."""


def build_round(name: str, texts: Iterable[str]) -> Round:
    """Merge the files of one runnable round; RequestError names the path of an invalid value."""
    return build_cached_round(name, tuple(texts))


@lru_cache(maxsize=MAX_CACHED_ROUNDS)
def build_cached_round(name: str, texts: tuple[str, ...]) -> Round:
    """Build a round, cached: a file of another package is tried with the others before they are
    loaded.
    """
    merged, sources = merge_round_tables(name, texts)
    rows = build_typed_value(
        Mapping[str, Benchmark],
        {key: table for key, table in merged.items() if key not in ROUND_TABLES},
        "",
    )
    for key, row in rows.items():
        check_row(key, row)
    noise = None
    if "noise" in merged:
        noise = build_typed_value(NoiseRules, merged["noise"], "noise")
    return Round(
        name=name,
        title=merged["round"]["title"],
        loadgen=build_typed_value(LoadGenRules, merged["loadgen"], "loadgen"),
        training=build_typed_value(TrainingRules, merged["training"], "training"),
        settings=build_typed_value(Mapping[str, Setting], merged["settings"], "settings"),
        benchmarks=rows,
        sources=sources,
        noise=noise,
    )


def check_round(name: str, texts: Sequence[str]) -> None:
    """Raise the error in a round's files, whatever its kind; return if they are valid."""
    if read_round_kind(name, texts) == RUNNABLE_KIND:
        build_round(name, texts)
    else:
        merge_round_tables(name, texts)


def merge_round_tables(name: str, texts: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tables of a round's files without their sources, and the sources by dotted
    path.
    """
    merged, sources = merge_cached_texts(name, tuple(texts))
    return {**merged}, {**sources}  # published rounds add their rows


@lru_cache(maxsize=MAX_CACHED_ROUNDS)
def merge_cached_texts(name: str, texts: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """Merge them, cached: a round's kind is needed before its rules."""
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for text in texts:
        for key, table in parse_cached_toml(text).items():
            if key in merged:
                raise RequestError(f"round {name}: '{key}' is defined by two packages")
            merged[key] = strip_sources(table, key, sources)
    if "round" not in merged:
        raise RequestError(f"round {name}: its files have no [round] table")
    return merged, sources


@cache
def parse_cached_toml(text: str) -> Mapping[str, Any]:
    """Parse a TOML text, cached: a round is merged with and without another package's file."""
    return tomllib.loads(text)


def read_round_kind(name: str, texts: Iterable[str]) -> str:
    """Read the name of a round's kind."""
    merged, _ = merge_round_tables(name, texts)
    return str(merged["round"].get("kind", RUNNABLE_KIND))


def strip_sources(node: Any, path: str, sources: dict[str, str]) -> Any:
    """Strip `source` from a tree of tables and record it under the dotted path."""
    if isinstance(node, list):
        return tuple(
            strip_sources(entry, f"{path}.{index}", sources) for index, entry in enumerate(node)
        )
    if not isinstance(node, dict):
        return node
    if "source" in node:
        sources[path] = node["source"]
    if node.keys() == {"value", "source"}:
        return strip_sources(node["value"], path, sources)
    return {
        key: strip_sources(entry, f"{path}.{key}", sources)
        for key, entry in node.items()
        if key != "source"
    }


def build_typed_value(kind: Any, value: Any, path: str) -> Any:
    """Build an instance of a type hint from plain TOML values; RequestError if they do not match
    it.
    """
    return choose_builder(kind)(kind, value, path)


@cache
def choose_builder(kind: Any) -> Callable[[Any, Any, str], Any]:
    """Return the function that builds instances of a type hint, cached: a round has thousands of
    values and a dozen hints.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return build_union
    if is_dataclass(kind):
        return build_record
    if origin is tuple:
        return build_tuple
    if origin is not None and issubclass(origin, Mapping):
        return build_mapping
    if isinstance(kind, type) and issubclass(kind, Enum):
        return build_enum
    if kind is float:
        return build_float
    return require_exact_type


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKeys:
    """The keys of a dataclass's table."""

    hints: Mapping[str, Any]
    known: frozenset[str]
    needed: frozenset[str]


@cache
def describe_record_keys(kind: Any) -> RecordKeys:
    """Return a dataclass's fields, their types, and which have no default."""
    needed = frozenset(
        e.name for e in fields(kind) if e.default is MISSING and e.default_factory is MISSING
    )
    return RecordKeys(
        hints=get_type_hints(kind),
        known=frozenset(entry.name for entry in fields(kind)),
        needed=needed,
    )


def build_record(kind: Any, value: Any, path: str) -> Any:
    """Build a dataclass; unknown and missing keys are errors, reported together with those
    below.
    """
    table, keys = require_exact_type(dict, value, path), describe_record_keys(kind)
    odd = sorted((table.keys() - keys.known) | (keys.needed - table.keys()))
    wrong = [
        f"{path}: '{name}' is {'missing' if name in keys.needed else 'not a key here'}"
        for name in odd
    ]
    return kind(
        **build_entries(
            {key: (keys.hints[key], entry) for key, entry in table.items() if key in keys.known},
            path,
            wrong,
        )
    )


def build_tuple(kind: Any, value: Any, path: str) -> tuple[Any, ...]:
    """Build a tuple of one type."""
    return tuple(
        build_typed_value(get_args(kind)[0], entry, path)
        for entry in require_exact_type(tuple, value, path)
    )


def build_float(kind: Any, value: Any, path: str) -> float:
    """Accept a number without a decimal point as well."""
    if type(value) is int:
        return float(value)
    return cast(float, require_exact_type(kind, value, path))


def build_mapping(kind: Any, value: Any, path: str) -> Any:
    """Build a dict with typed keys and values."""
    key_kind, entry_kind = get_args(kind)
    table = require_exact_type(dict, value, path)
    entries = build_entries({key: (entry_kind, entry) for key, entry in table.items()}, path, [])
    return {build_typed_value(key_kind, key, path): entry for key, entry in entries.items()}


def build_entries(
    typed: Mapping[str, tuple[Any, Any]], path: str, wrong: list[str]
) -> dict[str, Any]:
    """Build the entries of a table; RequestError names everything wrong with it, including earlier
    findings.
    """
    made: dict[str, Any] = {}
    for key, (kind, entry) in typed.items():
        try:
            made[key] = build_typed_value(kind, entry, f"{path}.{key}".lstrip("."))
        except RequestError as error:
            wrong.append(str(error))
    if wrong:
        raise RequestError("; ".join(wrong))
    return made


def build_union(kind: Any, value: Any, path: str) -> Any:
    """Take the first matching alternative; bool is tried before int, int before float."""
    for choice in get_args(kind):
        try:
            return build_typed_value(choice, value, path)
        except RequestError:
            continue
    raise RequestError(f"{path}: {value!r} is not one of {kind}")


def build_enum(kind: type[Enum], value: Any, path: str) -> Enum:
    """Build an enum member from its value."""
    try:
        return kind(value)
    except ValueError:
        raise RequestError(f"{path}: {value!r} is not of type {kind.__name__}") from None


def require_exact_type(kind: Any, value: Any, path: str) -> Any:
    """Check the exact type: True is not an int here."""
    if type(value) is not kind and not (kind is type(None) and value is None):
        raise RequestError(f"{path}: {value!r} is not of type {getattr(kind, '__name__', kind)}")
    return value
