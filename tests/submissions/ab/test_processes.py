"""The processes of `podium ab`: their words, their environment, and how they fail."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from making_ab import build_request, build_training_request

from submissions.ab.processes import (
    KnownSide,
    SideError,
    build_side_error,
    list_side_words,
    run_side,
)
from suite.ab.sides import AbPoint
from suite.errors import JudgedError, MissingError, RequestError, TemporaryError

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
