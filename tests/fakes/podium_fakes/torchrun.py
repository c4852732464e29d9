"""torchrun with ranks that are forks of it: PyTorch and podium are loaded once, not by each rank at
each of its starts. All else is torchrun's own.

`python -m podium_fakes.torchrun --nproc-per-node 2 ... -m harness train fake ...`, or `launch` in a
process that has them. torchrun forks with `--run-path --start-method fork`.
"""

import logging
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from suite import registry
from suite.cli import main

NAMED = "rank {}"
"""What the kernel calls a rank: a fork keeps the words and the environment that its launcher was
started with.
"""

TELLS = "torch.distributed.elastic.multiprocessing.api"
"""Logs a fork that failed, with a traceback of torchrun's own; to format one, PyTorch loads its
compiler.
"""


def without_traceback(record: logging.LogRecord) -> bool:
    """Log what ranks in interpreters of their own would be logged with."""
    record.exc_info = None
    return True


def launch(words: list[str]) -> None:
    """Load what every rank needs, and be torchrun."""
    from torch.distributed.run import main as torchrun

    for needed in (
        "harness.training.run_set",
        "podium_fakes.tiny",
        *(["torch._dynamo"] if "fake.ddp=true" in words else []),
    ):
        import_module(needed)
    registry.load_round()
    logging.getLogger(TELLS).addFilter(without_traceback)
    place = words.index("-m")
    assert words[place + 1] == "harness"
    torchrun(
        ["--run-path", "--start-method", "fork", *words[:place], __file__, *words[place + 2 :]]
    )


def rank() -> None:
    """Be a rank: without torchrun's handlers, which a new interpreter would not have."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Path("/proc/self/comm").write_text(NAMED.format(os.environ["RANK"]))
    main()


if __name__ == "__main__":
    rank() if "RANK" in os.environ else launch(sys.argv[1:])
