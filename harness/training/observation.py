"""Samples host and GPUs beside a training run, in one process a node; its file shares the fate of the run's log."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from harness.machine.telemetry.process import Sampler, plan_for
from harness.training.run_context import Job
from suite.files.layout import PARTIAL


@contextmanager
def observed(job: Job, index: int, fresh: bool) -> Iterator["Observation | None"]:
    """Sample while the block runs; only the first rank of a node does. A run that goes on continues its file."""
    if job.ranks.local_rank != 0:
        yield None
        return
    path = job.telemetry_path(index)
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)  # a run that was begun and left no state: its log was moved aside
    observation = Observation(job.name, index, job.log_path(index), Sampler(plan_for(path, job.run(0).device, goes_on=not fresh)))
    try:
        yield observation
    except BaseException:
        observation.follow_log()
        raise
    observation.end()


class Observation:
    """The sampler of one run."""

    def __init__(self, workload: str, index: int, log: Path, sampler: Sampler) -> None:
        self.workload, self.index, self.log, self.sampler = workload, index, log, sampler

    def end(self) -> None:
        """The run is over."""
        self.sampler.finish()
        self.tell()

    def follow_log(self) -> None:
        """The run broke off: the file is whole where its log is, goes on where that goes on, and goes where there is none."""
        if self.log.exists():
            self.end()
        elif self.log.with_name(self.log.name + PARTIAL).exists():
            self.sampler.pause()
            self.tell()
        else:
            self.sampler.discard()

    def tell(self) -> None:
        """Say what is lost; the run counts without it."""
        for sentence in self.sampler.lost:
            click.echo(f"{self.workload}: run {self.index}: {sentence}")
