"""Parses TOML into a `Round`: strips sources and validates values against the dataclasses.

In the TOML a value stands as `{ value = 0.759, source = "..." }`, or plainly in a table that has a `source` of its own.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from suite.errors import RequestError
from suite.rounds import Benchmark, LoadGenRules, NoiseRules, Round, RoundKind, Setting, TrainingRules

ROUND_TABLES = frozenset({"round", "loadgen", "training", "settings", "noise"})


def load(name: str, texts: Iterable[str]) -> Round:
    """Merge the files of one round that is run; RequestError names the path of what does not fit."""
    merged, sources = merge(name, texts)
    rows = build(Mapping[str, Benchmark], {key: table for key, table in merged.items() if key not in ROUND_TABLES}, "")
    return Round(
        name=name,
        title=merged["round"]["title"],
        loadgen=build(LoadGenRules, merged["loadgen"], "loadgen"),
        training=build(TrainingRules, merged["training"], "training"),
        settings=build(Mapping[str, Setting], merged["settings"], "settings"),
        benchmarks=rows,
        sources=sources,
        noise=build(NoiseRules, merged["noise"], "noise") if "noise" in merged else None,
    )


def check(name: str, texts: Sequence[str]) -> None:
    """Raise what is wrong with the files of a round, of whatever kind."""
    _ = load(name, texts) if kind_of(name, texts) is RoundKind.PODIUM else merge(name, texts)


def merge(name: str, texts: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Give the tables of a round's files without their sources, and the sources by dotted path."""
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for text in texts:
        for key, table in parsed(text).items():
            if key in merged:
                raise RequestError(f"round {name}: '{key}' is defined by two packages")
            merged[key] = plain(table, key, sources)
    if "round" not in merged:
        raise RequestError(f"round {name}: none of its files has a [round] table")
    return merged, sources


@cache
def parsed(text: str) -> Mapping[str, Any]:
    """Read a TOML text, each once: a round's kind is asked before its rules are."""
    return tomllib.loads(text)


@cache
def hints_of(kind: Any) -> Mapping[str, Any]:
    """Give the types of a dataclass's fields."""
    return get_type_hints(kind)


def kind_of(name: str, texts: Iterable[str]) -> RoundKind:
    """Read what is done with a round."""
    merged, _ = merge(name, texts)
    return RoundKind(merged["round"].get("kind", RoundKind.PODIUM))


def plain(node: Any, path: str, sources: dict[str, str]) -> Any:
    """Strip `source` from a tree of tables and note it under the dotted path."""
    if isinstance(node, list):
        return tuple(plain(entry, f"{path}.{index}", sources) for index, entry in enumerate(node))
    if not isinstance(node, dict):
        return node
    if "source" in node:
        sources[path] = node["source"]
    if node.keys() == {"value", "source"}:
        return plain(node["value"], path, sources)
    return {key: plain(entry, f"{path}.{key}", sources) for key, entry in node.items() if key != "source"}


def build(kind: Any, value: Any, path: str) -> Any:
    """Make an instance of a type hint from plain TOML values; RequestError where they do not fit."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return build_union(kind, value, path)
    if is_dataclass(kind):
        return build_record(kind, value, path)
    if origin is tuple:
        return tuple(build(get_args(kind)[0], entry, path) for entry in expect(value, tuple, path))
    if origin is not None and issubclass(origin, Mapping):
        return build_mapping(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return build_enum(kind, value, path)
    if kind is float and type(value) is int:
        return float(value)
    return expect(value, kind, path)


def build_record(kind: Any, value: Any, path: str) -> Any:
    """Make a dataclass; unknown and missing keys are errors, all told together with those below."""
    table, hints = expect(value, dict, path), hints_of(kind)
    known = {entry.name for entry in fields(kind)}
    needed = {e.name for e in fields(kind) if e.default is MISSING and e.default_factory is MISSING}
    wrong = [f"{path}: '{name}' is {'missing' if name in needed else 'not a key here'}" for name in sorted((table.keys() - known) | (needed - table.keys()))]
    return kind(**build_entries({key: (hints[key], entry) for key, entry in table.items() if key in known}, path, wrong))


def build_mapping(kind: Any, value: Any, path: str) -> Any:
    """Make a dict of typed keys and values."""
    key_kind, entry_kind = get_args(kind)
    table = expect(value, dict, path)
    entries = build_entries({key: (entry_kind, entry) for key, entry in table.items()}, path, [])
    return {build(key_kind, key, path): entry for key, entry in entries.items()}


def build_entries(typed: Mapping[str, tuple[Any, Any]], path: str, wrong: list[str]) -> dict[str, Any]:
    """Make the entries of a table; RequestError names everything that is wrong with it, what was found before included."""
    made: dict[str, Any] = {}
    for key, (kind, entry) in typed.items():
        try:
            made[key] = build(kind, entry, f"{path}.{key}".lstrip("."))
        except RequestError as error:
            wrong.append(str(error))
    if wrong:
        raise RequestError("; ".join(wrong))
    return made


def build_union(kind: Any, value: Any, path: str) -> Any:
    """Take the first alternative that fits; bool goes before int, int before float."""
    for choice in get_args(kind):
        try:
            return build(choice, value, path)
        except RequestError:
            continue
    raise RequestError(f"{path}: {value!r} is not one of {kind}")


def build_enum(kind: type[Enum], value: Any, path: str) -> Enum:
    """Make an enum member from its value."""
    try:
        return kind(value)
    except ValueError:
        raise RequestError(f"{path}: {value!r} is not of type {kind.__name__}") from None


def expect(value: Any, kind: Any, path: str) -> Any:
    """Check the exact type: True is no int here."""
    if type(value) is not kind and not (kind is type(None) and value is None):
        raise RequestError(f"{path}: {value!r} is not of type {getattr(kind, '__name__', kind)}")
    return value
