"""A script in a fork of an interpreter that has loaded what scripts have in common, and so are the
processes that it starts by `multiprocessing`: loading PyTorch takes longer than most tiny runs.
"""

import multiprocessing
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from offered_packages import forget_lookups

from harness.children import process, template


def launch(words: Sequence[str]) -> None:
    """Run the script that the first word names, with the others as its arguments."""
    context = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: context  # type: ignore[assignment]
    process.templates[:] = [template.ForkTemplate((), broken=True)]  # this process is one already
    forget_lookups()  # a script may bring workloads of its own
    sys.argv = list(words)
    sys.path.insert(0, str(Path(words[0]).parent))
    runpy.run_path(words[0], run_name="__main__")
