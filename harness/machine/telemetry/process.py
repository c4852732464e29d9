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

from harness.machine.telemetry.sampled import SamplingPlan, SourceOpening
from harness.machine.telemetry.sampler import DONE, PAUSE, READY, STOP
from suite.files.layout import PARTIAL_SUFFIX
from suite.process.devices import expand_device_name, parse_gpu_number
from suite.process.launcher import read_launcher_variable

SAMPLER_START_LIMIT_S: Final = 20.0
"""Time limit until the sampler is ready; before any clock. On an idle machine it takes a third of a
second.
"""
SAMPLER_STOP_LIMIT_S: Final = 20.0
TELEMETRY_MODULE: Final = "harness.machine.telemetry"
SILENT_REASON: Final = "the sampler does not answer"
MAX_TAIL_BYTES: Final = 1 << 14
"""Bytes of what it printed in which its last line is looked for."""


class InheritedState(NamedTuple):
    """What a process takes over from the one that starts it, which sources may look at: where any
    of it has changed, the idle one is not used again.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cores: frozenset[int]
    folder: tuple[int, int]
    """Device and inode of the working directory."""


def collect_inherited_state() -> InheritedState:
    """Return what a process started now would inherit."""
    working_folder = os.stat(".")  # noqa: PTH116  # works in a folder that was deleted
    command = (sys.executable, "-P", "-m", TELEMETRY_MODULE)
    return InheritedState(
        command,
        build_sampler_environment(),
        frozenset(os.sched_getaffinity(0)),
        (working_folder.st_dev, working_folder.st_ino),
    )


class SamplerProcess:
    """A process that samples one run after another."""

    def __init__(self, inherited: InheritedState) -> None:
        """Start it, in a session of its own, so that it receives no signals from the terminal."""
        self.inherited = inherited
        # no pipe: what sources print during many runs would fill it
        self.complaints = TemporaryFile()  # noqa: SIM115
        pipes: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self.complaints,
        }
        self.popen = subprocess.Popen(
            inherited.command, env=inherited.environment, start_new_session=True, bufsize=0, **pipes
        )

    def send_request(self, message: bytes, limit_s: float) -> bytes | None:
        """Send it a message and wait for the answer; b"" if it has ended, None after the limit."""
        assert self.popen.stdin is not None and self.popen.stdout is not None
        with suppress(BrokenPipeError):  # reading tells so, too
            self.popen.stdin.write(message)
        readable, _, _ = select.select([self.popen.stdout], [], [], limit_s)
        if readable:
            return os.read(self.popen.stdout.fileno(), 64)
        return None

    def explain_answer(self, answer: bytes | None) -> str:
        """Describe why it gave no answer, or another one: its own last line, or the signal that
        ended it.
        """
        if answer != b"":
            return SILENT_REASON
        try:
            code = self.popen.wait(SAMPLER_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            return SILENT_REASON
        self.complaints.seek(max(0, self.complaints.seek(0, os.SEEK_END) - MAX_TAIL_BYTES))
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        if lines and code > 0:
            return lines[-1]
        if code < 0:
            return f"the sampler was ended by signal {-code}"
        return f"the sampler ended with exit status {code}"

    def kill(self) -> None:
        """End it by force; at the end of its pipe it might not end, which a fork may hold open."""
        self.popen.kill()
        with self.popen, self.complaints:
            pass


IDLE_PROCESSES: Final[dict[int, SamplerProcess]] = {}
"""What waits for this process's next run, by its id: a fork does not take its parent's. A start
costs a sixth of a second of CPU time, and an audited
campaign has dozens of runs."""


def take_idle_sampler(inherited: InheritedState) -> SamplerProcess | None:
    """Return the idle process if it lives and fits the plan; otherwise end it."""
    found = IDLE_PROCESSES.pop(os.getpid(), None)
    if found is not None and (found.inherited != inherited or found.popen.poll() is not None):
        found.kill()
        return None
    return found


def keep_idle_sampler(process: SamplerProcess) -> None:
    """Keep a process for the next run; of two that ran side by side, the later one."""
    end_idle_sampler()
    IDLE_PROCESSES[os.getpid()] = process


@atexit.register
def end_idle_sampler() -> None:
    """End the idle process."""
    if found := IDLE_PROCESSES.pop(os.getpid(), None):
        found.kill()


class RunSampler:
    """The sampler of one run; after `end_sampling`, `lost` gives the reasons for missing
    telemetry.
    """

    def __init__(self, plan: SamplingPlan) -> None:
        """Send the plan to the idle process or a new one, and wait until it samples."""
        self.path = Path(plan.path)
        self.lost: tuple[str, ...] = ()
        self.process: SamplerProcess | None = None
        try:
            self.start_process(msgspec.json.encode(plan) + b"\n", collect_inherited_state())
        except OSError as error:
            self.give_up(error.strerror or str(error))

    def start_process(self, plan: bytes, inherited: InheritedState) -> None:
        """Find a process that is ready; an idle one that is not costs nothing but time."""
        if before := take_idle_sampler(inherited):
            if before.send_request(plan, SAMPLER_START_LIMIT_S) == READY:
                self.process = before
                return
            before.kill()
        self.process = SamplerProcess(inherited)
        if (answer := self.process.send_request(plan, SAMPLER_START_LIMIT_S)) != READY:
            self.give_up(self.process.explain_answer(answer))

    def finish(self) -> None:
        """End it and complete its file."""
        self.end_sampling(STOP)

    def pause_sampling(self) -> None:
        """End it; the file is continued when the run resumes."""
        self.end_sampling(PAUSE)

    def discard_samples(self) -> None:
        """End it and delete its file: no run has started."""
        self.end_sampling(PAUSE)
        self.remove_files()

    def end_sampling(self, message: bytes) -> None:
        """Send the word, and wait until the last line is written; do nothing after the first
        call.
        """
        if self.process is None:
            return
        # a signal from here on must not have a second word said
        process, self.process = self.process, None
        if (answer := process.send_request(message, SAMPLER_STOP_LIMIT_S)) == DONE:
            keep_idle_sampler(process)
            return
        self.process = process
        self.give_up(process.explain_answer(answer))

    def give_up(self, reason: str) -> None:
        """Continue without telemetry, and record why."""
        if self.process is not None:
            self.process.kill()
        self.process = None
        self.lost = (f"{self.path.name} is lost: {reason}",)
        self.remove_files()

    def remove_files(self) -> None:
        """Delete an incomplete file."""
        for path in (self.path, self.path.with_name(self.path.name + PARTIAL_SUFFIX)):
            path.unlink(missing_ok=True)


def build_sampler_environment() -> dict[str, str]:
    """Return the sampler's environment: this process's import path, to which no working directory
    is added, and all GPUs visible.
    """
    folders = [folder or str(Path.cwd()) for folder in sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def plan_sampling(
    path: Path, device: str, more: Sequence[SourceOpening] = (), *, goes_on: bool = False
) -> SamplingPlan:
    """Plan this node's sampling: the host, the GPUs of its ranks, and `more`."""
    ranks = read_launcher_variable("LOCAL_WORLD_SIZE", 1)
    # torchrun's agent started all ranks of the node
    root_pid = os.getpid() if ranks == 1 else os.getppid()
    openings = [
        SourceOpening(function=f"{TELEMETRY_MODULE}.host:open_host", options={"root_pid": root_pid})
    ]
    if device.startswith("cuda"):
        if ranks == 1:
            ordinals = [parse_gpu_number(each) for each in expand_device_name(device) or ()]
        else:
            ordinals = list(range(ranks))
        openings.append(
            SourceOpening(
                function=f"{TELEMETRY_MODULE}.gpus:open_gpus", options={"ordinals": ordinals}
            )
        )
    return SamplingPlan(path=str(path.absolute()), sources=(*openings, *more), goes_on=goes_on)


@contextmanager
def sample_during_block(
    path: Path, device: str, more: Sequence[SourceOpening] = ()
) -> Iterator[RunSampler]:
    """Sample while the block runs; an exception in the block discards the samples."""
    sampler = RunSampler(plan_sampling(path, device, more))
    try:
        yield sampler
    except BaseException:
        sampler.discard_samples()
        raise
    sampler.finish()
