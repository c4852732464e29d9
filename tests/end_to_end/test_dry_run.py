"""`podium run --dry-run` with the real harness: the sum of its steps, and an untouched folder."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

Podium = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def apart(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The processes' environment, with a folder of their own for temporary files."""
    (tmp_path / "scratch").mkdir()
    return {**environment, "TMPDIR": str(tmp_path / "scratch")}


@pytest.mark.slow
def test_a_campaign_is_tried_and_leaves_nothing(
    podium: Podium, fake: Sequence[str], apart: Mapping[str, str], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    outcome = podium("run", "fake", "--dry-run", "--results", results, *fake, environment=apart)
    assert outcome.returncode == 0, outcome.stderr
    lines = [line for line in outcome.stdout.splitlines() if "estimated" in line]
    assert [line.partition(", estimated")[0] for line in lines] == [
        "fake: training",
        "fake: serving",
        "fake: the whole",
        "fake: memory",
    ]
    assert not results.exists() and list((tmp_path / "scratch").iterdir()) == []


def test_what_a_dry_run_says_nothing_about_is_exit_2(
    podium: Podium, fake: Sequence[str], tmp_path: Path
) -> None:
    for option in ("--audit", "--peak"):
        outcome = podium("run", "fake", "--dry-run", option, "--results", tmp_path / "r", *fake)
        assert outcome.returncode == 2
        assert f"--dry-run says nothing about {option}" in outcome.stderr
    assert not (tmp_path / "r").exists()


def test_a_failing_step_is_one_sentence_with_its_exit_code(
    podium: Podium, fake: Sequence[str], tmp_path: Path
) -> None:
    outcome = podium(
        "run",
        "fake",
        "--dry-run",
        "--results",
        tmp_path / "r",
        *fake,
        "--set",
        "fake.fault=nan_loss",
        "--set",
        "fake.fault_epoch=1",
    )
    assert outcome.returncode == 1 and "Traceback" not in outcome.stderr
    assert "the loss is nan" in outcome.stderr and not (tmp_path / "r").exists()
