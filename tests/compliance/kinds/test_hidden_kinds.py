"""A podium that comes without one of its kinds of rounds: its results are unknown, and all others
are judged as before.
"""

import shutil
from collections.abc import Mapping, Set
from functools import cache
from pathlib import Path

import pytest
from examples import EXAMPLES, path_of, result_of
from offered_packages import hide_kind

from compliance.commands import CheckOptions, run_check_command
from compliance.judge import ROUND_SEPARATOR, Judge
from compliance.rules import load_rules
from compliance.verdict import UNKNOWN_ROUND, PathJudgement, Verdict
from suite import registry
from suite.errors import MissingError, RequestError

KINDS = sorted(registry.map_entry_points(registry.ROUND_KIND_GROUP))
NEEDED_BY = {"endpoints": frozenset({"endpoints-curve", "inference-mllog"})}
"""Kind -> those whose results are judged by its rules, too."""
EVERY = 9
"""One of so many examples is judged."""
NO_PODIUM = "round podium-v1 is not judged here: the kind of round 'podium' is not installed"


@cache
def judge_examples() -> Mapping[Path, PathJudgement]:
    """Judge some examples of each kind with all kinds."""
    found = sorted(path for path in EXAMPLES.glob("*/*") if path.is_dir())
    return {folder: result_of(folder) for folder in found[::EVERY]}


def list_kinds(judged: PathJudgement) -> Set[str]:
    """List the kinds of the rounds by which a path was judged."""
    names = {*judged.round.split(ROUND_SEPARATOR)} - {UNKNOWN_ROUND}
    return {registry.load_round_kind(name).name for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("hidden", KINDS)
def test_all_other_kinds_are_judged_as_before(
    hidden: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results of the hidden one are neither valid nor broken, and one sentence says so."""
    gone = {hidden} | NEEDED_BY.get(hidden, frozenset())
    kinds = {folder: list_kinds(judged) for folder, judged in judge_examples().items()}
    assert set[str]().union(*kinds.values()) == set(KINDS)
    missing = [folder for folder, found in kinds.items() if found & gone]
    with hide_kind(hidden):
        for folder, before in judge_examples().items():
            judged = result_of(folder)
            if folder not in missing:
                assert judged == before or before.round == UNKNOWN_ROUND, folder
                continue
            assert (judged.round, judged.verdict) == (UNKNOWN_ROUND, Verdict.UNKNOWN), folder
            assert [each.rule for each in judged.findings] == ["round.known"], folder
            assert NO_PODIUM in judged.findings[0].found or hidden != "podium", folder
        capsys.readouterr()
        paths = [str(path_of(folder)) for folder in missing[:3]]
        assert run_check_command(paths, CheckOptions()) == 1
        assert "3 PATHs: 3 unknown" in capsys.readouterr().out
        assert not load_rules().keys() & {"log.target"} or hidden != "training"


def test_a_folder_of_a_round_says_which_kind_it_needs(tmp_path: Path) -> None:
    """The kind is there, but not one whose rules its results are judged by, too."""
    shutil.copytree(EXAMPLES / "base" / "since-v5.1", tmp_path / "inference_v5.1")
    with hide_kind("endpoints"):
        judged = Judge().judge_path(str(tmp_path / "inference_v5.1"))
    assert judged.verdict is Verdict.UNKNOWN
    told = "the kind of round 'inference-mllog' needs 'endpoints', which is not installed"
    assert judged.findings[0].found.endswith(told)


@pytest.mark.parametrize(
    ("hidden", "name", "error", "told"),
    [
        ("podium", "podium-v1", MissingError, NO_PODIUM),
        ("endpoints-curve", "endpoints-v1.0", MissingError, "'endpoints-curve' is not installed"),
        ("endpoints", "inference-v6.1", MissingError, "'inference-mllog' needs 'endpoints'"),
        ("training", "training-v5.1", RequestError, "unknown round 'training-v5.1'; known: end"),
    ],
)
def test_a_round_that_is_asked_for_is_missing(
    hidden: str, name: str, error: type[Exception], told: str
) -> None:
    """Exit 3 where its file is here, which says what it needs, and 2 where nothing knows it."""
    with hide_kind(hidden):
        assert name not in registry.list_round_names()
        with pytest.raises(error, match=told):
            Judge(name)
