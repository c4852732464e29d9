"""`podium submit training`: ten runs of llama become a submission that podium and the package
checker of mlperf-logging accept, and each edit of it is found.

The logs are written by mllog itself, with the settings of the closed division, and with times and
losses that were given to it: training a network of eight thousand million parameters takes another
machine.
"""

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from making_full_sets import DESCRIPTION, write_statements
from making_training import measured

from compliance.judge import Judge
from compliance.verdict import Severity
from submissions.commands.submit import submit
from submissions.submit.official import TrainingChecker
from suite.engine import Precision
from suite.errors import JudgedError, RequestError

mllog = pytest.importorskip("mlperf_logging.mllog", reason="mlperf-logging is not installed")

pytestmark = pytest.mark.slow

ROUND: Final = "v6.0"
BEGAN_MS: Final = 1_772_500_000_000
"""March 2026, in which runs of v6.0 were made."""
BEGAN_6_1_MS: Final = 1_790_000_000_000
"""September 2026, as for v6.1."""
HOUR_MS: Final = 3_600_000
EVALUATIONS: Final = (14, 15, 15, 16, 14, 15, 16, 15, 14, 15)
"""Of each run: as many as the reference needs with this batch size (rcps_llama31_8b.json)."""
SET: Final = "acme/results/1xbox/llama31_8b"


def write_log(
    path: Path,
    number: int,
    profile: str = "full",
    *,
    first_ms: int = BEGAN_MS,
    disclosed: Mapping[str, Any] | None = None,
) -> None:
    """Write a run as mllog does."""
    began_ms = first_ms + number * HOUR_MS
    path.parent.mkdir(parents=True, exist_ok=True)
    stream = logging.Logger(path.name)
    stream.addHandler(logging.FileHandler(path, encoding="utf-8"))
    logger = mllog.mllog.MLLogger(stream)
    logger.event("podium_profile", profile, time_ms=began_ms)
    for each in measured(number=number, evaluations=EVALUATIONS[number]):
        logger.event(
            each.key,
            each.value,
            {"file": "train.py", "lineno": 1, **each.metadata},
            time_ms=int(began_ms + each.after_ms),
        )
        for key, value in (disclosed or {}).items() if each.key == "seed" else ():
            logger.event(key, value, time_ms=int(began_ms + each.after_ms))
    stream.handlers[0].close()


def write_results(root: Path, profile: str = "full", runs: int = 10, **logged: Any) -> Path:
    """Write a results folder with a run set, as podium train leaves it."""
    home = root / "results" / "closed" / "acme"
    for number in range(runs):
        log = home / f"results/1xbox/llama31_8b/result_{number}.txt"
        write_log(log, number, profile, **logged)
    (home / "systems").mkdir()
    (home / "systems/1xbox.json").write_text(json.dumps(DESCRIPTION))
    return root / "results"


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set that the round accepts."""
    return write_results(tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="session")
def stated(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options with what podium does not know."""
    return write_statements(tmp_path_factory.mktemp("stated"))


def run_submit(results: Path, target: Path, *more: str, round_name: str = ROUND) -> Result:
    """Run the command in this process."""
    words = [str(results), "--round", round_name, "-o", str(target), "--org", "acme", *more]
    return CliRunner().invoke(submit, ["training", *words])


@pytest.fixture(scope="session")
def written(results: Path, stated: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission."""
    target = tmp_path_factory.mktemp("written") / "tree"
    done = run_submit(results, target, *stated)
    assert done.exit_code == 0, done.output
    return target


@pytest.fixture
def tree(written: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(written, tmp_path / "tree"))


def list_error_rules(tree: Path) -> set[str]:
    """The rules that podium finds broken."""
    findings = Judge(f"training-{ROUND}").judge_path(str(tree)).findings
    return {each.rule for each in findings if each.severity is Severity.ERROR}


def is_accepted_officially(tree: Path) -> bool:
    """Whether the package checker finds no error."""
    return TrainingChecker().check_submission(tree / "acme", f"training-{ROUND}").passed


def test_a_whole_set_becomes_a_tree_that_both_accept(
    results: Path, stated: list[str], tmp_path: Path
) -> None:
    target = tmp_path / "tree"
    done = run_submit(results, target, *stated, "--checker")
    assert done.exit_code == 0, done.output
    assert "podium: passed, errors: 0" in done.output
    assert "6.0.0: passed, errors: 0" in done.output
    assert list_error_rules(target) == set()
    for number in range(10):
        source = results / f"closed/acme/results/1xbox/llama31_8b/result_{number}.txt"
        assert (target / SET / f"result_{number}.txt").read_bytes() == source.read_bytes()
    code = target / "acme/benchmarks/llama31_8b/implementations/code/run.sh"
    assert code.is_file() and not (target / "INCOMPLETE.md").exists()
    described = json.loads((target / "acme/systems/1xbox.json").read_text())
    assert "podium" not in described and described["accelerators_per_node"] == "8"


@pytest.mark.parametrize("precision", ["bf16", "fp32"])
def test_what_the_logs_of_llama_disclose_is_what_v6_1_asks_for(
    tmp_path: Path, stated: list[str], precision: str
) -> None:
    """As `podium train llama` states it. Without it, and with a word of podium's own for bf16, both
    refuse the tree.
    """
    pytest.importorskip("torch")
    from testbed import a_run

    from workloads.common.optimisation.disclosed_facts import collect_disclosed_facts

    run = a_run("llama", None, tmp_path, {}, precision=Precision(precision))
    facts = collect_disclosed_facts(run, 4, "workloads/llama/podium-v1.toml")
    results = write_results(tmp_path / "good", first_ms=BEGAN_6_1_MS, disclosed=facts)
    words = (*stated, "--checker")
    done = run_submit(results, tmp_path / "tree", *words, round_name="v6.1")
    assert done.exit_code == 0, done.output
    assert "podium: passed, errors: 0" in done.output
    assert "6.1.0: passed, errors: 0" in done.output
    for name, wrong in (
        ("none", {}),
        ("word", {**facts, "lowest_numerical_precision_in_attn": "bf16"}),
        ("count", {**facts, "micro_batch_size": 0}),
    ):
        bad = write_results(tmp_path / name, first_ms=BEGAN_6_1_MS, disclosed=wrong)
        words = (*stated, "--checker", "--incomplete")
        done = run_submit(bad, tmp_path / f"{name}-tree", *words, round_name="v6.1")
        assert "log.disclosure" in done.output, name
        assert "podium: failed" in done.output and "6.1.0: failed" in done.output, name


def test_what_is_missing_is_listed_and_nothing_written(tmp_path: Path) -> None:
    """Fields, runs, the profile and the code; with --incomplete the tree says that it is none."""
    few = write_results(tmp_path, profile="smoke", runs=2)
    done = run_submit(few, tmp_path / "tree")
    assert isinstance(done.exception, JudgedError) and not (tmp_path / "tree").exists()
    for rule in ("submit.profile", "submit.code", "runs.count", "org.fields", "org.description"):
        assert f"missing {rule}\n" in done.output
    assert "profile smoke; required: full" in done.output
    assert "2 runs; required: 10 runs of llama31_8b" in done.output
    done = run_submit(few, tmp_path / "tree", "--incomplete")
    assert isinstance(done.exception, JudgedError) and done.exception.exit_code == 1
    assert "submit.profile" in (tmp_path / "tree" / "INCOMPLETE.md").read_text()


EDITS: Final[dict[str, tuple[Callable[[Path], Any], str, bool]]] = {
    "a run less": (lambda root: (root / SET / "result_9.txt").unlink(), "runs.count", True),
    "a run twice": (
        lambda root: shutil.copy(root / SET / "result_0.txt", root / SET / "result_1.txt"),
        "runs.distinct",
        True,
    ),
    "another benchmark": (
        lambda root: (root / SET).rename((root / SET).with_name("flux1")),
        "log.place",
        False,
    ),
    "another learning rate": (
        lambda root: replace_text(root / SET / "result_2.txt", "0.0009", "0.0008"),
        "runs.hyperparameters",
        False,
    ),
    "missed targets": (
        lambda root: [
            replace_text(root / SET / f"result_{each}.txt", '"value": 3.2', '"value": 3.4')
            for each in (0, 1)
        ],
        "log.target",
        True,
    ),
    "a field less": (
        lambda root: replace_text(root / "acme/systems/1xbox.json", '"cooling"', '"cooled"'),
        "org.fields",
        True,
    ),
    "a status in other words": (
        lambda root: replace_text(root / "acme/systems/1xbox.json", "Available on-premise", "Sold"),
        "org.description",
        True,
    ),
    "another division": (
        lambda root: replace_text(root / "acme/systems/1xbox.json", '"closed"', '"open"'),
        "org.division",
        False,
    ),
}
"""Edits of a tree, each with podium's rule, and whether the package checker finds it."""


def replace_text(path: Path, old: str, new: str) -> None:
    """Replace a text in a file that has it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_found(tree: Path, name: str) -> None:
    change, rule, is_found_officially = EDITS[name]
    change(tree)
    assert rule in list_error_rules(tree)
    assert is_accepted_officially(tree) != is_found_officially


@pytest.mark.parametrize(
    ("round_name", "said"),
    [
        ("v5.0", "rounds that have some of them: training-v5.1, training-v6.0, training-v6.1"),
        ("v9.9", "unknown round 'training-v9.9'"),
    ],
)
def test_a_round_without_the_benchmark_is_refused(
    results: Path, tmp_path: Path, round_name: str, said: str
) -> None:
    words = [str(results), "--round", round_name, "-o", str(tmp_path / "tree"), "--org", "acme"]
    done = CliRunner().invoke(submit, ["training", *words])
    assert isinstance(done.exception, RequestError) and said in str(done.exception)
