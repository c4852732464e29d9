"""CPU threads per rank: as requested, otherwise the cores that other programs leave free."""

import click

from harness.distributed import Ranks
from harness.machine import cpus
from suite.process.launcher import read_launcher_variable


def resolve_thread_count(
    requested: int, ranks: Ranks, begun: int = 0, *, large_kernels: bool = False
) -> int:
    """Report CPU use by other programs and return threads per rank: as requested, else as the run
    began with, else this rank's share of the free cores.
    """
    # the other ranks block meanwhile, so their work is not counted as other programs'
    busy = ranks.share_value(cpus.measure_busy_share() if ranks.leads else 0.0)
    threads = (
        requested
        or ranks.share_value(begun)
        or max(
            1,
            cpus.choose_core_count(busy, large_kernels=large_kernels)
            // max(1, read_launcher_variable("LOCAL_WORLD_SIZE", 1)),
        )
    )
    if ranks.leads and (sentence := describe_busy_cores(busy, threads)):
        click.echo(sentence)
    return threads


def describe_busy_cores(share: float, threads: int) -> str:
    """Describe CPU use by other programs if it is significant, else ""."""
    if share <= cpus.BUSY_SHARE:
        return ""
    cores = cpus.count_available_cores()
    return (
        f"other programs use {share * cores:.1f} of {cores} cores, so timings are unreliable; using"
        f" {threads} CPU {'thread' if threads == 1 else 'threads'} (override with --threads)"
    )
