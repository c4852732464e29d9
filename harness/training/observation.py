"""Samples host and GPUs during a training run, in one process per node; its file is finished,
resumed or deleted with the run's log.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from harness.machine.telemetry.process import RunSampler, plan_sampling
from harness.training.run_context import TrainingJob
from suite.files.layout import PARTIAL_SUFFIX


@contextmanager
def observe_training_run(
    job: TrainingJob, index: int, fresh: bool
) -> Iterator["Observation | None"]:
    """Sample while the block runs, on the first rank of a node only. A resumed run continues its
    file.
    """
    if job.ranks.local_rank != 0:
        yield None
        return
    path = job.get_telemetry_path(index)
    path.parent.mkdir(parents=True, exist_ok=True)
    if fresh:
        path.unlink(missing_ok=True)  # the run started but left no state: its log was moved aside
    plan = plan_sampling(path, job.build_run(0).device, job.power.openings, goes_on=not fresh)
    observation = Observation(job.name, index, job.get_log_path(index), RunSampler(plan))
    try:
        yield observation
    except BaseException:
        observation.follow_log()
        raise
    time.sleep(job.power.linger_s)  # the run's clock has stopped: add a reading after its end
    observation.finish_telemetry()


def complete_telemetry(job: TrainingJob, index: int) -> None:
    """Complete the file of a run that was killed after its log was finished: its samples stay, and
    a last reading ends it.
    """
    path = job.get_telemetry_path(index)
    if job.ranks.local_rank == 0 and path.with_name(path.name + PARTIAL_SUFFIX).exists():
        plan = plan_sampling(path, job.build_run(0).device, job.power.openings, goes_on=True)
        Observation(job.name, index, job.get_log_path(index), RunSampler(plan)).finish_telemetry()


class Observation:
    """The sampler of one run."""

    def __init__(self, workload: str, index: int, log: Path, sampler: RunSampler) -> None:
        self.workload, self.index, self.log, self.sampler = workload, index, log, sampler

    def finish_telemetry(self) -> None:
        """Finish the file: the run is over."""
        self.sampler.finish()
        self.report_lost_telemetry()

    def follow_log(self) -> None:
        """After an interruption, treat the file like the log: finish it, keep it for resumption, or
        delete it.
        """
        if self.log.exists():
            self.finish_telemetry()
        elif self.log.with_name(self.log.name + PARTIAL_SUFFIX).exists():
            self.sampler.pause_sampling()
            self.report_lost_telemetry()
        else:
            self.sampler.discard_samples()

    def report_lost_telemetry(self) -> None:
        """Report why telemetry is lost; the log then says that it is."""
        for sentence in self.sampler.lost:
            click.echo(f"{self.workload}: run {self.index}: {sentence}")
