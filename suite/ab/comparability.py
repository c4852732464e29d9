"""Whether the systems of two sides may be compared: one workload, one profile, the same data."""

from collections.abc import Iterator
from typing import Any, Final

from suite.records import SystemUnderTest
from suite.rounds.settings import select_task_settings
from suite.studies.own_prompts import TASK_SETTINGS

COMPARED_FIELDS: Final = ("workload", "round", "profile", "sample_count")
"""Of a system: what both sides have in common."""


def iterate_task_differences(one: SystemUnderTest, other: SystemUnderTest) -> Iterator[str]:
    """Yield in what two systems differ that may not be compared then, as results may not."""
    mine, its = describe_task(one), describe_task(other)
    for name in sorted(mine.keys() | its.keys()):
        if mine.get(name) != its.get(name):
            yield f"{name} {mine.get(name)} and {its.get(name)}"


def describe_task(system: SystemUnderTest) -> dict[str, Any]:
    """Return what a system has to do."""
    asked = {name: system.settings[name] for name in TASK_SETTINGS if name in system.settings}
    found = {name: getattr(system, name) for name in COMPARED_FIELDS}
    return found | select_task_settings(system.settings) | asked
