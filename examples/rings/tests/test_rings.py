"""The workload measures something, and the judge accepts what it leaves; each test runs `podium` as
a user does.
"""

import subprocess
import sys
from pathlib import Path

import pytest


def podium(*words: object) -> "subprocess.CompletedProcess[str]":
    """Run a command of podium."""
    return subprocess.run(
        [sys.executable, "-m", "suite.cli", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("seed", [1, 2**63 - 1])
def test_training_reaches_the_target_and_the_judge_accepts_it(tmp_path: Path, seed: int) -> None:
    trained = podium("train", "rings", "--results", tmp_path, "--seed", seed, "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    checked = podium("check", tmp_path)
    assert checked.returncode == 0, checked.stdout


def test_shuffled_labels_miss_the_target(tmp_path: Path) -> None:
    missed = podium(
        "train",
        "rings",
        "--results",
        tmp_path,
        "--seed",
        1,
        "--device",
        "cpu",
        "--set",
        "data.shuffle_labels=true",
    )
    assert missed.returncode == 1, missed.stdout + missed.stderr
