"""A signal whose exception Python cannot raise where it arrives: in a callback of a weak reference, as importing has them, or in a finalizer."""

import subprocess
import sys

IN_CALLBACK = """
import os, signal, weakref
from suite.process.signals import Interrupted, raised
class A: pass
def called(_):
    {body}
    return None
try:
    with raised():
        a = A()
        watched = weakref.ref(a, called)
        del a
    print("lost")
except Interrupted as error:
    print(error)
"""


def run(body: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", IN_CALLBACK.format(body=body)], capture_output=True, text=True, timeout=60, check=True)


def test_it_is_raised_afterwards_without_a_traceback() -> None:
    """`podium run`, ended between two imports, said `Exception ignored in ... Traceback` before its own sentence."""
    done = run("os.kill(os.getpid(), signal.SIGTERM)")
    assert (done.stdout, done.stderr) == ("interrupted by SIGTERM\n", "")


def test_other_errors_are_still_shown() -> None:
    done = run("raise KeyError('mine')")
    assert done.stdout == "lost\n" and "KeyError: 'mine'" in done.stderr
