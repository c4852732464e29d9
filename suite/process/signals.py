"""Raises SIGINT, SIGTERM and SIGHUP as an exception in the main thread: no signal is lost, and a
second one ends the process at once.

The handler runs in the main thread, which may be busy in C code; a second thread sees every signal
at once through the wake-up descriptor (signal.set_wakeup_fd) and ends the process if the main
thread does not.
"""

import _thread
import atexit
import multiprocessing.util  # registers its wait for children: what is registered later comes first
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import ClassVar, Final, NoReturn

from suite.errors import AbortedError, MachineError

ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAKING_SIGNAL: Final = signal.SIGURG
"""Has a handler that does nothing: what is sent to the main thread ends its wait in the kernel."""
SAME_INTERRUPT_S: Final = 0.25
"""A signal this soon after the first is the same interrupt: `timeout` and terminals signal both a
process and its group.
"""
SAME_LAUNCHED_INTERRUPT_S: Final = 5.0
"""The same among ranks: a launcher forwards the signals that it receives."""
POSTPONED_GRACE_S: Final = 10.0
"""Grace period after the first signal for a block that asked for it."""
WORKER_SURVIVAL_S: Final = 15
"""Seconds that a loader's worker survives SIGTERM: longer than POSTPONED_GRACE_S."""
EXIT_DEADLINE_S: Final = 45.0
"""After this time the process ends, whatever it is doing: an interrupt never takes a minute."""


class Interrupted(BaseException):
    """Ctrl-C. No Exception, as KeyboardInterrupt is none: what handles errors must not take a
    signal for one.
    """

    exit_code: ClassVar[int] = 130


class Terminated(Interrupted):
    """SIGTERM, as a scheduler sends it."""

    exit_code: ClassVar[int] = 143


class HungUp(Interrupted):
    """SIGHUP: the terminal closed."""

    exit_code: ClassVar[int] = 129


INTERRUPT_BY_SIGNAL: Final = {
    signal.SIGINT: Interrupted,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}


class Signals:
    """Received signals, and whether the main thread may be interrupted right now."""

    current: ClassVar["Signals | None"] = None
    """The active object of this process, inside `raise_signals_in_block`."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.received: Interrupted | None = None
        self._owner = os.getpid()
        self._postponed = self._overdue = False
        self._before = {
            number: signal.signal(number, self._handle_signal) for number in ENDING_SIGNALS
        }
        self._before[WAKING_SIGNAL] = signal.signal(WAKING_SIGNAL, lambda *_: None)
        self._seen, sender = socket.socketpair()
        sender.setblocking(False)
        self._sender = sender
        self._fd_before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        self._hook_before, sys.unraisablehook = sys.unraisablehook, self._handle_unraisable
        threading.Thread(target=self._watch_signals, name="signals", daemon=True).start()

    def restore(self) -> None:
        """Restore the previous handlers and stop the watching thread."""
        signal.set_wakeup_fd(self._fd_before)
        sys.unraisablehook = self._hook_before
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._sender.close()

    def raise_received(self) -> None:
        """Raise the received signal again: a callback or a finalizer may have swallowed the
        handler's exception.
        """
        if self.received is not None:
            raise self.received

    @contextmanager
    def postpone(self) -> Iterator[None]:
        """Let the block check `received` at safe points; inside it, the signal is raised only after
        POSTPONED_GRACE_S.
        """
        before, self._postponed = self._postponed, True
        try:
            yield
        finally:
            self._postponed = before

    @contextmanager
    def raise_at_once(self) -> Iterator[None]:
        """Inside `postpone`: raise pending and new signals in this block immediately."""
        before, self._postponed = self._postponed, False
        try:
            self.raise_received()
            yield
        finally:
            self._postponed = before

    def _handle_signal(self, number: int, _: FrameType | None) -> None:
        if os.getpid() != self._owner:  # a forked loader worker: its parent ends it, by SIGTERM
            if number == signal.SIGTERM:
                os._exit(
                    0
                    # torch's loader would report any other status in its parent, after podium's own
                    # message
                )
            return
        first = self.received is None
        if self.received is None:
            self.received = INTERRUPT_BY_SIGNAL[signal.Signals(number)](
                f"interrupted by {signal.Signals(number).name}"
            )
        if self._overdue or (first and not self._postponed):
            self._overdue = False
            raise self.received

    def _handle_unraisable(self, args: "sys.UnraisableHookArgs") -> None:
        """Print no traceback where a callback or a finalizer swallows the handler's exception:
        `raise_received` raises it again.
        """
        if args.exc_value is None or args.exc_value is not self.received:
            self._hook_before(args)

    def _watch_signals(self) -> None:
        """Wait for the first signal, then for a second one, POSTPONED_GRACE_S and the deadline."""
        with self._seen, suppress(EOFError):
            number, began = self._wait_for_ending_signal(), time.monotonic()
            if int(os.environ.get("WORLD_SIZE", "1")) > 1:
                same_s = SAME_LAUNCHED_INTERRUPT_S
            else:
                same_s = SAME_INTERRUPT_S
            self._wait_until(began, same_s, lambda: None)
            if self.received is None:
                wake_main_thread()
            self._wait_until(
                began,
                POSTPONED_GRACE_S,
                lambda: end_process_at_once(
                    number, "interrupted again: ended at once; what was saved before is kept"
                ),
            )
            if self._postponed:
                self._overdue = True
                _thread.interrupt_main(signal.Signals(number))
                wake_main_thread()
                self._wait_for_ending_signal()  # that signal is written to the descriptor too
            self._wait_until(
                began,
                EXIT_DEADLINE_S,
                lambda: end_process_at_once(
                    number, "interrupted again: ended at once; what was saved before is kept"
                ),
            )
            end_process_at_once(
                number,
                f"interrupted, but still running after {EXIT_DEADLINE_S:.0f} s: killed;"
                " what was saved before is kept",
            )

    def _wait_until(self, began: float, until_s: float, again: Callable[[], None]) -> None:
        """Wait until this many seconds after the first signal; call `again` on each further
        signal.
        """
        while (left := began + until_s - time.monotonic()) > 0:
            if (
                select.select([self._seen], [], [], left)[0]
                and self._read_signal() in ENDING_SIGNALS
            ):
                again()

    def _wait_for_ending_signal(self) -> int:
        """Wait for a signal that ends the process; ignore others with handlers, such as a loader's
        SIGCHLD.
        """
        while (number := self._read_signal()) not in ENDING_SIGNALS:
            pass
        return number

    def _read_signal(self) -> int:
        """Wait for the next signal; EOFError if `restore` closed the other end."""
        if not (byte := self._seen.recv(1)):
            raise EOFError
        return byte[0]


def wake_main_thread() -> None:
    """End a wait of the main thread, so that the handler runs, which Python calls there alone: a
    signal that another thread took, or that came just before the wait, does not.
    """
    if main := threading.main_thread().ident:
        signal.pthread_kill(main, WAKING_SIGNAL)


def end_process_at_once(number: int, sentence: str) -> NoReturn:
    """End the process and its children at once."""
    os.write(2, f"\npodium: {sentence}\n".encode())
    kill_children()
    os._exit(INTERRUPT_BY_SIGNAL[signal.Signals(number)].exit_code)


def defer_worker_end(_: int = 0) -> None:
    """Let a worker survive SIGTERM and SIGHUP for some seconds, so that a parent that received it
    too can finish its step and save.

    If the whole process group is signalled, a dead worker would break the parent's loop before it
    reaches a point where it can save.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.alarm(WORKER_SURVIVAL_S))


def kill_children() -> None:
    """End this process's multiprocessing children: loaders, LoadGen."""
    for child in multiprocessing.active_children():
        child.kill()


def kill_children_at_exit() -> None:
    """Have children that are left when the process ends killed, such as the loaders of a training
    that failed. Python would end them by SIGTERM, which they survive for WORKER_SURVIVAL_S, and
    wait.
    """
    atexit.unregister(_kill_unwatched_children)
    atexit.register(_kill_unwatched_children)


def _kill_unwatched_children() -> None:
    """Kill what is left from the main thread, which would hear of each that has ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # PyTorch's handler raises for a killed loader
    kill_children()


def kill_children_and_exit(sentence: str, code: int) -> NoReturn:
    """Print why, kill the child processes, and leave without waiting for threads and loaders:
    another Ctrl-C there would be a traceback.
    """
    with suppress(OSError):
        print(f"podium: {sentence}", file=sys.stderr, flush=True)
    with suppress(OSError):
        sys.stdout.flush()
    _kill_unwatched_children()
    os._exit(code)


def detach_forked_child() -> None:
    """Detach a forked child, which shares the descriptor: its signals are not its parent's."""
    if Signals.current is not None:
        signal.set_wakeup_fd(-1)


os.register_at_fork(after_in_child=detach_forked_child)


@contextmanager
def raise_signals_in_block() -> Iterator[Signals]:
    """Raise signals inside the block, at its end at the latest, and yield what receives them; a
    nested block reuses the outer one.

    Outside the main thread, where Python allows no handlers, nothing is ever received.
    """
    if Signals.current is not None or threading.current_thread() is not threading.main_thread():
        with raise_received_signal_first(Signals.current or UnheardSignals()) as signals:
            yield signals
        return
    signals = Signals.current = Signals()
    try:
        with raise_received_signal_first(signals):
            yield signals
    finally:
        Signals.current = None
        signals.restore()


@contextmanager
def raise_received_signal_first(signals: Signals) -> Iterator[Signals]:
    """Raise a received signal at the block's end, and instead of an error behind it, which it
    caused: a pipe, a child, an import, a collective.
    """
    try:
        yield signals
    except (AbortedError, MachineError):
        raise
    except Exception as error:
        if signals.received is not None:
            raise signals.received from error
        raise
    signals.raise_received()


class UnheardSignals(Signals):
    """Replacement where no handler can be installed."""

    def __init__(self) -> None:
        """Install nothing."""
        self.received = None
        self._postponed = False
