"""What a machine does to an honest run: busy loops, processes that stop for a while, and a wall
clock that is set.
"""

import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from podium_fakes import busy

CLOCK_FILE: Final = "PODIUM_HONEST_CLOCK"
"""Variable that names the file with the shift of the wall clock."""
PAUSES_S: Final = (0.3, 3.0)
"""A process stops so long after the last one went on."""
STOPS_S: Final = (0.05, 2.0)
STEPS_S: Final = (0.05, 30.0)
STEP_AFTER_S: Final = (1.0, 40.0)
SHIFT_FORMAT: Final = "<q"
GROUP_SHARE: Final = 0.3
"""Share of the stops that take all processes of a command at once, as a suspended machine does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What goes on beside one run."""

    loops: int
    stops: bool = False
    step: bool = False

    @property
    def name(self) -> str:
        """Its column in the table."""
        parts = [f"{self.loops} loops"]
        parts += ["stops"] if self.stops else []
        parts += ["clock step"] if self.step else []
        return ", ".join(parts)


class WallClock:
    """A library that shifts the wall clock of the processes which preload it; `why_not` says why
    there is none.
    """

    def __init__(self, folder: Path) -> None:
        self._library, self._file = folder / "wall_clock.so", folder / "shift"
        self.why_not = self._build()
        self.set_shift(0.0)

    def _build(self) -> str:
        """Compile the library; return why that failed."""
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            return "no C compiler here"
        source = Path(__file__).with_name("wall_clock.c")
        words = [compiler, "-O2", "-shared", "-fPIC", "-o", str(self._library), str(source), "-ldl"]
        built = subprocess.run(words, capture_output=True, text=True)
        return built.stderr.strip()[-200:] if built.returncode else ""

    def set_shift(self, seconds: float) -> None:
        """Set the clock of all processes that look at it."""
        data = struct.pack(SHIFT_FORMAT, round(seconds * 1e9))
        with self._file.open("r+b" if self._file.exists() else "w+b") as stream:
            stream.write(data)

    def environment(self) -> dict[str, str]:
        """Name the variables of a process whose clock is set."""
        return {"LD_PRELOAD": str(self._library), CLOCK_FILE: str(self._file)}


def draw_log_uniform(drawn: random.Random, bounds: tuple[float, float]) -> float:
    """Draw a duration; short ones are as likely as long ones."""
    low, high = bounds
    return float(low * (high / low) ** drawn.random())


@contextmanager
def disturb(
    groups: Sequence[subprocess.Popen[bytes]],
    disturbance: Disturbance,
    clock: WallClock,
    drawn: random.Random,
) -> Iterator[list[str]]:
    """Disturb these processes and their children while the block lasts; the list tells how."""
    over, told = threading.Event(), list[str]()
    works = [(stop_now_and_then, groups, random.Random(drawn.random()))] * disturbance.stops
    threads = [threading.Thread(target=work, args=(over, told, *rest)) for work, *rest in works]
    if disturbance.step:
        rest = (over, told, clock, random.Random(drawn.random()))
        threads.append(threading.Thread(target=step_clock, args=rest))
    for thread in threads:
        thread.start()
    try:
        yield told
    finally:
        over.set()
        for thread in threads:
            thread.join()


@contextmanager
def keep_busy(loops: int, limit_s: float) -> Iterator[None]:
    """Keep so many loops going."""
    with busy.loops([limit_s] * loops):
        yield


def stop_now_and_then(
    over: threading.Event,
    told: list[str],
    groups: Sequence[subprocess.Popen[bytes]],
    drawn: random.Random,
) -> None:
    """Stop one process or all of them, let them go on, and do it again."""
    begun = time.monotonic()
    while not over.wait(drawn.uniform(*PAUSES_S)):
        found = list_processes(groups)
        if not found:
            continue
        chosen = found if drawn.random() < GROUP_SHARE else [drawn.choice(found)]
        lasting_s = draw_log_uniform(drawn, STOPS_S)
        told.append(f"{time.monotonic() - begun:.2f} s: {len(chosen)} stopped {lasting_s:.2f} s")
        send_signal(chosen, signal.SIGSTOP)
        over.wait(lasting_s)
        send_signal(chosen, signal.SIGCONT)


def list_processes(groups: Sequence[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    """List the processes of the commands and their children."""
    found = list[psutil.Process]()
    for each in groups:
        with suppress(psutil.Error):
            leader = psutil.Process(each.pid)
            found += [leader, *leader.children(recursive=True)]
    return found


def send_signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send it to those that are still there."""
    for each in processes:
        with suppress(psutil.Error, ProcessLookupError):
            each.send_signal(number)


def step_clock(
    over: threading.Event, told: list[str], clock: WallClock, drawn: random.Random
) -> None:
    """Set the clock once, to the past or the future."""
    begun = time.monotonic()
    if over.wait(drawn.uniform(*STEP_AFTER_S)):
        return
    seconds = draw_log_uniform(drawn, STEPS_S) * drawn.choice((-1, 1))
    clock.set_shift(seconds)
    told.append(f"{time.monotonic() - begun:.2f} s: wall clock set by {seconds:+.2f} s")


def build_environment(clock: WallClock, step: bool, more: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a disturbed command."""
    return {**os.environ, **more, **(clock.environment() if step else {})}
