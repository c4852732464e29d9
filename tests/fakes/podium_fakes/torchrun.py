"""torchrun with ranks that are forks of it: PyTorch and podium are loaded once, not by each rank at each of its starts. All else is torchrun's own.

`python -m podium_fakes.torchrun --nproc-per-node 2 ... -m harness train fake ...`. torchrun forks with `--run-path --start-method fork`.
"""

import os
import signal
import sys
from pathlib import Path

NAMED = "rank {}"
"""What the kernel calls a rank: a fork keeps the words and the environment that its launcher was started with."""


def launch(words: list[str]) -> None:
    """Load what every rank needs, and be torchrun."""
    from torch.distributed.run import main as torchrun

    import harness.training.run_set
    import podium_fakes.tiny  # noqa: F401

    place = words.index("-m")
    assert words[place + 1] == "harness"
    torchrun(["--run-path", "--start-method", "fork", *words[:place], __file__, *words[place + 2 :]])


def rank() -> None:
    """Be a rank: without torchrun's handlers, which a new interpreter would not have."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Path("/proc/self/comm").write_text(NAMED.format(os.environ["RANK"]))
    from suite.cli import main

    main()


if __name__ == "__main__":
    rank() if "RANK" in os.environ else launch(sys.argv[1:])
