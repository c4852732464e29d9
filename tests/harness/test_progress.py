"""What a user sees, and what it costs: a bar on a terminal, plain lines elsewhere, the loss asked rarely."""

import io
import math
import sys

import pytest

from harness import progress as module
from harness.progress import Progress


class Terminal(io.StringIO):
    """Claims to be one."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_elsewhere_there_is_one_line_an_epoch_and_one_an_evaluation(capsys: pytest.CaptureFixture[str]):
    """A log file with ten thousand carriage returns is of no use."""
    with Progress("fake", 80, lambda: math.nan, {"top1": 0.759}) as progress:
        progress.begin(1, 0)
        for _ in range(10):
            progress.step(8)
        stats = progress.end(0.5)
        progress.evaluated(1, {"top1": 0.8, "other": 1.0})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("fake: epoch 1: ") and first.endswith("samples/s, loss 0.5000")
    assert second == "fake: epoch 1: top1 0.8000 (target 0.7590)" and stats["loss"] == 0.5 and stats["throughput"] > 0


def test_a_loss_that_is_no_number_is_null_in_the_log(capsys: pytest.CaptureFixture[str]):
    """NaN is no JSON."""
    assert Progress("fake", 8, lambda: 0.0, {}).end(math.nan)["loss"] is None and "nan" in capsys.readouterr().out


def test_other_ranks_are_silent(capsys: pytest.CaptureFixture[str]):
    """Eight ranks would print everything eight times."""
    with Progress("fake", 8, lambda: 0.0, {}, silent=True) as progress:
        progress.begin(1, 0)
        progress.step(8)
        progress.end(1.0)
        progress.evaluated(1, {})
    assert capsys.readouterr().out == ""


def test_the_loss_is_asked_rarely(monkeypatch: pytest.MonkeyPatch):
    """It synchronises the device: each step would wait for the one before."""
    asked = []
    monkeypatch.setattr(sys, "stdout", Terminal())
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    with Progress("fake", 8000, lambda: asked.append(1) or 0.25, {}) as progress:
        progress.begin(1, 0)
        for _ in range(1000):
            now[0] += 0.02
            progress.step(8)
        assert 2 <= len(asked) <= 4
        progress.end(0.5)
    shown = sys.stdout.getvalue()
    assert "loss 0.2500" in shown and "samples/s" in shown and "epoch 1" in shown
