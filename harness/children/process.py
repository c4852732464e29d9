"""Runs a task in a child process that never outlives its parent and never hangs: LoadGen cannot run
twice in one process.

A child is a new interpreter, or the fork of one that has loaded what all children need
(`load_ahead`).
"""

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, TypeVar, cast

from harness.children.starting import end_with_parent, start_child_process
from harness.children.template import ForkedChild, ForkTemplate
from harness.failures import describe_exception, describe_machine_error
from harness.kernel_errors import KernelError, format_first_sentence, is_kernel_missing
from harness.missing_modules import BrokenPackageError, describe_failed_import
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.process.signals import raise_signals_in_block

T = TypeVar("T")
J = TypeVar("J")
Abort: TypeAlias = Callable[[BaseException], NoReturn]
"""Ends the child at once, from any thread, and reports the exception to the parent."""

TICK_INTERVAL_S: Final = 1.0
templates: Final[list[ForkTemplate]] = []
"""This process's template, if there is one."""
ERRORS_BY_EXIT_CODE: Final[dict[int, type[PodiumError]]] = {
    error.exit_code: error for error in (JudgedError, RequestError, MissingError)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFailure:
    """Why a child failed."""

    sentence: str
    error_class: type[PodiumError] = JudgedError
    """What the parent raises."""
    trace: str = ""
    """The child's traceback, unless it raised a PodiumError."""

    def build_error(self) -> PodiumError:
        """Build the error that the parent raises, with the traceback as its note."""
        error = self.error_class(self.sentence)
        if self.trace:
            error.add_note(self.trace)
        return error


def load_ahead(modules: Iterable[str]) -> None:
    """Name what the children of this process need, so that it is loaded once; without effect after
    the first time.
    """
    if not templates or templates[0].owner != os.getpid():
        templates[:] = [ForkTemplate(tuple(modules))]


def fork_from_template(
    jobs: Connection, sender: Connection, check: Callable[[], None]
) -> ForkedChild | None:
    """Fork a child, if there is a template that can be asked."""
    if templates and templates[0].is_free():
        return templates[0].fork(run_child_task, jobs, sender, check)
    return None


def run_in_child(
    task: Callable[[J, Abort], T], job: J, tick: Callable[[], None] | None = None
) -> T:
    """Run a picklable task on a picklable job; PodiumError if there is no result. `tick` is called
    every second meanwhile.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    jobs, teller = context.Pipe(
        duplex=False
        # not an argument of Process: a job may exceed the pipe buffer, and a child dead at startup
        # would block the write
    )
    interpreter = context.Process(target=run_child_task, args=(jobs, sender))
    process: SpawnProcess | ForkedChild = interpreter
    with raise_signals_in_block() as signals, receiver, teller:
        try:
            with signals.postpone():
                process = fork_from_template(
                    jobs, sender, signals.raise_received
                ) or start_interpreter(interpreter)
            sender.close()
            jobs.close()
            signals.raise_received()
            with suppress(BrokenPipeError):  # `receive` reports how the child ended
                teller.send((task, job))
            answer = wait_for_answer(receiver, process, tick)
        finally:
            end_child(process)
    if isinstance(answer, ChildFailure):
        raise answer.build_error()
    return cast(T, answer)


def start_interpreter(process: SpawnProcess) -> SpawnProcess:
    """Start a process, and return it."""
    start_child_process(process)
    return process


def end_child(process: SpawnProcess | ForkedChild) -> None:
    """End the child, if it was started; its result has been read."""
    if process.pid is not None:
        process.kill()
        process.join()


def wait_for_answer(
    receiver: Connection,
    process: SpawnProcess | ForkedChild,
    tick: Callable[[], None] | None = None,
) -> object:
    """Wait for the child's result or exit."""
    while not wait([receiver, process.sentinel], TICK_INTERVAL_S if tick else None):
        if tick:
            tick()
    try:
        answer: object = receiver.recv()
    except (EOFError, OSError):
        process.join()
        sentence = (
            f"the LoadGen process {describe_process_end(process.exitcode)}; nothing of that run"
            " counts"
        )
        unknown_instruction = process.exitcode == -signal.SIGILL
        return ChildFailure(
            sentence=sentence,
            error_class=KernelError if unknown_instruction else JudgedError,
            trace=sentence if unknown_instruction else "",
        )
    return answer


def describe_process_end(code: int | None) -> str:
    """Describe how a process ended."""
    if code is not None and code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit status {code}"


def run_child_task(jobs: Connection, sender: Connection, parent: int | None = None) -> None:
    """Run the task on a second thread, so that signals need not wait for LoadGen."""
    threading.Thread(target=end_with_parent, args=(parent,), daemon=True).start()
    speaker = ChildReporter(sender)
    worker = threading.Thread(target=speaker.run_task, args=(jobs,))
    worker.start()
    worker.join()


class ChildReporter:
    """Sends the parent the result or the failure."""

    def __init__(self, sender: Connection) -> None:
        self.sender = sender
        self.folder: Path | None = None
        """Where the job writes, if it says so."""
        self.turn = threading.Lock()

    def run_task(self, jobs: Connection) -> None:
        """Receive a task and its job, run it, and send its result."""
        try:
            task, job = jobs.recv()
            self.folder = getattr(job, "folder", None)
            answer = task(job, self.report_and_exit)
        except BaseException as error:
            self.report_and_exit(error)
        with self.turn:
            self.sender.send(answer)

    def report_and_exit(self, error: BaseException) -> NoReturn:
        """Report the exception and end the process at once: LoadGen would wait for ever for missing
        responses.
        """
        with self.turn:  # the first failure wins, and is sent whole
            sys.stderr.flush()
            self.sender.send(describe_child_failure(error, self.folder))
            os._exit(1)


def describe_child_failure(error: BaseException, folder: Path | None = None) -> ChildFailure:
    """Describe an exception in one sentence; the job writes to `folder`."""
    if isinstance(error, PodiumError):
        error_class = ERRORS_BY_EXIT_CODE.get(error.exit_code, JudgedError)
        return ChildFailure(sentence=str(error), error_class=error_class)
    trace = "".join(traceback.format_exception(error))
    if is_kernel_missing(error):
        sentence = format_first_sentence(error)
        return ChildFailure(sentence=sentence, error_class=KernelError, trace=trace)
    machine = describe_machine_error(error, folder=folder)
    if not machine and (unimported := describe_failed_import(error)):
        return ChildFailure(sentence=unimported, error_class=BrokenPackageError, trace=trace)
    return ChildFailure(
        sentence=f"the system under test failed: {describe_exception(error, folder=folder)}",
        error_class=MissingError if machine else JudgedError,
        trace=trace,
    )
