"""Python looks for garbage seldom while podium loads, as usual while it is measured, and not at a process's end."""

import gc
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from podium_fakes import fake
from podium_fakes.drive import options

from harness.serving.instances.instance import Instance
from harness.training.run_set import train_set
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
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_command_begins_with_few_looks() -> None:
    assert int(printed(COMMAND)) == garbage.SELDOM > garbage.USUAL[0]


def test_nothing_that_was_loaded_is_looked_through_first_when_a_clock_runs() -> None:
    """A look through everything that falls due would be a pause in the first steps."""
    gc.set_threshold(garbage.SELDOM)
    circle: list[Any] = []
    circle.append(circle)
    found = gc.get_stats()[2]["collections"]
    garbage.look_as_usual()
    assert gc.get_threshold() == garbage.USUAL and gc.get_stats()[2]["collections"] == found + 1


def test_a_training_run_has_the_usual_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all of its epochs; and the run behind it in the same process as well."""
    seen = list[object]()
    plain = fake.FakeTraining.train_epoch
    monkeypatch.setattr(fake.FakeTraining, "train_epoch", lambda self, *words: seen.append(gc.get_threshold()) or plain(self, *words))
    gc.set_threshold(garbage.SELDOM)
    train_set("fake", options(tmp_path), seed=1, runs=2)
    assert len(seen) > 2 and set(seen) == {garbage.USUAL}


def test_an_instance_has_the_usual_looks_when_it_is_warm() -> None:
    """Warming up may load a compiler."""
    warm = SimpleNamespace(warm_up=lambda: gc.set_threshold(garbage.SELDOM))
    Instance(0, lambda: (SimpleNamespace(open=lambda worker, most: warm), None)).open(1)  # type: ignore[arg-type,return-value]
    assert gc.get_threshold() == garbage.USUAL


@pytest.mark.parametrize(("call", "looked"), [("garbage.look_seldom()", False), ("", True)])
def test_what_is_there_at_the_end_is_left_to_the_system(call: str, looked: bool) -> None:
    """Only a look finds an object in a circle."""
    assert printed(CIRCLE.format(call=call)) == ("found\n" if looked else "")
