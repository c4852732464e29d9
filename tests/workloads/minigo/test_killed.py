"""kill -9 in the middle of a generation: nothing goes on, nothing reads as valid, and the run ends
with the weights of one that was left alone.
"""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from boards import SMALL
from processes import is_alive
from warm import TORCH_RUN, Warm

from harness.training.state.checkpointing import list_checkpoint_numbers

GROUPS = 2
"""Groups of games of a generation of SMALL."""


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    """Where runs come from; the processes that play are interpreters of their own."""
    started = Warm(
        *TORCH_RUN, "workloads.minigo.training", "workloads.minigo.inference", "torch._dynamo"
    )
    yield started
    started.end()


def until(condition: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def weights(results: Path) -> dict[str, bytes]:
    """The exported weights, by their folder's name, which is their hash."""
    return {
        path.parent.name: path.read_bytes()
        for path in (results / "checkpoints" / "minigo").glob("*/model.safetensors")
    }


def words(results: Path, workers: int, *more: str) -> list[str]:
    evaluation = {"eval_games": 2, "eval.games_per_group": 2, "eval.opponent_readouts": 1}
    settings = {**SMALL, **evaluation, "data.workers": workers, "checkpoint.interval_s": 0.01}
    asked = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [
        "train",
        "minigo",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--results",
        str(results),
        *asked,
        *more,
    ]


def position(results: Path) -> dict[str, object]:
    """The newest checkpoint's place in the run; nothing before the first."""
    state = results / ".podium" / "minigo" / "run_0"
    newest = max(list_checkpoint_numbers(state), default=None)
    try:
        found: dict[str, object] = json.loads(
            (state / f"at_{newest}" / "position.json").read_text()
        )
    except FileNotFoundError:
        return {}  # replaced by a newer one meanwhile
    return found


def in_its_games(results: Path) -> bool:
    """Whether the newest checkpoint lies between two groups of games of a generation that learns
    from earlier ones.
    """
    at = position(results)
    return (
        at.get("phase") == "inside"
        and int(str(at["epoch"])) >= 2
        and 0 < int(str(at["step"])) < GROUPS
    )


@pytest.mark.slow
def test_a_run_that_is_killed_in_a_generation_goes_on_to_the_same_weights(
    warm: Warm, tmp_path: Path
) -> None:
    """First its process that plays, as the kernel does when memory is short: temporary; then the
    run, with which that process must end.

    The run that is left alone plays in its own process.
    """
    child = warm.start(words(tmp_path / "killed", 1, "--seed", "3"))
    until(lambda: in_its_games(tmp_path / "killed"), 120)
    (player,) = [
        each
        for each in psutil.Process(child.pid).children()
        if any("spawn_main" in word for word in each.cmdline())
    ]
    player.kill()
    _, told = child.communicate(timeout=60)
    assert (
        child.returncode == 75
        and "a process that was playing games was killed" in told
        and "--resume" in told
    )
    lost = position(tmp_path / "killed")
    child = warm.start(words(tmp_path / "killed", 1, "--resume"))
    until(lambda: in_its_games(tmp_path / "killed") and position(tmp_path / "killed") != lost, 120)
    players = psutil.Process(child.pid).children(recursive=True)
    assert players
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert not (tmp_path / "killed" / "checkpoints").exists() and not list(
        (tmp_path / "killed").rglob("result_0.txt")
    ), "nothing may read as valid"
    until(lambda: not any(map(is_alive, players)), 240)
    ended = []
    for how in (
        words(tmp_path / "killed", 1, "--resume"),
        words(tmp_path / "whole", 0, "--seed", "3"),
    ):
        again = warm.start(how)
        _, told = again.communicate(timeout=300)
        assert "Traceback" not in told
        ended.append(again.returncode)
    assert ended[0] == ended[1] in (0, 1), (
        "0 or 1: whether so small a network reaches the target does not matter"
    )
    assert len(weights(tmp_path / "whole")) == 1
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_saves_the_generation(
    warm: Warm, tmp_path: Path, number: signal.Signals
) -> None:
    """As a terminal that closes or a scheduler sends it: the processes that play outlive it until
    their group of games is saved.
    """
    child = warm.start(words(tmp_path, 1, "--seed", "3"))
    until(lambda: in_its_games(tmp_path), 120)
    os.killpg(child.pid, number)
    _, told = child.communicate(timeout=60)
    assert (
        child.returncode == 128 + number
        and re.search("saved (in|after) epoch", told)
        and "Traceback" not in told
    )
