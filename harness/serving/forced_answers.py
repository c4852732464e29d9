"""How likely PyTorch finds the answers of an accuracy run, written beside them, so that the judge
can compare it with what the system said (`reference_logprobs.npy`).
"""

from dataclasses import dataclass
from pathlib import Path

import click

from harness.children.process import Abort, run_in_child
from harness.serving.loadgen.query_times import write_record_array
from harness.serving.setup import ServingSetup
from suite.errors import PodiumError
from suite.files.layout import LOGPROB_FILE, REFERENCE_LOGPROB_FILE
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.logprob_record import MAX_KEPT_SAMPLES
from suite.workload import Run, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcingJob:
    """What a child needs to force the answers of a run."""

    workload: Workload
    run: Run
    checkpoint: Path
    folder: Path
    """Of the run."""


def force_logged_answers(setup: ServingSetup, folder: Path) -> None:
    """Write the reference's file beside the answers of a run, if the system said how likely these
    are; without PyTorch or memory for it, say so and write nothing: the run counts without it.
    """
    workload = setup.request.workload
    if workload.force_answers is None or not (folder / LOGPROB_FILE).is_file():
        return
    system = setup.system
    job = ForcingJob(workload=workload, run=system.run, checkpoint=system.checkpoint, folder=folder)
    try:
        problem = run_in_child(write_forced_answers, job)
    except PodiumError as error:
        problem = str(error)
    if problem:
        click.echo(f"  how likely PyTorch finds the answers is not known: {problem}")


def write_forced_answers(job: ForcingJob, _: Abort) -> str:
    """Compute and write the file, in a child; return why it could not be written, or ""."""
    answers = dict(read_logged_answers(job.folder))
    first = {each: answers[each] for each in sorted(answers) if each < MAX_KEPT_SAMPLES}
    table = job.workload.force_known_answers(job.run, job.checkpoint, first)
    return write_record_array(job.folder / REFERENCE_LOGPROB_FILE, lambda: table)
