"""Starts the sampler's process before a run and ends it after; a run never waits long for it, and never fails with it."""

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
from suite.process.launcher import from_environment

START_S: Final = 20.0
"""Until the sampler is ready; before any clock. It takes a third of a second where nothing else runs."""
STOP_S: Final = 20.0
MODULE: Final = "harness.machine.telemetry"


class Sampler:
    """A sampler's process; `lost` says after `end` why there is no telemetry, where there is none."""

    def __init__(self, plan: Plan) -> None:
        """Start it, and wait until it samples."""
        self.path = Path(plan.path)
        self.lost: tuple[str, ...] = ()
        self.process: subprocess.Popen[bytes] | None = None
        try:
            # a session of its own: no signal of the terminal reaches it
            pipe = subprocess.PIPE
            command = [sys.executable, "-P", "-m", MODULE]
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(), start_new_session=True)
            self.say(msgspec.json.encode(plan) + b"\n")
            self.wait()
        except OSError as error:
            self.give_up(error.strerror or str(error))

    def wait(self) -> None:
        """Wait for its word; one that ended at once says why."""
        assert self.process is not None and self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], START_S)
        if not readable:
            self.give_up("the sampler did not start")
        elif os.read(self.process.stdout.fileno(), 64) != READY:
            self.end(STOP)

    def say(self, words: bytes) -> None:
        """Tell it something."""
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(words)
        self.process.stdin.flush()

    def finish(self) -> None:
        """End it: its file is whole."""
        self.end(STOP)

    def pause(self) -> None:
        """End it: its file goes on with the run."""
        self.end(PAUSE)

    def discard(self) -> None:
        """End it, and forget what it wrote: no run was begun."""
        self.end(PAUSE)
        self.remove()

    def end(self, word: bytes) -> None:
        """Say the word, and wait until it has written its last line; once it has ended, nothing."""
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
        """Go on without telemetry, and remember why."""
        if self.process is not None:
            self.process.kill()
            with suppress(OSError, ValueError):
                self.process.communicate()
        self.process = None
        self.lost = (f"{self.path.name} is lost: {why}",)
        self.remove()

    def remove(self) -> None:
        """Take away what is not whole."""
        for path in (self.path, self.path.with_name(self.path.name + PARTIAL)):
            path.unlink(missing_ok=True)


def reason(told: bytes, code: int) -> str:
    """Say in a few words why a sampler ended: its own last line, or the signal."""
    lines = told.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines and code > 0 else f"the sampler was ended by signal {-code}" if code < 0 else f"the sampler ended with exit status {code}"


def environment() -> dict[str, str]:
    """Give the sampler the modules that this process sees, without the folder that the user happens to stand in; no GPU is hidden from it."""
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def plan_for(path: Path, device: str, more: Sequence[Opening] = (), *, goes_on: bool = False) -> Plan:
    """Plan what is sampled on this node: the host, the GPUs that the ranks here use, and `more`."""
    ranks = from_environment("LOCAL_WORLD_SIZE", 1)
    root_pid = os.getpid() if ranks == 1 else os.getppid()  # torchrun's agent has started all ranks of the node
    openings = [Opening(function=f"{MODULE}.host:open_host", options={"root_pid": root_pid})]
    if device.startswith("cuda"):
        first = int(device.partition(":")[2] or 0)
        ordinals = [first] if ranks == 1 else list(range(ranks))
        openings.append(Opening(function=f"{MODULE}.gpus:open_gpus", options={"ordinals": ordinals}))
    return Plan(path=str(path.absolute()), sources=(*openings, *more), goes_on=goes_on)


@contextmanager
def sampling(path: Path, device: str, more: Sequence[Opening] = ()) -> Iterator[Sampler]:
    """Sample while the block runs; an exception of the block discards what was sampled."""
    sampler = Sampler(plan_for(path, device, more))
    try:
        yield sampler
    except BaseException:
        sampler.discard()
        raise
    sampler.finish()
