"""Starts the sampler's process before a run, or takes the idle one of the last run; it never delays
a run for long, and its failure never fails the run.
"""

import atexit
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

import msgspec

from harness.machine.telemetry.sampled import Opening, Plan
from harness.machine.telemetry.sampler import DONE, PAUSE, READY, STOP
from suite.files.layout import PARTIAL
from suite.process.devices import members, ordinal
from suite.process.launcher import from_environment

START_S: Final = 20.0
"""Time limit until the sampler is ready; before any clock. On an idle machine it takes a third of a
second.
"""
STOP_S: Final = 20.0
MODULE: Final = "harness.machine.telemetry"
SILENT: Final = "the sampler does not answer"
TAIL: Final = 1 << 14
"""Bytes of what it printed in which its last line is looked for."""


class Inherited(NamedTuple):
    """What a process takes over from the one that starts it, which sources may look at: where any
    of it has changed, the idle one is not used again.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cores: frozenset[int]
    folder: tuple[int, int]
    """Device and inode of the working directory."""


def surroundings() -> Inherited:
    """Return what a process started now would inherit."""
    here = os.stat(".")  # noqa: PTH116  # works in a folder that was deleted
    command = (sys.executable, "-P", "-m", MODULE)
    return Inherited(
        command, environment(), frozenset(os.sched_getaffinity(0)), (here.st_dev, here.st_ino)
    )


class Process:
    """A process that samples one run after another."""

    def __init__(self, inherited: Inherited) -> None:
        """Start it, in a session of its own, so that it receives no signals from the terminal."""
        self.inherited = inherited
        self.complaints = TemporaryFile()  # noqa: SIM115  # no pipe: what sources print during many runs would fill it
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self.complaints,
        }
        self.popen = subprocess.Popen(
            inherited.command, env=inherited.environment, start_new_session=True, bufsize=0, **pipes
        )

    def ask(self, words: bytes, limit_s: float) -> bytes | None:
        """Send it a message and wait for the answer; b"" if it has ended, None after the limit."""
        assert self.popen.stdin is not None and self.popen.stdout is not None
        with suppress(BrokenPipeError):  # reading tells so, too
            self.popen.stdin.write(words)
        readable, _, _ = select.select([self.popen.stdout], [], [], limit_s)
        return os.read(self.popen.stdout.fileno(), 64) if readable else None

    def reason(self, answer: bytes | None) -> str:
        """Describe why it gave no answer, or another one: its own last line, or the signal that
        ended it.
        """
        if answer != b"":
            return SILENT
        try:
            code = self.popen.wait(STOP_S)
        except subprocess.TimeoutExpired:
            return SILENT
        self.complaints.seek(max(0, self.complaints.seek(0, os.SEEK_END) - TAIL))
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        return (
            lines[-1]
            if lines and code > 0
            else (
                f"the sampler was ended by signal {-code}"
                if code < 0
                else f"the sampler ended with exit status {code}"
            )
        )

    def kill(self) -> None:
        """End it by force; at the end of its pipe it might not end, which a fork may hold open."""
        self.popen.kill()
        with self.popen, self.complaints:
            pass


IDLE: Final[dict[int, Process]] = {}
"""What waits for this process's next run, by its id: a fork does not take its parent's. A start
costs a sixth of a second of CPU time, and an audited
campaign has dozens of runs."""


def idle(inherited: Inherited) -> Process | None:
    """Take the idle process, if it lives and would be started like this today; else end it."""
    found = IDLE.pop(os.getpid(), None)
    if found is not None and (found.inherited != inherited or found.popen.poll() is not None):
        found.kill()
        return None
    return found


def keep(process: Process) -> None:
    """Keep a process for the next run; of two that ran side by side, the later one."""
    dismiss()
    IDLE[os.getpid()] = process


@atexit.register
def dismiss() -> None:
    """End the idle process."""
    if found := IDLE.pop(os.getpid(), None):
        found.kill()


class Sampler:
    """The sampler of one run; after `end`, `lost` gives the reasons for missing telemetry."""

    def __init__(self, plan: Plan) -> None:
        """Give the plan to the idle process, or to a new one, and wait until it samples."""
        self.path = Path(plan.path)
        self.lost: tuple[str, ...] = ()
        self.process: Process | None = None
        try:
            self.start(msgspec.json.encode(plan) + b"\n", surroundings())
        except OSError as error:
            self.give_up(error.strerror or str(error))

    def start(self, plan: bytes, inherited: Inherited) -> None:
        """Find a process that is ready; an idle one that is not costs nothing but time."""
        if before := idle(inherited):
            if before.ask(plan, START_S) == READY:
                self.process = before
                return
            before.kill()
        self.process = Process(inherited)
        if (answer := self.process.ask(plan, START_S)) != READY:
            self.give_up(self.process.reason(answer))

    def finish(self) -> None:
        """End it and complete its file."""
        self.end(STOP)

    def pause(self) -> None:
        """End it; the file is continued when the run resumes."""
        self.end(PAUSE)

    def discard(self) -> None:
        """End it and delete its file: no run has started."""
        self.end(PAUSE)
        self.remove()

    def end(self, word: bytes) -> None:
        """Send the word, and wait until the last line is written; do nothing after the first
        call.
        """
        if self.process is None:
            return
        process, self.process = (
            self.process,
            None,
        )  # a signal from here on must not have a second word said
        if (answer := process.ask(word, STOP_S)) == DONE:
            keep(process)
            return
        self.process = process
        self.give_up(process.reason(answer))

    def give_up(self, why: str) -> None:
        """Continue without telemetry, and record why."""
        if self.process is not None:
            self.process.kill()
        self.process = None
        self.lost = (f"{self.path.name} is lost: {why}",)
        self.remove()

    def remove(self) -> None:
        """Delete an incomplete file."""
        for path in (self.path, self.path.with_name(self.path.name + PARTIAL)):
            path.unlink(missing_ok=True)


def environment() -> dict[str, str]:
    """Return the sampler's environment: this process's import path, to which no working directory
    is added, and all GPUs visible.
    """
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def plan_for(
    path: Path, device: str, more: Sequence[Opening] = (), *, goes_on: bool = False
) -> Plan:
    """Plan this node's sampling: the host, the GPUs of its ranks, and `more`."""
    ranks = from_environment("LOCAL_WORLD_SIZE", 1)
    root_pid = (
        os.getpid() if ranks == 1 else os.getppid()
    )  # torchrun's agent started all ranks of the node
    openings = [Opening(function=f"{MODULE}.host:open_host", options={"root_pid": root_pid})]
    if device.startswith("cuda"):
        ordinals = (
            [ordinal(each) for each in members(device) or ()] if ranks == 1 else list(range(ranks))
        )
        openings.append(
            Opening(function=f"{MODULE}.gpus:open_gpus", options={"ordinals": ordinals})
        )
    return Plan(path=str(path.absolute()), sources=(*openings, *more), goes_on=goes_on)


@contextmanager
def sampling(path: Path, device: str, more: Sequence[Opening] = ()) -> Iterator[Sampler]:
    """Sample while the block runs; an exception in the block discards the samples."""
    sampler = Sampler(plan_for(path, device, more))
    try:
        yield sampler
    except BaseException:
        sampler.discard()
        raise
    sampler.finish()
