"""`podium ...` with LoadGen's processes forked: each spawned one spends a sixth of a second on
loading the modules that its parent has here.
"""

import multiprocessing
import sys
from collections.abc import Sequence

import numpy  # noqa: F401  # like the next two, what each of LoadGen's processes needs

from harness.children import process, template
from harness.serving.loadgen import session  # noqa: F401
from harness.serving.loadgen.test_settings import import_loadgen
from suite.cli import main


def launch(words: Sequence[str]) -> None:
    """Be `podium WORDS`."""
    context = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: context  # type: ignore[assignment]
    import_loadgen()
    process.templates[:] = [template.ForkTemplate((), broken=True)]  # this process is one already
    sys.argv = ["podium", *words]
    main()
