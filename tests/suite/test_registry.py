"""Entry points: what is found, what a typo or a missing package leads to; a third party has what
the seven workloads have.
"""

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from textwrap import indent
from typing import cast

import pytest

from suite import plugins, registry
from suite.errors import MissingError, RequestError
from suite.process.signals import Terminated, raise_signals_in_block

CACHED = (
    registry.map_entry_points,
    registry.load_round,
    registry.list_round_names,
    registry.load_round_kind,
    registry.load_kind,
    registry.list_round_files,
    registry.collect_round_texts,
)
GROUPS = [
    value
    for name, value in vars(registry).items()
    if name.isupper() and isinstance(value, str) and value.startswith("podium.")
]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what was looked up, before and after."""
    for found in CACHED:
        found.cache_clear()
    yield
    for found in CACHED:
        found.cache_clear()


def offer(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> None:
    """Let these be all entry points that are installed."""
    monkeypatch.setattr(
        plugins,
        "select_entry_points",
        lambda group: [point for point in points if point.group == group],
    )


def point(name: str, value: str, group: str = registry.WORKLOAD_GROUP) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=group)


def own(name: str, value: str) -> EntryPoint:
    """Make a workload of podium's own distribution."""
    return cast(EntryPoint, point(name, value)._for(distribution("podium-suite")))  # type: ignore[attr-defined]  # what importlib.metadata does itself


def test_every_group_is_one_that_podium_uses_itself() -> None:
    """A group that no workload of ours needs would be one that nobody has tried; podium's own rules
    are found by folder, and examples/rings brings one by its entry point.
    """
    used = [group for group in GROUPS if group != registry.RULE_GROUP]
    assert all(registry.map_entry_points(group) for group in used)


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    """Exit 2, with what was meant."""
    with pytest.raises(RequestError, match="unknown workload 'resnet5'; did you mean 'resnet50'"):
        registry.load_workload("resnet5")
    with pytest.raises(RequestError, match="unknown engine 'zzz'; known: .*torch"):
        registry.load_engine("zzz")
    with pytest.raises(RequestError, match="unknown scorer"):
        registry.load_scorer("nothing-like-it")


@pytest.mark.usefixtures("fresh")
def test_a_package_that_is_not_installed_is_missing_not_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit 3, with what to install: the extra that the entry point names, or `run`."""
    offer(
        monkeypatch,
        own("far", "no_such_package.module:Far"),
        own("extra", "no_such_package:Extra [tensorrt]"),
    )
    with pytest.raises(
        MissingError, match=r"workload 'far' needs no_such_package: pip install .*\[run\]'"
    ):
        registry.load_workload("far")
    with pytest.raises(MissingError, match=r"pip install .*\[tensorrt\]"):
        registry.load_workload("extra")


@pytest.mark.usefixtures("fresh")
def test_a_broken_module_of_podiums_own_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong attribute in podium itself must not pass for a package that is not installed."""
    offer(
        monkeypatch,
        own("bad", "suite.files.layout:NoSuchThing"),
        point("theirs", "suite.files.layout:NoSuchThing"),
    )
    with pytest.raises(AttributeError):
        registry.load_workload("bad")
    with pytest.raises(
        MissingError,
        match="workload 'theirs' cannot be loaded: package suite.files.layout: AttributeError",
    ):
        registry.load_workload("theirs")


@pytest.mark.usefixtures("fresh")
def test_a_signal_while_another_package_is_loaded_is_no_fault_of_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was told as a broken package, and the command went on without it."""
    body = "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n"
    (tmp_path / "stopped_on_import.py").write_text(body)
    (tmp_path / "stopped_when_made.py").write_text(
        "class Far:\n    def __init__(self):\n" + indent(body, " " * 8)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    offer(
        monkeypatch,
        point("far", "stopped_on_import:Far", registry.ENGINE_GROUP),
        point("made", "stopped_when_made:Far", registry.ENGINE_GROUP),
    )
    for name in ("far", "made"):
        with pytest.raises(Terminated), raise_signals_in_block(), pytest.raises(Terminated):
            registry.load_engine(name)


@pytest.mark.usefixtures("fresh")
def test_what_is_no_record_is_no_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may still name a class, as it once did."""
    offer(monkeypatch, point("old", "suite.files.layout:fold_name"))
    with pytest.raises(
        MissingError,
        match=re.escape(
            "workload 'old' (podium.workloads) of package suite.files.layout does not fit: object:"
            " expected a Workload, found the function fold_name"
        ),
    ):
        registry.load_workload("old")


@pytest.mark.usefixtures("fresh")
def test_a_broken_part_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The record is fine, its scorer is not; one that a record lacks is none, and bytes are
    compared.
    """
    (tmp_path / "far_parts.py").write_text(
        "from suite.workload import Workload\n"
        'FAR = Workload(name="far", training="a:b", inference="a:b", score="no_such_package:score")'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    offer(monkeypatch, point("far", "far_parts:FAR"))
    with pytest.raises(
        MissingError,
        match="scorer 'far' cannot be loaded: package far_parts: ModuleNotFoundError: No module"
        " named 'no_such_package'",
    ):
        registry.load_scorer("far")
    assert registry.load_workload_part("far", "examples", "examples") is None
    assert registry.load_workload_part("nobody", "examples", "examples") is None
    assert registry.load_agreement("far")(b"1", b"1")


@pytest.mark.usefixtures("fresh")
def test_of_two_with_one_name_the_first_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of installation decides nothing else: names come sorted."""
    offer(
        monkeypatch,
        point("b", "suite.files.layout:convert_to_slug"),
        point("a", "suite.files.layout:fold_name"),
        point("b", "suite.files.layout:fold_name"),
    )
    found = registry.map_entry_points(registry.WORKLOAD_GROUP)
    assert list(found) == ["a", "b"] and found["b"].value == "suite.files.layout:convert_to_slug"
    assert registry.map_entry_points(registry.ENGINE_GROUP) == {}


@pytest.mark.usefixtures("fresh")
def test_two_engines_of_one_name_serve_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that remembers its answers must not stand in the place of podium's, whichever was
    installed first.
    """
    two = [
        point("torch", "suite.files.layout:fold_name", registry.ENGINE_GROUP)._for(
            distribution(name)
        )
        for name in ("podium-suite", "pytest")
    ]  # type: ignore[attr-defined]
    offer(monkeypatch, *two)
    with pytest.raises(
        MissingError,
        match="engine 'torch' comes from podium-suite .* and from pytest .*: uninstall all but one",
    ):
        registry.load_engine("torch")


def test_an_engine_tells_its_package_and_the_hash_of_its_module() -> None:
    told = registry.describe_engine_package("torch")
    assert re.fullmatch(r"podium-suite \S+, SHA-256 [0-9a-f]{64}", told)


@pytest.mark.usefixtures("fresh")
def test_nothing_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of nothing is no help; `none` is."""
    offer(monkeypatch)
    with pytest.raises(RequestError, match="unknown workload 'x'; known: none"):
        registry.load_workload("x")
    with pytest.raises(RequestError, match="unknown round 'podium-v1'; known: none"):
        registry.load_round()


@pytest.mark.usefixtures("fresh")
def test_a_third_partys_row_joins_the_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A package of the group brings a file of the round's name; nothing of ours changes."""
    package = tmp_path / "third_party"
    package.mkdir()
    (package / "__init__.py").write_text("")
    row = (
        '[toy]\ntitle = "t"\ntraining_name = "toy"\ninference_name = "toy"\nmetrics = { top1 ='
        ' "" }\n'
    )
    (package / "podium-v1.toml").write_text(
        row + "[toy.settings]\n[toy.training]\n[toy.inference]\n"
    )
    (package / "notes.txt").write_text("no round")
    monkeypatch.syspath_prepend(str(tmp_path))
    real = plugins.select_entry_points(registry.ROUND_GROUP)
    offer(
        monkeypatch,
        *(each for each in real if each.value == "suite.rounds"),
        *plugins.select_entry_points(registry.ROUND_KIND_GROUP),
        point("third", "third_party", registry.ROUND_GROUP),
    )
    assert set(registry.load_round().benchmarks) == {"toy"}
    assert "notes" not in registry.list_round_names()


@pytest.mark.usefixtures("fresh")
def test_a_workload_s_files_have_fixed_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its package may hold any other file; a package of two workloads is read once, and a module
    outside any package has no files.
    """
    package = tmp_path / "third_workload"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "lone_module.py").write_text("")
    for name in ("podium-v1.toml", "settings.toml", "training.podium-v1.toy.json", "cache.json"):
        (package / name).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    offer(
        monkeypatch,
        point("lone", "lone_module:LONE"),
        point("toy", "third_workload:TOY"),
        point("toys", "third_workload.more:TOYS"),
    )
    (package / "more.py").write_text("raise AssertionError('a record was imported for its row')")

    def names(group: str, pattern: str) -> list[str]:
        return [Path(each.path).name for each in registry.iterate_package_files(group, pattern)]

    assert names(registry.ROUND_GROUP, "*.toml") == ["podium-v1.toml"]
    assert names(registry.SCHEMA_GROUP, "*.json") == ["training.podium-v1.toy.json"]
    assert [each.package for each in registry.iterate_workload_files("cache.json")] == [
        "third_workload"
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("podium-v1", "podium"),
        ("training-v0.6", "training"),
        ("training-v0.7", "training"),
        ("inference-v0.7", "inference-text"),
    ],
)
def test_rounds_are_of_three_kinds(name: str, kind: str) -> None:
    """Which judge judges by it depends on that."""
    assert registry.load_round_kind(name).name == kind and name in registry.list_round_names()


def test_nothing_is_run_by_a_published_round() -> None:
    """Its targets are today's no more; who asks for it is told."""
    with pytest.raises(
        RequestError,
        match="training-v0.7 is a published round: its results can be checked and scored",
    ):
        registry.load_round("training-v0.7")


def test_each_workload_has_a_row_a_scorer_and_a_name_of_its_own() -> None:
    """One without a scorer could be served and never judged."""
    for name in registry.map_entry_points(registry.WORKLOAD_GROUP):
        if name in registry.load_round().benchmarks:
            assert (
                callable(registry.load_scorer(name)) and registry.load_workload(name).name == name
            )
