"""Signals as exceptions, in the process that trains and nowhere else."""

import os
import signal
import threading
import time

import pytest

from harness.signals import HungUp, Interrupted, Terminated, raised


@pytest.mark.parametrize(("number", "kind", "code"), [(signal.SIGINT, Interrupted, 130), (signal.SIGTERM, Terminated, 143), (signal.SIGHUP, HungUp, 129)])
def test_a_signal_is_raised_once(number: signal.Signals, kind: type[Interrupted], code: int):
    """The log's last line is written after the first; a second one must not cut that off."""
    before = signal.getsignal(number)
    with raised() as signals:
        with pytest.raises(kind, match=number.name) as caught:
            os.kill(os.getpid(), number)
            time.sleep(1)
        os.kill(os.getpid(), number)
        assert signals.received is caught.value and caught.value.exit_code == code
    assert signal.getsignal(number) is before


def test_a_loaders_worker_ends_quietly():
    """Forked workers have our handler: Ctrl-C reaches them too, and their parent ends them by SIGTERM."""
    with raised():
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGINT)  # passes
            os.kill(os.getpid(), signal.SIGTERM)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGTERM


def test_outside_the_main_thread_handlers_stay():
    """Python allows handlers in the main thread only; a training in another one still works."""
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with raised() as signals:
            seen.append((signal.getsignal(signal.SIGTERM), signals.received))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, None)]
