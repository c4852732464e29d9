"""Samples host and GPUs during a training run, in one process per node; its file is finished,
resumed or deleted with the run's log.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from harness.machine.telemetry.process import Sampler, plan_for
from harness.training.run_context import Job
from suite.files.layout import PARTIAL


@contextmanager
def observed(job: Job, index: int, fresh: bool) -> Iterator["Observation | None"]:
    """Sample while the block runs, on the first rank of a node only. A resumed run continues its
    file.
    """
    if job.ranks.local_rank != 0:
        yield None
        return
    path = job.telemetry_path(index)
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)  # the run started but left no state: its log was moved aside
    plan = plan_for(path, job.run(0).device, job.power.openings, goes_on=not fresh)
    observation = Observation(job.name, index, job.log_path(index), Sampler(plan))
    try:
        yield observation
    except BaseException:
        observation.follow_log()
        raise
    time.sleep(job.power.linger_s)  # the run's clock has stopped: add a reading after its end
    observation.end()


def complete(job: Job, index: int) -> None:
    """Complete the file of a run that was killed after its log was finished: its samples stay, and
    a last reading ends it.
    """
    path = job.telemetry_path(index)
    if job.ranks.local_rank == 0 and path.with_name(path.name + PARTIAL).exists():
        plan = plan_for(path, job.run(0).device, job.power.openings, goes_on=True)
        Observation(job.name, index, job.log_path(index), Sampler(plan)).end()


class Observation:
    """The sampler of one run."""

    def __init__(self, workload: str, index: int, log: Path, sampler: Sampler) -> None:
        self.workload, self.index, self.log, self.sampler = workload, index, log, sampler

    def end(self) -> None:
        """Finish the file: the run is over."""
        self.sampler.finish()
        self.tell()

    def follow_log(self) -> None:
        """After an interruption, treat the file like the log: finish it, keep it for resumption, or
        delete it.
        """
        if self.log.exists():
            self.end()
        elif self.log.with_name(self.log.name + PARTIAL).exists():
            self.sampler.pause()
            self.tell()
        else:
            self.sampler.discard()

    def tell(self) -> None:
        """Report lost telemetry; the run counts without it."""
        for sentence in self.sampler.lost:
            click.echo(f"{self.workload}: run {self.index}: {sentence}")
