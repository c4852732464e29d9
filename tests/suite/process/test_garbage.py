"""Python looks for garbage seldom while podium loads, as usual while it is measured, and not at a
process's end.
"""

import gc
import subprocess
import sys
from typing import Any

import pytest

from suite.process import garbage

COMMAND = """
import gc
from suite import cli
class Command:
    def main(self, prog_name, standalone_mode):
        print(gc.get_threshold()[0])
cli.main(Command())
"""
CIRCLE = """
from suite.process import garbage
{call}
class A:
    def __del__(self): print("found", flush=True)
a = A()
a.me = a
del a
"""


def printed(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_a_command_begins_with_few_looks() -> None:
    assert int(printed(COMMAND)) == garbage.SELDOM_THRESHOLD > garbage.USUAL_THRESHOLDS[0]


def test_nothing_that_was_loaded_is_looked_through_first_when_a_clock_runs() -> None:
    """A look through everything that falls due would be a pause in the first steps."""
    gc.set_threshold(garbage.SELDOM_THRESHOLD)
    circle: list[Any] = []
    circle.append(circle)
    found = gc.get_stats()[2]["collections"]
    garbage.collect_garbage_as_usual()
    assert (
        gc.get_threshold() == garbage.USUAL_THRESHOLDS
        and gc.get_stats()[2]["collections"] == found + 1
    )


@pytest.mark.parametrize(
    ("call", "looked"), [("garbage.reduce_garbage_collection()", False), ("", True)]
)
def test_what_is_there_at_the_end_is_left_to_the_system(call: str, looked: bool) -> None:
    """Only a look finds an object in a circle."""
    assert printed(CIRCLE.format(call=call)) == ("found\n" if looked else "")
