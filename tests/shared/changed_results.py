"""Results for tests, by the names of their fields, whichever part these are in."""

from dataclasses import fields, replace
from typing import Any

from suite.result import Result

PARTS = ("place", "figure", "origin", "machine", "made_with", "quality", "judgement")


def change_result(result: Result, **changes: Any) -> Result:
    """Return a result with some fields changed, such as `workload`, `value` or `compliant`."""
    for name in PARTS:
        part: Any = getattr(result, name)
        known = {each.name for each in fields(part)} & set(changes)
        part = replace(part, **{each: changes.pop(each) for each in known})
        result = replace(result, **{name: part})
    return replace(result, **changes)


def make_result(**facts: Any) -> Result:
    """Build a result of some facts."""
    return change_result(Result(), **facts)
