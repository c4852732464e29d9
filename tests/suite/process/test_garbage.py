"""Python looks for garbage seldom while podium loads, as usual while it is measured, and not at a process's end."""

import subprocess
import sys

import pytest

USUAL = "from suite.process import garbage; usual = garbage.USUAL"


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_command_looks_seldom_until_the_clock_starts() -> None:
    code = f"import gc; {USUAL}; garbage.look_seldom(); print(gc.get_threshold() > usual); garbage.look_as_usual(); print(gc.get_threshold() == usual)"
    assert printed(code).split() == ["True", "True"]


@pytest.mark.parametrize(("call", "looked"), [("garbage.look_seldom()", False), ("pass", True)])
def test_what_is_there_at_the_end_is_left_to_the_system(call: str, looked: bool) -> None:
    """An object in a circle is found by a look alone."""
    code = f"{USUAL}\n{call}\nclass A:\n    def __del__(self): print('found', flush=True)\na = A(); a.me = a; del a"
    assert printed(code) == ("found\n" if looked else "")


def test_files_that_are_open_at_the_end_are_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    """They belong to no circle, so no look is needed to close them."""
    path = tmp_path_factory.mktemp("open") / "file"
    printed(f"{USUAL}; garbage.look_seldom(); import sys; f = open({str(path)!r}, 'w'); f.write('whole')")
    assert path.read_text() == "whole"
