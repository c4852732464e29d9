"""What a user sees, and what it costs: a bar on a terminal, plain lines elsewhere, the loss asked
rarely.
"""

import io
import math
import re
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from harness import progress as module
from harness.progress import (
    Heartbeat,
    Progress,
    WaitProgress,
    format_clock_time,
    format_rough_duration,
)
from suite.console.screen import OutputLevel, print_progress_note
from suite.measurement.data_waiting import HostWaitTimer, MeasuredBatches


class Terminal(io.StringIO):
    """Claims to be one."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_elsewhere_there_is_one_line_an_epoch_and_one_an_evaluation(
    capsys: pytest.CaptureFixture[str],
):
    """A log file with ten thousand carriage returns is of no use."""
    with Progress("fake", 80, lambda: math.nan, {"top1": 0.759}) as progress:
        progress.begin_epoch(1, 0)
        for _ in range(10):
            progress.record_step(8)
        stats = progress.end_epoch(0.5)
        progress.show_scores(1, {"top1": 0.8, "other": 1.0})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("fake: epoch 1: ") and first.endswith("samples/s, loss 0.5000")
    assert (
        second == "fake: epoch 1: top1 0.8000 (target 0.7590), 0:00 elapsed"
        and stats["loss"] == 0.5
        and stats["throughput"] > 0
    )


def test_a_loss_that_is_no_number_is_null_in_the_log(capsys: pytest.CaptureFixture[str]):
    """NaN is no JSON."""
    assert (
        Progress("fake", 8, lambda: 0.0, {}).end_epoch(math.nan)["loss"] is None
        and "nan" in capsys.readouterr().out
    )


def test_waiting_for_data_is_measured_shown_and_logged(capsys: pytest.CaptureFixture[str]):
    """A loader that sleeps three quarters of the time is the limit, and the line says with what
    it loads.
    """

    def load_slowly() -> Iterator[int]:
        for number in range(20):
            time.sleep(0.03)
            yield number

    loading = "data.workers=1, 14 cores idle"
    with Progress("fake", 20, lambda: 0.5, {}, loading=loading) as progress:
        outer_began_s = time.monotonic()
        progress.begin_epoch(1, 0)
        worked_s, began_s = 0.0, time.monotonic()
        for number in MeasuredBatches(load_slowly(), HostWaitTimer()):
            before_s = time.monotonic()
            time.sleep(0.01)
            progress.record_step(number + 1)
            worked_s += time.monotonic() - before_s
        inner_s = time.monotonic() - began_s
        share = progress.end_epoch(0.5)["waited_for_data"]
        outer_s = time.monotonic() - outer_began_s
    assert 20 * 0.03 / outer_s - 1e-3 <= share <= (outer_s - worked_s) / inner_s + 1e-3
    shown = f"loss 0.5000, waited for data {100 * share:.0f} % of the time ({loading})\n"
    assert capsys.readouterr().out.endswith(shown)


def test_an_epoch_counts_no_waiting_of_others(capsys: pytest.CaptureFixture[str]):
    """What an earlier epoch or an evaluation waited for is not this epoch's."""
    with Progress("fake", 20, lambda: 0.5, {}) as progress:
        list(MeasuredBatches(iter([time.sleep(0.02)]), HostWaitTimer()))
        progress.begin_epoch(2, 0)
        time.sleep(0.02)
        assert progress.end_epoch(0.5)["waited_for_data"] == 0.0
    assert "waited" not in capsys.readouterr().out


def test_other_ranks_are_silent(capsys: pytest.CaptureFixture[str]):
    """Eight ranks would print everything eight times."""
    with Progress("fake", 8, lambda: 0.0, {}, silent=True) as progress:
        progress.begin_epoch(1, 0)
        progress.record_step(8)
        progress.end_epoch(1.0)
        progress.show_scores(1, {})
    assert capsys.readouterr().out == ""


def test_the_loss_is_asked_rarely(monkeypatch: pytest.MonkeyPatch):
    """It synchronises the device: each step would wait for the one before."""
    asked = []
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Progress("fake", 8000, lambda: asked.append(1) or 0.25, {}) as progress:
        progress.begin_epoch(1, 0)
        for _ in range(1000):
            now[0] += 0.02
            progress.record_step(8)
        assert 2 <= len(asked) <= 4
        progress.end_epoch(0.5)
    shown = sys.stdout.getvalue()
    assert "loss 0.2500" in shown and "samples/s" in shown and "epoch 1" in shown


def test_without_a_terminal_there_is_a_line_every_thirty_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A batch job over ImageNet printed nothing for an hour: it looked hung. The time left counts
    to the last epoch allowed.
    """
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Progress("fake", 1000, lambda: 0.25, {"top1": 0.759}, max_epochs=4) as progress:
        progress.begin_epoch(2, 0)
        for step in range(1, 66):
            now[0] += 1.0
            progress.record_step(10 * step)
    first, second = capsys.readouterr().out.splitlines()
    assert (
        first
        == "fake: epoch 2/4, 300/1,000 samples, 10.0 samples/s, loss 0.2500, 0:30 elapsed, at most"
        " 4:30 left"
    )
    assert second.endswith(
        "600/1,000 samples, 10.0 samples/s, loss 0.2500, 1:00 elapsed, at most 4:00 left"
    )


def test_the_bar_names_epochs_target_and_times(monkeypatch: pytest.MonkeyPatch):
    """Who looks at it wants to know how far it is, where it ends, and when."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm")  # rich takes 80 columns where it is dumb
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Progress("fake", 100, lambda: 0.25, {"top1": 0.759}, max_epochs=4) as progress:
        progress.begin_epoch(1, 0)
        now[0] = 20.0
        progress.record_step(50)
        progress.show_evaluation()
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sys.stdout.getvalue())
    assert (
        "epoch 1/4" in shown
        and "top1 to 0.759, 0:20 elapsed, at most 2:20 left" in shown
        and "epoch 1/4, evaluating" in shown
    )


def test_a_loadgen_run_says_how_long_it_lasts_and_what_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Minutes without a word."""
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with WaitProgress("SingleStream performance", 60.0) as waiting:
        for _ in range(95):
            now[0] += 1.0
            waiting.show_elapsed()
    assert capsys.readouterr().out.splitlines() == [
        "SingleStream performance, at least 60 s",
        "SingleStream performance: 0:30 elapsed, at least 0:30 left",
        "SingleStream performance: 1:00 elapsed",
        "SingleStream performance: 1:30 elapsed",
    ]


def test_silence_is_broken_whatever_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A call that lasts minutes looks hung; lines that come by themselves are not doubled."""
    monkeypatch.setattr(module, "HEARTBEAT_S", 1.0)  # a busy machine is silent for a moment, too
    with Heartbeat():
        print_progress_note("fake: building the model")
        time.sleep(2.5)
        for _ in range(8):
            print_progress_note("fake: at work", "fake")
            time.sleep(0.1)
    with Heartbeat(silent=True):
        time.sleep(1.5)
    assert capsys.readouterr().out.splitlines() == [
        "fake: building the model",
        *["fake: building the model: 0:01 so far", "fake: building the model: 0:02 so far"],
        *["fake: at work"] * 8,
    ]


def test_a_phase_shows_within_ten_seconds_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The first answer of a slow server showed nothing for half a minute; once a phase has shown a
    line of its own, only long silence is broken.
    """
    assert module.FIRST_BEAT_S < 10
    monkeypatch.setattr(module, "FIRST_BEAT_S", 0.3)
    with Heartbeat():
        print_progress_note("fake: asking", "fake: asking")
        time.sleep(0.8)
        print_progress_note("fake: at work", "fake")
        print_progress_note("fake: still at work", "fake")
        time.sleep(0.8)
        print_progress_note("fake: scoring", "fake: scoring")
        time.sleep(1.0)
    assert capsys.readouterr().out.splitlines() == [
        *["fake: asking", "fake: asking: 0:00 so far", "fake: at work", "fake: still at work"],
        *["fake: scoring", "fake: scoring: 0:00 so far"],
    ]


def test_quiet_says_nothing_of_what_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Results and errors alone, on a terminal too."""
    monkeypatch.setattr(module, "get_output_level", lambda: OutputLevel(quiet=True))
    monkeypatch.setattr("suite.console.screen.get_output_level", lambda: OutputLevel(quiet=True))
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.0)
    with (
        Heartbeat(),
        Progress("fake", 8, lambda: 0.0, {}) as progress,
        WaitProgress("Offline accuracy", 1.0) as waiting,
    ):
        progress.begin_epoch(1, 0)
        progress.record_step(8)
        progress.end_epoch(1.0)
        progress.show_scores(1, {})
        waiting.show_elapsed()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("seconds", "short", "words"),
    [
        (0.2, "0:00", "1 s"),
        (59.6, "1:00", "60 s"),
        (600, "10:00", "10 min"),
        (3725, "1:02:05", "62 min"),
    ],
)
def test_durations_are_spelled_for_people(seconds: float, short: str, words: str):
    assert (format_clock_time(seconds), format_rough_duration(seconds)) == (short, words)
