"""Starts the sampler's process before a run and ends it afterwards; it never delays a run for long, and its failure never fails the run."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from harness.machine.telemetry.sampled import Opening, Plan
from harness.machine.telemetry.sampler import PAUSE, READY, STOP
from suite.files.layout import PARTIAL
from suite.process.devices import members, ordinal
from suite.process.launcher import from_environment

START_S: Final = 20.0
"""Time limit until the sampler is ready; before any clock. On an idle machine it takes a third of a second."""
STOP_S: Final = 20.0
MODULE: Final = "harness.machine.telemetry"


class Sampler:
    """A sampler's process; after `end`, `lost` gives the reasons for missing telemetry."""

    def __init__(self, plan: Plan) -> None:
        """Start it, and wait until it samples."""
        self.path = Path(plan.path)
        self.lost: tuple[str, ...] = ()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            # its own session, so that it receives no signals from the terminal
            pipe = subprocess.PIPE
            command = [sys.executable, "-P", "-m", MODULE]
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(), start_new_session=True)
            self.say(msgspec.json.encode(plan) + b"\n")
            self.wait()
        except OSError as error:
            self.give_up(error.strerror or str(error))

    def wait(self) -> None:
        """Wait until it is ready; if it ended at once, read why."""
        assert self.process is not None and self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], START_S)
        if not readable:
            self.give_up("the sampler did not start")
        elif os.read(self.process.stdout.fileno(), 64) != READY:
            self.end(STOP)

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
        try:
            _, told = self.process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self.give_up("the sampler does not answer")
            return
        if self.process.returncode:
            self.give_up(reason(told, self.process.returncode))
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
