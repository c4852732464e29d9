"""The processes of `podium ab`: their words, their environment, and how they fail."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from making_ab import build_request, build_training_request

from submissions.ab.processes import (
    KnownSide,
    SideError,
    build_side_environment,
    build_side_error,
    list_side_words,
    run_side,
)
from suite.ab.sides import AbPoint
from suite.errors import JudgedError, MissingError, RequestError, TemporaryError

ROOT = Path(__file__).parents[3]
BLOCK = AbPoint(run="block", side="b", block=1, turn=1)
FAILING = '#!/bin/sh\necho "some progress"\necho "podium: $ACME_FAST is too fast" >&2\nexit 3\n'


def test_a_failing_process_says_why_with_its_own_exit_code(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(FAILING)
    python.chmod(0o755)
    request = build_request()
    request = replace(request, b=replace(request.b, python=str(python)))
    with (
        pytest.raises(SideError, match="1 is too fast") as caught,
        run_side(request, BLOCK, tmp_path, KnownSide()),
    ):
        pass
    assert caught.value.code == 3
    assert "ACME_FAST" not in os.environ
    assert not list(tmp_path.glob("podium-scratch-*"))


def test_another_installation_has_its_own_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPATH would lead both sides to one podium, and they would be equal."""
    monkeypatch.setenv("PYTHONPATH", "/ours")
    side = build_request().b
    assert build_side_environment(side)["PYTHONPATH"] == "/ours"
    other = replace(side, python="/venv/bin/python")
    assert "PYTHONPATH" not in build_side_environment(other)
    named = replace(other, environment={"PYTHONPATH": "/theirs"})
    assert build_side_environment(named)["PYTHONPATH"] == "/theirs"


def test_an_installation_without_podium_is_missing_something() -> None:
    error = build_side_error(SideError(1, "/venv/bin/python: No module named podium"), "side B")
    assert type(error) is MissingError
    assert str(error).endswith("install podium-suite there")


KILLED = """
import sys
from submissions.ab.processes import run_podium
from suite.ab.sides import AbSide
run_podium(AbSide(named=(), options={}, python=sys.argv[1]), [])
"""


def test_a_side_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    """One that goes on would disturb the runs of the command that continues."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 60\n")
    python.chmod(0o755)
    command = subprocess.Popen([sys.executable, "-c", KILLED, str(python)], cwd=ROOT)
    side = wait_for(lambda: int((tmp_path / "pid").read_text()))
    command.kill()
    command.wait()
    wait_for(lambda: is_gone(side))


def wait_for(find: Callable[[], int]) -> int:
    """What is found within some seconds."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        with suppress(OSError, ValueError):
            if found := find():
                return found
        time.sleep(0.05)
    raise AssertionError("it does not happen")


def is_gone(pid: int) -> bool:
    """Whether a process has ended, though nobody may have asked how."""
    try:
        return "(zombie)" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, JudgedError),
        (2, RequestError),
        (3, MissingError),
        (75, TemporaryError),
        (9, JudgedError),
    ],
)
def test_the_exit_code_of_a_side_is_that_of_the_command(code: int, kind: type[Exception]) -> None:
    assert type(build_side_error(SideError(code, "why"), "side A")) is kind


def test_a_run_has_the_words_of_its_side() -> None:
    words = list_side_words(build_request(), BLOCK, KnownSide(threads=2, rate=31.5))
    told = " ".join(words)
    assert told.startswith("infer resnet50 --scenario offline --profile smoke --mode performance")
    for each in ("--threads 2", "offline.expected_qps=37.8", "--system side-b", "--runs 1"):
        assert each in told


def test_the_accuracy_set_is_answered_offline_in_full_length() -> None:
    point = AbPoint(run="accuracy", side="a")
    told = " ".join(list_side_words(build_request(), point, KnownSide(rate=31.5)))
    assert "--mode accuracy" in told
    assert "min_duration" not in told
    assert "expected_qps" not in told


def test_steps_of_a_training_are_timed_with_one_seed() -> None:
    words = list_side_words(build_training_request(), BLOCK, KnownSide(threads=2, rate=31.5))
    told = " ".join(words)
    assert told.startswith("train resnet50 --profile smoke --time-steps ")
    for each in ("--threads 2", "--seed 7", "--system side-b"):
        assert each in told
    for each in ("--scenario", "--engine", "expected_qps", "min_duration"):
        assert each not in told


def test_own_prompts_are_asked_of_the_sides_own_server() -> None:
    request = build_request()
    side = replace(request.a, endpoint="http://h:1", options={})
    asked = replace(request, a=side, workload="", shared=("--prompts", "8x8"), accuracy=False)
    words = list_side_words(asked, AbPoint(run="warm-up", side="a"), KnownSide(threads=2))
    assert words[:2] == ["infer", "http://h:1"]
    assert "--prompts" in words
    assert "--threads" not in words
    assert "--profile" not in words
