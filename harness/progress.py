"""Progress output of a training or LoadGen run: a bar on a terminal, a line every 30 s
elsewhere.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

import click

from suite.console.screen import ACTIVITY, get_output_level, print_progress_note
from suite.measurement.data_waiting import DATA_WAITING, WAITED_FOR_DATA
from suite.rounds.quality import format_target_value

BAR_REFRESH_S: Final = 0.5
LINE_EVERY_S: Final = 30.0
"""Interval without a terminal: often enough to show that a job has not hung."""
HEARTBEAT_S: Final = LINE_EVERY_S + 2.0
"""Silence after which a line is printed whatever goes on; the regular line comes with the end of a
step, and is to come first where steps are short.
"""
FIRST_BEAT_S: Final = 9.0
"""The same at the begin of a phase, of which nothing but its name was shown: nobody waits for more
than 10 s without a sign.
"""
SHOWN_WAITING_SHARE: Final = 0.1
"""House rule: steps that wait for data a tenth of the time are limited by their loader."""
LOSS_EVERY_S: Final = 5.0  # reading the loss may synchronise the device


class Heartbeat(AbstractContextManager["Heartbeat"]):
    """Prints a line within 10 s of a phase's begin, and whenever a command has shown nothing for
    half a minute: in a long step, while a model is built or restored, while a server is asked.

    A thread that sleeps: a step may be one long call. It wakes every nine seconds, and computes
    nothing.
    """

    def __init__(self, *, silent: bool = False) -> None:
        """`silent`: on all ranks but the first."""
        # click finds the command only in the command's own thread
        self._silent = silent or get_output_level().quiet
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._break_silence, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        ACTIVITY.mark_shown("starting")
        if not self._silent:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        if not self._silent:
            self._thread.join()

    def _break_silence(self) -> None:
        longest_s = left_s = min(FIRST_BEAT_S, HEARTBEAT_S)
        while not self._ended.wait(min(max(left_s, 0.01), longest_s)):
            now = time.monotonic()
            is_new = ACTIVITY.shown_s == ACTIVITY.began_s
            left_s = ACTIVITY.shown_s + (longest_s if is_new else HEARTBEAT_S) - now
            if left_s <= 0:
                left_s = longest_s
                ACTIVITY.mark_shown(ACTIVITY.phase)
                click.echo(f"{ACTIVITY.phase}: {format_clock_time(now - ACTIVITY.began_s)} so far")


class Progress(AbstractContextManager["Progress"]):
    """Counts samples, measures throughput and prints both; silent on all ranks but the first."""

    def __init__(
        self,
        name: str,
        samples_per_epoch: int,
        loss: Callable[[], float],
        targets: Mapping[str, float],
        silent: bool = False,
        max_epochs: int = 0,
        lower_is_better: Collection[str] = (),
        loading: str = "",
    ) -> None:
        """`loss` is called rarely; `samples_per_epoch` sizes the bar; `max_epochs` enables the
        estimate of the longest time left; `lower_is_better` names targets reached at most;
        `loading` says with what data are loaded, where steps wait for them.
        """
        self._name, self._total, self._loss, self._targets, self._silent = (
            name,
            samples_per_epoch,
            loss,
            targets,
            silent,
        )
        self._max_epochs, self._lower, self._loading = max_epochs, lower_is_better, loading
        self._waited_before_s = DATA_WAITING.waited_s
        quiet = silent or get_output_level().quiet
        if quiet or not sys.stdout.isatty():
            self._bar = None
        else:
            self._bar = ProgressBar(samples_per_epoch)
        if quiet:
            self._every_s = math.inf
        elif self._bar:
            self._every_s = BAR_REFRESH_S
        else:
            self._every_s = LINE_EVERY_S
        self._epoch = self._samples = self._earlier = self._before = 0
        self._opened_s = self._began_s = self._shown_s = self._asked_s = time.monotonic()
        self._last_loss = math.nan

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.close()

    def begin_epoch(self, epoch: int, samples: int) -> None:
        """Begin an epoch, or continue one after `samples` of its samples."""
        self._epoch, self._samples, self._earlier = epoch, samples, samples
        self._began_s, self._waited_before_s = time.monotonic(), DATA_WAITING.waited_s
        self._show_phase(self._format_title())
        if self._bar:
            self._bar.show_progress(self._format_title(), samples, self._format_times())

    def record_step(self, samples: int) -> None:
        """Record an optimizer step: `samples` of the epoch are done."""
        self._samples = samples
        now = time.monotonic()
        if now - self._shown_s < self._every_s:
            return
        self._shown_s = now
        if now - self._asked_s >= LOSS_EVERY_S:
            self._asked_s, self._last_loss = now, self._loss()
        self._show_rate((self._samples - self._earlier) / max(now - self._began_s, 1e-9))

    def _show_rate(self, rate: float) -> None:
        loss = ""
        if math.isfinite(self._last_loss):
            loss = f", loss {self._last_loss:.4f}"
        self._show_phase(self._format_title())
        if self._bar:
            self._bar.show_progress(
                self._format_title(),
                self._samples,
                f"{rate:,.1f} samples/s{loss}{self._format_targets()}, {self._format_times()}",
            )
        else:
            self._print_line(
                f"{self._format_title()}, {self._samples:,}/{self._total:,} samples, {rate:,.1f}"
                f" samples/s{loss}{self._format_waiting(self._measure_waiting_share())}"
                f", {self._format_times()}"
            )

    def _measure_waiting_share(self) -> float:
        """Return the share of the epoch's time in which steps waited for data, 0-1."""
        waited_s = DATA_WAITING.waited_s - self._waited_before_s
        return min(1.0, waited_s / max(time.monotonic() - self._began_s, 1e-9))

    def _format_waiting(self, share: float) -> str:
        if share < SHOWN_WAITING_SHARE:
            return ""
        loading = f" ({self._loading})" if self._loading else ""
        return f", waited for data {100 * share:.0f} % of the time{loading}"

    def _format_title(self) -> str:
        return f"epoch {self._epoch}" + (f"/{self._max_epochs}" if self._max_epochs else "")

    def _format_targets(self) -> str:
        return "".join(f", {metric} to {target:g}" for metric, target in self._targets.items())

    def _format_times(self) -> str:
        """Format elapsed time and the upper bound of time left: a run ends at its target.
        Evaluations count as measured time.
        """
        gone_s = time.monotonic() - self._opened_s
        done = self._before + self._samples - self._earlier
        left = (self._max_epochs - self._epoch + 1) * self._total - self._samples
        elapsed = f"{format_clock_time(gone_s)} elapsed"
        if done and self._max_epochs:
            return f"{elapsed}, at most {format_clock_time(gone_s * left / done)} left"
        return elapsed

    def end_epoch(self, loss: float) -> dict[str, float | None]:
        """End an epoch; return throughput in samples/s, the loss (null if not finite), and the
        share of the time in which this rank's steps waited for data.
        """
        rate = (self._samples - self._earlier) / max(time.monotonic() - self._began_s, 1e-9)
        waiting_share = round(self._measure_waiting_share(), 4)
        self._last_loss = loss
        self._before += self._samples - self._earlier
        self._earlier = self._samples
        self._print_line(
            f"{self._format_title()}: {rate:,.1f} samples/s, loss {loss:.4f}"
            f"{self._format_waiting(waiting_share)}"
        )
        return {
            "throughput": round(rate, 3),
            "loss": loss if math.isfinite(loss) else None,
            WAITED_FOR_DATA: waiting_share,
        }

    def _show_phase(self, title: str) -> None:
        if not self._silent:
            ACTIVITY.mark_shown(f"{self._name}: {title}")

    def show_evaluation(self) -> None:
        """Show that an evaluation begins."""
        self._show_phase(f"{self._format_title()}, evaluating")
        if self._bar:
            self._bar.show_progress(
                f"{self._format_title()}, evaluating", self._samples, self._format_times()
            )

    def show_scores(self, epoch: int, scores: Mapping[str, float]) -> None:
        """Show an evaluation's scores."""
        goals = {
            metric: format_target_value(metric, f"{target:.4f}", self._lower)
            for metric, target in self._targets.items()
        }
        found = ", ".join(
            f"{metric} {value:.4f} (target {goals[metric]})"
            for metric, value in scores.items()
            if metric in goals
        )
        self._print_line(f"epoch {epoch}: {found}, {self._format_times()}")

    def _print_line(self, text: str) -> None:
        if self._bar:
            self._bar.print_line(f"{self._name}: {text}")
        elif not self._silent:
            print_progress_note(f"{self._name}: {text}", f"{self._name}: {self._format_title()}")


class WaitProgress(AbstractContextManager["WaitProgress"]):
    """A step without progress of its own: prints the expected duration first, then elapsed and
    remaining time.
    """

    def __init__(self, title: str, least_s: float, *, about: bool = False) -> None:
        """`least_s` is the minimum duration of the step, or an estimate with `about`."""
        self._title, self._least_s, self._word = title, least_s, "about" if about else "at least"
        self._bar = None
        if sys.stdout.isatty() and not get_output_level().quiet:
            self._bar = ProgressBar(max(round(least_s), 1))
        self._began_s = self._shown_s = time.monotonic()

    def __enter__(self) -> Self:
        text = f"{self._title}, {self._word} {format_rough_duration(self._least_s)}"
        ACTIVITY.mark_shown(self._title)
        if self._bar:
            self._bar.print_line(text)
        else:
            print_progress_note(text, self._title)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.close()

    def show_elapsed(self) -> None:
        """Draw, or print a line every 30 s; called about once a second."""
        now = time.monotonic()
        if self._bar is None and now - self._shown_s < LINE_EVERY_S:
            return
        self._shown_s = now
        gone_s = now - self._began_s
        left = ""
        if gone_s < self._least_s:
            left = f", {self._word} {format_clock_time(self._least_s - gone_s)} left"
        ACTIVITY.mark_shown(self._title)
        if self._bar:
            self._bar.show_progress(
                self._title,
                min(round(gone_s), round(self._least_s)),
                f"s, {format_clock_time(gone_s)} elapsed{left}",
            )
        else:
            print_progress_note(
                f"{self._title}: {format_clock_time(gone_s)} elapsed{left}", self._title
            )


def format_clock_time(seconds: float) -> str:
    """Format a duration as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
    return f"{minutes}:{rest:02}"


def format_rough_duration(seconds: float) -> str:
    """Format a duration in words: 60 s, 10 min."""
    if seconds < 120:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min"


class ProgressBar:
    """A rich progress bar, drawn only on request: it runs no thread inside the clock."""

    def __init__(self, total: int) -> None:
        """Draw an empty bar of `total` samples or seconds."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(20),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("{task.fields[more]}"),
        )
        self._rich = Progress(*columns, console=Console(), auto_refresh=False, transient=True)
        self._task = self._rich.add_task("starting", total=total, more="")
        self._rich.start()

    def show_progress(self, title: str, done: int, more: str) -> None:
        """Draw."""
        self._rich.update(self._task, description=title, completed=done, more=more)
        self._rich.refresh()

    def print_line(self, text: str) -> None:
        """Print a line above the bar."""
        self._rich.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        """Restore the terminal."""
        self._rich.stop()
