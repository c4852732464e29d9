"""A process that has loaded what a command's children have in common, and is forked for each of
them: importing PyTorch takes seconds.

The template is a new interpreter that only imports: it computes nothing, so no thread of its own is
lost in a fork. It ends with its parent, and its child with it. It has one child at a time: who asks
for a second one, or cannot have a template, gets a new interpreter (process.py).
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import recv_handle, send_handle
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Final, TypeAlias

from harness.children.starting import end_with_parent, start_child_process
from suite.process import garbage
from suite.process.names import TEMPLATE_PROCESS_NAME

COMMON_MODULES: Final = (
    "harness.serving.loadgen.probe",
    "harness.serving.loadgen.session",
    "mlperf_loadgen",
    "numpy.random",
)
"""What all children need: LoadGen's sessions, and this module's caller."""
SIGNAL_CHECK_INTERVAL_S: Final = 0.1
"""Between two looks for signals while a template loads."""
PROCESS_NAME_FILE: Final = Path("/proc/self/comm")
DESCRIPTORS_FOLDER: Final = Path("/proc/self/fd")
GPU_DEVICE_PREFIX: Final = "/dev/nvidia"
"""Beginning of the names of device files that CUDA and NVML keep open."""
ChildMain: TypeAlias = Callable[[Connection, Connection, int], None]
"""What a child is: it has a pipe for its jobs, one for its answer, and a descriptor that ends with
its parent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkRequest:
    """A child, and what it takes over from the process that asks."""

    main: ChildMain
    environment: dict[str, str]
    folder: str
    cores: frozenset[int]


class ForkedChild:
    """A forked child, with the methods of multiprocessing's processes that are needed of one."""

    def __init__(self, pid: int, pipe: Connection, release: Callable[[], None]) -> None:
        self.pid, self.sentinel, self._release = pid, pipe, release
        self.exitcode: int | None = None

    def kill(self) -> None:
        """Have the template kill it, which alone knows whether its number is still valid."""
        if self.exitcode is None:
            with suppress(OSError):
                self.sentinel.send(None)

    def join(self) -> None:
        """Wait for its end; a template that is gone took it along."""
        if self.exitcode is None:
            try:
                self.exitcode = self.sentinel.recv()
            except (EOFError, OSError):
                self.exitcode = -signal.SIGKILL
            self._release()


@dataclass(slots=True)
class ForkTemplate:
    """The template as its parent sees it."""

    modules: tuple[str, ...]
    owner: int = field(default_factory=os.getpid)
    process: SpawnProcess | None = None
    pipe: Connection | None = None
    busy: bool = False
    broken: bool = False

    def is_free(self) -> bool:
        """Return whether it may be asked: not in a fork of its owner, which may not wait for it."""
        return not (self.busy or self.broken) and self.owner == os.getpid()

    def ensure_started(self) -> tuple[SpawnProcess, Connection]:
        """Start it, unless it runs; OSError if it cannot be."""
        if self.process is None or self.pipe is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.pipe, far = context.Pipe()
            self.process = context.Process(
                target=serve_forks, args=(far, (*COMMON_MODULES, *self.modules))
            )
            # before multiprocessing waits for its children, in a child of its own too
            Finalize(None, self.end, exitpriority=0)
            with far:
                start_child_process(self.process)
        return self.process, self.pipe

    def fork(
        self, main: ChildMain, jobs: Connection, sender: Connection, check: Callable[[], None]
    ) -> ForkedChild | None:
        """Fork a child; nothing if the template cannot be had. `check` is called while it loads,
        and may raise.
        """
        self.busy = True
        try:
            process, pipe = self.ensure_started()
            pipe.send(
                ForkRequest(
                    main=main,
                    environment=dict(os.environ),
                    folder=str(Path.cwd()),
                    cores=frozenset(os.sched_getaffinity(0)),
                )
            )
            for one in (jobs, sender):
                send_handle(pipe, one.fileno(), process.pid)
            while not wait([pipe, process.sentinel], SIGNAL_CHECK_INTERVAL_S):
                check()
            return ForkedChild(pipe.recv(), pipe, self.release)
        except (EOFError, OSError):
            self.end()
            return None
        except BaseException:
            self.end()
            raise

    def release(self) -> None:
        """Record the end of its child."""
        self.busy = False

    def end(self) -> None:
        """End it for good."""
        self.broken = True
        if self.process is not None and self.process.pid is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.join()


def serve_forks(pipe: Connection, modules: Sequence[str]) -> None:
    """Run the template: load, then fork a child on each request, until the parent has ended."""
    with suppress(OSError):
        PROCESS_NAME_FILE.write_text(TEMPLATE_PROCESS_NAME)
    before = frozenset(os.environ)
    garbage.reduce_garbage_collection()
    import_modules(modules)
    garbage.freeze_loaded_objects()  # no child looks through what all of them share
    own = {name: value for name, value in os.environ.items() if name not in before}
    with suppress(EOFError, OSError):
        while True:
            request = pipe.recv()
            if request is not None:  # a kill that came too late
                fork_requested_child(pipe, replace(request, environment=own | request.environment))
    os._exit(0)


def import_modules(modules: Sequence[str]) -> None:
    """Import modules; end with the parent meanwhile, since an import may hang.

    End too if one cannot be imported: an extension cannot be tried again in a fork, and a new
    interpreter says what is wrong with it. And end if a fork would not be as good as a new
    interpreter.
    """
    loading, loaded = multiprocessing.get_context("spawn").Pipe(duplex=False)
    watcher = threading.Thread(target=end_with_parent, args=(None, [loading]))
    watcher.start()
    for name in modules:
        try:
            import_module(name)
        except BaseException:  # whatever a module of somebody else raises
            os._exit(1)
    loaded.close()
    watcher.join()  # no thread but this one in a fork
    loading.close()
    if not can_fork():
        os._exit(1)


def can_fork() -> bool:
    """Return whether a fork of this process can compute: it has no other thread, which the fork
    would lack, and has asked for no GPU, which it could not use.
    """
    return threading.active_count() == 1 and not has_open_gpu()


def has_open_gpu(descriptors: Path = DESCRIPTORS_FOLDER) -> bool:
    """Return whether this process has a GPU's device file open; false on a system without /proc."""
    for each in descriptors.glob("*"):
        with suppress(OSError):  # the listing's own descriptor, closed since
            if str(each.readlink()).startswith(GPU_DEVICE_PREFIX):
                return True
    return False


def fork_requested_child(pipe: Connection, request: ForkRequest) -> None:
    """Fork one child, and tell its number and its exit code."""
    jobs, sender = (
        Connection(recv_handle(pipe), writable=False),
        Connection(recv_handle(pipe), readable=False),
    )
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # or the child would write it again
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=run_as_child, args=(request, jobs, sender, ours, theirs)
    )
    child.start()
    for one in (jobs, sender, ours):
        one.close()
    pipe.send(child.pid)
    if child.sentinel not in wait([pipe, child.sentinel]):
        child.kill()
        pipe.recv()  # EOFError if the parent is gone
    child.join()
    theirs.close()
    pipe.send(child.exitcode)


def run_as_child(
    request: ForkRequest,
    jobs: Connection,
    sender: Connection,
    parent: Connection,
    template_end: Connection,
) -> None:
    """Run a child as if the requesting process had started it. `parent` ends when the
    template does, which alone keeps `template_end`.
    """
    template_end.close()
    with suppress(OSError):
        PROCESS_NAME_FILE.write_text(Path(sys.executable).name)
    os.environ.clear()
    os.environ.update(request.environment)
    # as in a new interpreter: what it starts later would be forks of many threads
    multiprocessing.set_start_method("spawn", force=True)
    os.chdir(request.folder)
    os.sched_setaffinity(0, request.cores)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # Python's own generator is seeded anew by every fork
    request.main(jobs, sender, parent.fileno())
