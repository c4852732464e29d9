"""Which main modules spawned children import again."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from suite import cli
from suite.process.main_module import COMMAND_LINE, is_command_line

PROGRAM = """
import multiprocessing, sys
from suite import cli
from suite.process import main_module
{more}
print("main module", flush=True)
if __name__ == "__main__":
    with main_module.kept_back():
        child = multiprocessing.get_context("spawn").Process(target=print, args=("child",))
        child.start()
    child.join()
    assert vars(sys.modules["__main__"]) is globals()
"""


@pytest.mark.parametrize(("more", "imports"), [("", 2), ("from suite.cli import main", 1)], ids=["another program", "the script podium"])
def test_children_import_the_main_module_of_other_programs_alone(tmp_path: Path, more: str, imports: int) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(more=more))
    outcome = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stdout.count("main module"), outcome.stdout.count("child")) == (0, imports, 1), outcome.stderr


def test_the_command_line_is_recognised_by_its_name_too() -> None:
    """`python -m suite.cli` is a module of its own beside `suite.cli`, with another `main`."""
    main = ModuleType("__main__")
    assert cli and not is_command_line(main)
    main.__spec__ = ModuleSpec(COMMAND_LINE, None)
    assert is_command_line(main)
