"""Signals as exceptions, in the process that trains and nowhere else: none is lost, and a second
one ends the process at once.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from suite.errors import JudgedError
from suite.process.signals import HungUp, Interrupted, Terminated, raise_signals_in_block

KINDS = [
    (signal.SIGINT, Interrupted, 130),
    (signal.SIGTERM, Terminated, 143),
    (signal.SIGHUP, HungUp, 129),
]


@pytest.mark.parametrize(("number", "kind", "code"), KINDS)
def test_a_signal_is_raised_once(number: signal.Signals, kind: type[Interrupted], code: int):
    """The log's last line is written after the first; the same one again, as a launcher's group
    gets it, must not cut that off.
    """
    before = signal.getsignal(number)
    with pytest.raises(kind, match=number.name) as outer, raise_signals_in_block() as signals:
        with pytest.raises(kind, match=number.name) as caught:
            os.kill(os.getpid(), number)
            time.sleep(1)
        os.kill(os.getpid(), number)
        assert signals.received is caught.value and caught.value.exit_code == code
    assert outer.value is caught.value and signal.getsignal(number) is before


def test_a_signal_that_was_swallowed_is_raised_at_the_end_of_the_block():
    """A finalizer, a C callback or a broad `except` may take the exception; the campaign went on to
    its end then.
    """
    with (
        pytest.raises(Terminated),
        raise_signals_in_block(),
        suppress(Interrupted),
        raise_signals_in_block(),
    ):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)


def test_what_handles_errors_does_not_take_a_signal_for_one():
    """It was told as a broken package, unreadable data, a result with a problem."""
    with pytest.raises(Terminated), raise_signals_in_block():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        except Exception:
            pytest.fail("the signal was taken for an error")


def test_what_breaks_after_a_signal_broke_by_it():
    """A child that the same signal ended must not be told as a fault of the system under test."""
    with pytest.raises(Terminated), raise_signals_in_block():
        with suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        raise JudgedError("the LoadGen process was ended by SIGTERM")


def test_a_block_that_settles_its_state_looks_itself():
    """Training saves at the next step: the signal may not tear the step that is being made."""
    with pytest.raises(Terminated), raise_signals_in_block() as signals, signals.postpone():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        assert isinstance(signals.received, Terminated)
        with pytest.raises(Terminated), signals.raise_at_once():
            pytest.fail("what has come is raised first")


def run(body: str, *signals: tuple[float, signal.Signals]) -> tuple[int, str, float]:
    """Run a program under `raise_signals_in_block`, send it signals at times after it is ready; exit code, stderr,
    seconds after the first signal.
    """
    code = (
        "import sys, time, suite.cli as cli, suite.process.signals as signals,"
        f" click\n@click.command()\ndef command():\n{body}\ncli.main(command)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    began = time.monotonic()
    for after_s, number in signals:
        time.sleep(max(0.0, began + after_s - time.monotonic()))
        child.send_signal(number)
    _, told = child.communicate(timeout=120)
    return child.returncode, told, time.monotonic() - began


SLOW_END = """
    try:
        print('ready', flush=True)
        time.sleep(60)
    finally:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            time.sleep(1)
"""
POSTPONED = """
    signals.POSTPONED_GRACE_S = 0.5
    with signals.raise_signals_in_block() as seen, seen.postpone():
        print('ready', flush=True)
        while True:
            time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "code"),
    [(signal.SIGINT, signal.SIGINT, 130), (signal.SIGTERM, signal.SIGINT, 143)],
)
def test_a_second_one_ends_at_once_with_a_sentence(
    first: signal.Signals, second: signal.Signals, code: int
):
    """Whoever presses Ctrl-C again does not want to wait for what the first began, nor to read a
    traceback.
    """
    found, told, seconds = run(SLOW_END, (0, first), (3.0, second))
    assert (
        found == code
        and told.strip()
        == "podium: interrupted again: ended at once; what was saved before is kept"
        and seconds < 10
    )


def test_the_same_signal_to_process_and_group_is_one():
    """`timeout` and terminals send it twice: the first must still come to its end."""
    found, told, _ = run(
        "    print('ready', flush=True)\n    time.sleep(60)",
        (0, signal.SIGTERM),
        (0.01, signal.SIGTERM),
    )
    assert (found, told.strip()) == (143, "podium: interrupted by SIGTERM")


@pytest.mark.slow
def test_an_end_that_does_not_come_is_made():
    """A join that never returns, a full pipe: one interrupt never needs a minute."""
    found, told, seconds = run(
        "    signals.EXIT_DEADLINE_S = signals.POSTPONED_GRACE_S = 1.0\n" + SLOW_END,
        (0, signal.SIGTERM),
    )
    assert found == 143 and "still running after 1 s" in told and seconds < 15


@pytest.mark.slow
def test_a_block_that_does_not_look_is_interrupted_all_the_same():
    """A step may hang in a collective or in a loader."""
    found, told, seconds = run(POSTPONED, (0, signal.SIGINT))
    assert (found, told.strip()) == (130, "podium: interrupted by SIGINT") and seconds < 15


TAKEN_BY_ANOTHER_THREAD = """
    import signal, threading
    with signals.raise_signals_in_block():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        print('ready', flush=True)
        threading.Event().wait()
"""


def test_a_signal_that_another_thread_takes_ends_a_wait_of_the_main_thread():
    """The kernel gives it to any thread that does not block it; `podium serve` waited for ever."""
    found, told, seconds = run(TAKEN_BY_ANOTHER_THREAD, (0, signal.SIGTERM))
    assert (found, told.strip()) == (143, "podium: interrupted by SIGTERM") and seconds < 15


def test_a_loaders_worker_ends_quietly():
    """Forked workers have our handler: Ctrl-C reaches them too, and their parent ends them by
    SIGTERM; torch reports any status but 0.
    """
    with raise_signals_in_block() as signals:
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGINT)  # passes
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        time.sleep(0.3)
        assert signals.received is None, "the worker's signals are not its parent's"


def test_outside_the_main_thread_handlers_stay():
    """Python allows handlers in the main thread only; a training in another one still works."""
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with raise_signals_in_block() as signals:
            seen.append((signal.getsignal(signal.SIGTERM), signals.received))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, None)]


IN_CALLBACK = """
import os, signal, weakref
from suite.process.signals import Interrupted, raise_signals_in_block
class A: pass
def called(_):
    {body}
    return None
try:
    with raise_signals_in_block():
        a = A()
        watched = weakref.ref(a, called)
        del a
    print("lost")
except Interrupted as error:
    print(error)
"""


def swallowed(body: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", IN_CALLBACK.format(body=body)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_it_is_raised_afterwards_without_a_traceback() -> None:
    """`podium run`, ended between two imports, said `Exception ignored in ... Traceback` before its
    own sentence.
    """
    done = swallowed("os.kill(os.getpid(), signal.SIGTERM)")
    assert (done.stdout, done.stderr) == ("interrupted by SIGTERM\n", "")


def test_other_errors_are_still_shown() -> None:
    done = swallowed("raise KeyError('mine')")
    assert done.stdout == "lost\n" and "KeyError: 'mine'" in done.stderr
