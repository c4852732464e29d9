"""What a user sees of a training run: a progress bar on a terminal, plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

import click

REFRESH_S: Final = 0.5
LOSS_EVERY_S: Final = 5.0  # asking for the loss may synchronise the device


class Progress(AbstractContextManager["Progress"]):
    """Counts samples, measures throughput, and tells about it; silent on all ranks but the first."""

    def __init__(self, name: str, samples_per_epoch: int, loss: Callable[[], float], targets: Mapping[str, float], silent: bool = False) -> None:
        """`loss` is asked rarely; `samples_per_epoch` sizes the bar."""
        self._name, self._total, self._loss, self._targets, self._silent = name, samples_per_epoch, loss, targets, silent
        self._bar = None if silent or not sys.stdout.isatty() else Bar(samples_per_epoch)
        self._epoch = self._samples = self._earlier = 0
        self._began_s = self._shown_s = self._asked_s = time.monotonic()
        self._last_loss = math.nan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar:
            self._bar.close()

    def begin(self, epoch: int, samples: int) -> None:
        """An epoch begins, or goes on after so many samples of it."""
        self._epoch, self._samples, self._earlier = epoch, samples, samples
        self._began_s = time.monotonic()
        if self._bar:
            self._bar.show(f"epoch {epoch}", samples, math.nan, math.nan)

    def step(self, samples: int) -> None:
        """After an optimizer step: so many samples of the epoch are done."""
        self._samples = samples
        if self._bar:
            self._show(self._bar)

    def _show(self, bar: "Bar") -> None:
        now = time.monotonic()
        if now - self._shown_s < REFRESH_S:
            return
        self._shown_s = now
        if now - self._asked_s >= LOSS_EVERY_S:
            self._asked_s, self._last_loss = now, self._loss()
        bar.show(f"epoch {self._epoch}", self._samples, (self._samples - self._earlier) / (now - self._began_s), self._last_loss)

    def end(self, loss: float) -> dict[str, float | None]:
        """An epoch ends: give throughput in samples per second, and the loss (null where it is no number)."""
        rate = (self._samples - self._earlier) / max(time.monotonic() - self._began_s, 1e-9)
        self._last_loss = loss
        self._say(f"epoch {self._epoch}: {rate:,.1f} samples/s, loss {loss:.4f}")
        return {"throughput": round(rate, 3), "loss": loss if math.isfinite(loss) else None}

    def evaluated(self, epoch: int, scores: Mapping[str, float]) -> None:
        """An evaluation is done."""
        found = ", ".join(f"{metric} {value:.4f} (target {self._targets[metric]:.4f})" for metric, value in scores.items() if metric in self._targets)
        self._say(f"epoch {epoch}: {found}")

    def _say(self, text: str) -> None:
        if self._bar:
            self._bar.say(f"{self._name}: {text}")
        elif not self._silent:
            click.echo(f"{self._name}: {text}")


class Bar:
    """A bar of rich, drawn only when told to: no thread of its own inside the clock."""

    def __init__(self, total: int) -> None:
        """Draw an empty bar of `total` samples."""
        from rich.progress import BarColumn, Progress, TextColumn

        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[speed]}")
        self._rich = Progress(*columns, auto_refresh=False, transient=True)
        self._task = self._rich.add_task("starting", total=total, speed="")
        self._rich.start()

    def show(self, title: str, samples: int, rate: float, loss: float) -> None:
        """Draw."""
        speed = (f"{rate:,.1f} samples/s" if math.isfinite(rate) else "") + (f"  loss {loss:.4f}" if math.isfinite(loss) else "")
        self._rich.update(self._task, description=title, completed=samples, speed=speed)
        self._rich.refresh()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._rich.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._rich.stop()
