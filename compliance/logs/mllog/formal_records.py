"""Select the records that the judge reads: an invalid number in another record, such as the norm of
a gradient, is ignored.
"""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from suite import events, registry


@cache
def collect_formal_keys() -> frozenset[str]:
    """Return the keys of all records that a rule of any training round reads; `tracked_stats`
    contains only speed and intermediate losses.
    """
    own = {
        value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)
    } - {events.THROUGHPUT}
    return frozenset(own.union(*map(collect_round_keys, registry.list_round_names())))


def collect_round_keys(name: str) -> set[str]:
    kind = registry.load_round_kind(name)
    collect, load = (registry.load_kind_part(kind, part) for part in ("formal_keys", "load"))
    return collect(load(name)) if collect and load else set()


def has_fault_in_formal_key(table: Mapping[str, Any]) -> bool:
    """Return whether a record with invalid JSON (an invalid number or a repeated name) has its
    defect where a rule reads it.

    A rule reads the value of a record with a formal key, and metadata that states progress. A
    defect that is not found may be anywhere.
    """
    # in v0.6 the key precedes the object
    key = table.get("key")
    if isinstance(key, str) and key not in collect_formal_keys():
        return False
    metadata = table.get("metadata")
    if isinstance(metadata, dict):
        inner = metadata
    else:
        inner = {"metadata": metadata}
    odd = {name for name, value in inner.items() if not has_only_finite_numbers(value)}
    outer = [
        name
        for name, value in table.items()
        if name != "metadata" and not has_only_finite_numbers(value)
    ]
    return bool(outer) or not odd or not odd.isdisjoint(collect_formal_keys())


def has_only_finite_numbers(value: object) -> bool:
    """Return whether a value contains no NaN and no infinity, at any depth."""
    if isinstance(value, dict):
        return all(map(has_only_finite_numbers, value.values()))
    if isinstance(value, list):
        return all(map(has_only_finite_numbers, value))
    return not isinstance(value, float) or math.isfinite(value)
