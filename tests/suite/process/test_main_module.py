"""Which main modules spawned children import again."""

import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from suite import cli
from suite.process.main_module import COMMAND_LINE_MODULES, is_command_line

PROGRAM = """
import multiprocessing, sys
from suite import cli
from suite.process import main_module
{more}
print("main module", flush=True)
if __name__ == "__main__":
    with main_module.hide_main_module():
        child = multiprocessing.get_context("spawn").Process(target=print, args=("child",))
        child.start()
    child.join()
    assert vars(sys.modules["__main__"]) is globals()
"""


@pytest.mark.parametrize(
    ("name", "more", "imports"),
    [
        ("program.py", "", 2),
        ("program.py", "from suite.cli import main", 2),
        ("podium", "from suite.cli import main", 1),
    ],
    ids=["another program", "one that calls podium", "the script podium"],
)
def test_children_import_the_main_module_of_other_programs_alone(
    tmp_path: Path, name: str, more: str, imports: int
) -> None:
    """A job of another program may be defined there."""
    (tmp_path / name).write_text(PROGRAM.format(more=more))
    outcome = subprocess.run(
        [sys.executable, tmp_path / name], capture_output=True, text=True, check=False
    )
    assert (
        outcome.returncode,
        outcome.stdout.count("main module"),
        outcome.stdout.count("child"),
    ) == (0, imports, 1), outcome.stderr


@pytest.mark.parametrize("name", COMMAND_LINE_MODULES)
def test_the_command_line_is_recognised_by_its_name_too(name: str) -> None:
    """`python -m suite.cli` is a module of its own beside `suite.cli`, with another `main`."""
    main = ModuleType("__main__")
    assert cli and not is_command_line(main)
    main.__spec__ = ModuleSpec(name, None)
    assert is_command_line(main)
