"""Packages that a test offers beside podium, or kinds of rounds and extras that it hides: what podium
looked up before is forgotten, and again after the test.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

import pytest

import extras
from suite import plugins, registry

PACKAGES: Final = ("suite", "compliance", "submissions", "workloads", "extras")
"""Import packages whose functions remember what they looked up."""


def forget_lookups() -> None:
    """Clear every cache of podium's modules."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


@contextmanager
def change_entry_points(
    change: Callable[[str, Sequence[EntryPoint]], Iterable[EntryPoint]],
) -> Iterator[None]:
    """Let podium see the entry points of each group as a function changes them."""
    select = plugins.select_entry_points

    def select_changed(group: str) -> tuple[EntryPoint, ...]:
        return tuple(change(group, select(group)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "select_entry_points", select_changed)
        patch.setattr(plugins, "WARNED_PACKAGES", set())
        forget_lookups()
        try:
            yield
        finally:
            patch.undo()
            forget_lookups()


@contextmanager
def offer_package(
    folder: Path,
    name: str,
    files: Mapping[str, str],
    points: Sequence[tuple[str, str, str]],
    *,
    is_first: bool = False,
) -> Iterator[None]:
    """Write a package of another distribution than podium's, and offer its entry points: (group,
    name, value), before or after podium's.
    """
    for path, text in {"__init__.py": "", **files}.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text, encoding="utf-8")
    offered = [EntryPoint(group=group, name=each, value=value) for group, each, value in points]

    def add(group: str, found: Sequence[EntryPoint]) -> list[EntryPoint]:
        added = [point for point in offered if point.group == group]
        return [*added, *found] if is_first else [*found, *added]

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        try:
            with change_entry_points(add):
                yield
        finally:
            for module in [each for each in sys.modules if each.partition(".")[0] == name]:
                del sys.modules[module]


@contextmanager
def hide_kind(name: str) -> Iterator[None]:
    """Hide a kind of round as if podium came without it."""

    def leave_out(group: str, found: Sequence[EntryPoint]) -> list[EntryPoint]:
        hidden = name if group == registry.ROUND_KIND_GROUP else None
        return [point for point in found if point.name != hidden]

    with change_entry_points(leave_out):
        yield


@contextmanager
def hide_extra(name: str) -> Iterator[None]:
    """Hide an extra as if podium came without it: nothing offers it, and its import fails."""
    package = f"extras.{name}"

    def leave_out(_: str, found: Sequence[EntryPoint]) -> list[EntryPoint]:
        return [point for point in found if not f"{point.module}.".startswith(f"{package}.")]

    with change_entry_points(leave_out), pytest.MonkeyPatch.context() as patch:
        for module in [each for each in sys.modules if each.startswith(f"{package}.")]:
            patch.delitem(sys.modules, module)
        patch.delattr(extras, name, raising=False)
        patch.setitem(sys.modules, package, None)
        yield
