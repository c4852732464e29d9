"""CPU threads per rank: as requested, otherwise the cores that other programs leave free."""

import click

from harness.distributed import Ranks
from harness.machine import cpus
from suite.process.launcher import from_environment
from suite.workload import Workload


def beside_others(asked: int, ranks: Ranks, begun: int = 0, *, large_kernels: bool = False) -> int:
    """Report CPU use by other programs and return threads per rank: as requested, else as the run
    began with, else this rank's share of the free cores.
    """
    busy = ranks.share(
        cpus.busy_share() if ranks.leads else 0.0
    )  # the other ranks block meanwhile, so their work is not counted as other programs'
    threads = (
        asked
        or ranks.share(begun)
        or max(
            1,
            cpus.left(busy, large_kernels=large_kernels)
            // max(1, from_environment("LOCAL_WORLD_SIZE", 1)),
        )
    )
    if ranks.leads and (sentence := told(busy, threads)):
        click.echo(sentence)
    return threads


def trains_large_kernels(workload: Workload) -> bool:
    """Return whether a workload says that its training kernels are large."""
    return getattr(workload, "trains_large_kernels", False) is True


def told(share: float, threads: int) -> str:
    """Describe CPU use by other programs if it is significant, else ""."""
    if share <= cpus.BUSY_SHARE:
        return ""
    cores = cpus.available()
    return (
        f"others use {share * cores:.1f} of {cores} cores: times will not mean much; CPU threads"
        f" taken: {threads} (--threads takes another number)"
    )
