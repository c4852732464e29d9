"""Starts the sampler's process before a run, or takes the idle one of the last run; it never delays a run for long, and its failure never fails the run."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from harness.machine.telemetry.sampled import Opening, Plan
from harness.machine.telemetry.sampler import DONE, PAUSE, READY, STOP
from suite.files.layout import PARTIAL
from suite.process.devices import members, ordinal
from suite.process.launcher import from_environment

START_S: Final = 20.0
"""Time limit until the sampler is ready; before any clock. On an idle machine it takes a third of a second."""
STOP_S: Final = 20.0
MODULE: Final = "harness.machine.telemetry"


class Sampler:
    """A sampler's process for one run; after `end`, `lost` gives the reasons for missing telemetry."""

    def __init__(self, plan: Plan) -> None:
        """Start it, or take the idle one, and wait until it samples."""
        self.path = Path(plan.path)
        self.lost: tuple[str, ...] = ()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.inherited = surroundings()
            self.process = idle(self.inherited) or started(self.inherited)
            self.say(msgspec.json.encode(plan) + b"\n")
            self.wait()
        except OSError as error:
            self.give_up(error.strerror or str(error))

    def wait(self) -> None:
        """Wait until it is ready; if it ended at once, read why."""
        answer = self.answer(START_S)
        if answer is None:
            self.give_up("the sampler did not start")
        elif answer != READY:
            self.end(STOP)

    def answer(self, limit_s: float) -> bytes | None:
        """Wait for its answer; b"" if it has ended, None after the limit."""
        assert self.process is not None and self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], limit_s)
        return os.read(self.process.stdout.fileno(), 64) if readable else None

    def say(self, words: bytes) -> None:
        """Send it a message."""
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(words)
        self.process.stdin.flush()

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
        """Send the word, and wait until the last line is written; do nothing after the first call."""
        if self.process is None:
            return
        with suppress(OSError):
            self.say(word)
        if (answer := self.answer(STOP_S)) is None:
            self.give_up("the sampler does not answer")
        elif answer != DONE:
            _, told = self.process.communicate()
            self.give_up(reason(told, self.process.returncode))
        else:
            keep(Idle(self.inherited, self.process))
            self.process = None

    def give_up(self, why: str) -> None:
        """Continue without telemetry, and record why."""
        if self.process is not None:
            self.process.kill()
            with suppress(OSError, ValueError):
                self.process.communicate()
        self.process = None
        self.lost = (f"{self.path.name} is lost: {why}",)
        self.remove()

    def remove(self) -> None:
        """Delete an incomplete file."""
        for path in (self.path, self.path.with_name(self.path.name + PARTIAL)):
            path.unlink(missing_ok=True)


class Inherited(NamedTuple):
    """What a process takes over from the one that starts it, which sources may look at: where any of it has changed, the idle one is not used again."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cores: frozenset[int]
    folder: tuple[int, int]
    """Device and inode of the working directory."""


class Idle(NamedTuple):
    """A process that waits for another plan."""

    inherited: Inherited
    process: subprocess.Popen[bytes]


IDLE: Final[dict[int, Idle]] = {}
"""That of this process, by its id: a fork does not take its parent's. A start costs a sixth of a second of CPU time, and an audited campaign has 44 runs."""


def surroundings() -> Inherited:
    """Return what a process started now would inherit."""
    here = os.stat(".")  # noqa: PTH116  # works in a folder that was deleted
    command = (sys.executable, "-P", "-m", MODULE)
    return Inherited(command, environment(), frozenset(os.sched_getaffinity(0)), (here.st_dev, here.st_ino))


def idle(inherited: Inherited) -> "subprocess.Popen[bytes] | None":
    """Take the idle process, if it lives and would be started like this today; else end it."""
    found = IDLE.pop(os.getpid(), None)
    if found is None:
        return None
    if found.inherited == inherited and found.process.poll() is None:
        return found.process
    dismiss(found)
    return None


def keep(idle: Idle) -> None:
    """Keep a process for the next run; of two that ran side by side, the later one."""
    if before := IDLE.pop(os.getpid(), None):
        dismiss(before)
    IDLE[os.getpid()] = idle


def dismiss(idle: Idle) -> None:
    """End an idle process; at the end of its pipe it might not end, which a fork may hold open."""
    idle.process.kill()
    idle.process.communicate()


def started(inherited: Inherited) -> "subprocess.Popen[bytes]":
    """Start a process, in a session of its own, so that it receives no signals from the terminal."""
    pipe = subprocess.PIPE
    return subprocess.Popen(inherited.command, stdin=pipe, stdout=pipe, stderr=pipe, env=inherited.environment, start_new_session=True)


def reason(told: bytes, code: int) -> str:
    """Describe why a sampler ended: its own last line, or the signal."""
    lines = told.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines and code > 0 else f"the sampler was ended by signal {-code}" if code < 0 else f"the sampler ended with exit status {code}"


def environment() -> dict[str, str]:
    """Return the sampler's environment: this process's import path, to which no working directory is added, and all GPUs visible."""
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def plan_for(path: Path, device: str, more: Sequence[Opening] = (), *, goes_on: bool = False) -> Plan:
    """Plan this node's sampling: the host, the GPUs of its ranks, and `more`."""
    ranks = from_environment("LOCAL_WORLD_SIZE", 1)
    root_pid = os.getpid() if ranks == 1 else os.getppid()  # torchrun's agent started all ranks of the node
    openings = [Opening(function=f"{MODULE}.host:open_host", options={"root_pid": root_pid})]
    if device.startswith("cuda"):
        ordinals = [ordinal(each) for each in members(device) or ()] if ranks == 1 else list(range(ranks))
        openings.append(Opening(function=f"{MODULE}.gpus:open_gpus", options={"ordinals": ordinals}))
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
