"""One run of a set, from opening its log to exporting its weights, including every way it can
fail.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import click

from harness.data_survey import informed_ranks
from harness.distributed import Failure
from harness.failures import noted, sentence
from harness.kernel_errors import KernelError, lacking, lacks
from harness.progress import Progress
from harness.training import seeds
from harness.training.export import export
from harness.training.log_header import hyperparameters, opening
from harness.training.loop import Ending, Goal, Outcome, train_to_quality
from harness.training.mllog_writer import Log, LogError
from harness.training.observation import Observation, observed
from harness.training.plugin_values import check_facts
from harness.training.run_context import Job
from harness.training.state import attempts
from harness.training.state.checkpointing import Keeper, generations
from harness.training.state.set_state import Campaign, end_run
from suite import events
from suite.console.screen import note
from suite.errors import AbortedError, JudgedError, PodiumError, RequestError, TemporaryError
from suite.files.json_files import write_json
from suite.files.layout import PARTIAL, STATE
from suite.files.superseded import supersede
from suite.process import garbage
from suite.process.signals import Interrupted
from suite.rounds import Division, HyperValue
from suite.workload import Run, Training


def timed_run(job: Job, campaign: Campaign, index: int) -> Outcome:
    """Train once, or resume an interrupted run; on all ranks.

    Finishes the log if there is nothing to export (the loss or score was not finite); otherwise
    `seal` finishes it.
    """
    path = job.log_path(index)
    fresh = job.ranks.share(not generations(job.state(index)))
    if fresh and job.ranks.leads:  # interrupted before its first checkpoint: nothing to resume
        supersede(job.entry.results, [path.with_name(path.name + PARTIAL)], job.place.results)
    run = informed_ranks(job.request, job.run(campaign.seed + index), job.ranks)
    with Log(path if job.ranks.leads else None) as log, ExitStack() as stack:
        with before_clock(job, index, log, fresh):
            observation = stack.enter_context(observed(job, index, fresh))
            training = set_up(job, campaign, index, log, run, fresh)
            keeper = Keeper(
                job.state(index),
                log,
                job.ranks,
                job.signals,
                float(str(run.settings["checkpoint.interval_s"])),
            )
            progress = shown(job, training)
        with (
            inside_clock(job, campaign, index, log, observation),
            job.signals.postponed(),
            progress,
        ):
            goal = Goal(targets=job.row.target, metrics=job.request.row.metrics)
            outcome = train_to_quality(training, goal, log, keeper, job.ranks, progress)
        if job.ranks.leads and outcome.ending is Ending.NOT_A_NUMBER:
            attempts.finish(job, campaign, index, log, outcome.ending)
        elif job.ranks.leads:
            export(training, outcome, log, job.state(index))
    return outcome


def shown(job: Job, training: Training) -> Progress:
    """Announce the run, and build its progress display."""
    samples = int(str(training.facts()[events.TRAIN_SAMPLES]))
    if job.ranks.leads:
        goal = " and ".join(f"{metric} {target:.4f}" for metric, target in job.row.target.items())
        note(
            f"{job.name}: training until {goal}, at most {job.row.max_epochs} epochs of {samples:,}"
            " samples"
        )
    return Progress(
        job.name, samples, training.loss, job.row.target, not job.ranks.leads, job.row.max_epochs
    )


def set_up(job: Job, campaign: Campaign, index: int, log: Log, run: Run, fresh: bool) -> Training:
    """Build the model outside the clock; log the data facts of a new run. No data set is opened
    yet.
    """
    if fresh:
        opening(log, job.request, job.entry, campaign, index, run)
    seeds.start(run.seed, run.rank, run.framework)
    training = job.request.workload.training(run)
    facts = training.facts()
    check_facts(job.request, job.row, facts)
    if fresh:
        hyperparameters(log, job.hyper, facts, job.row)
    check_data(job, facts)
    if job.ranks.leads:  # nothing is refused after this
        write_json(job.place.system_file, job.system)
        attempts.begun(job, campaign)
    garbage.look_as_usual()  # no freeze: it would keep the model of each run of a set for good
    job.ranks.wait()
    return training


def check_data(job: Job, facts: Mapping[str, HyperValue]) -> None:
    """Before the clock starts, report data of other sizes than the profile's: the run does not
    count. RequestError in the closed division.
    """
    told = list(other_data(job, facts))
    if told and job.row.division is Division.CLOSED:
        raise RequestError(
            f"{job.name}: {'; '.join(told)}: in the closed division other data are not allowed;"
            " --profile quick accepts any data"
        )
    for difference in told if job.ranks.leads else ():
        click.echo(f"{job.name}: {difference}: the judge will reject this run")


def other_data(job: Job, facts: Mapping[str, HyperValue]) -> Iterator[str]:
    """Yield the differences from the data sizes that the row requires."""
    for key, (fewest, most) in job.row.samples().items():
        found = facts.get(key)
        if not (isinstance(found, int) and fewest <= found <= most):
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            yield f"{key} {found}, and profile {job.request.profile} asks for {wanted}"


@contextmanager
def before_clock(job: Job, index: int, log: Log, fresh: bool) -> Iterator[None]:
    """Handle any exception before the clock: no run has started, so delete a new log, but keep one
    that is to be resumed.
    """
    try:
        yield
    except BaseException as error:
        if fresh and job.ranks.leads:
            with job.signals.postponed():  # torchrun ends the other ranks as soon as one has failed
                log.close()
                log.partial.unlink(missing_ok=True)
        if not isinstance(error, Exception) or isinstance(error, PodiumError | ModuleNotFoundError):
            raise
        if failure := job.ranks.cause(error):
            raise failure.error() from error
        if lacks(error):
            raise KernelError(
                f"{lacking(job.name, job.precision, error)};"
                f" {noted(job.entry.results / STATE, job.ranks.rank, error)}"
            ) from error
        raise JudgedError(
            f"{job.name}: could not be set up: {sentence(error)};"
            f" {noted(job.state(index), job.ranks.rank, error)}"
        ) from error


@contextmanager
def inside_clock(
    job: Job, campaign: Campaign, index: int, log: Log, observation: Observation | None = None
) -> Iterator[None]:
    """Keep the log's `.partial` name for resumption after a signal or a lost rank; on any other
    exception finish it as aborted.
    """
    if job.watch:
        job.watch.last_words = lambda failure: abort(
            job, campaign, index, log, failure, observation
        )
    try:
        yield
    except (LogError, TemporaryError):
        raise
    except (Exception, Interrupted) as error:
        with job.signals.postponed():
            # a rank that fails says so first; it breaks the others' collectives, and torchrun
            # signals them
            failure = job.ranks.failure()
        if failure is None and not isinstance(error, Interrupted):
            failure = job.ranks.cause(error)
        with job.signals.postponed():
            end_run_after(job, campaign, index, log, error, failure)
        raise


def end_run_after(
    job: Job,
    campaign: Campaign,
    index: int,
    log: Log,
    error: Exception | Interrupted,
    failure: Failure | None,
) -> None:
    """End a run that an error of this rank or of another one broke, as aborted; return if it goes
    on later, as behind a signal.
    """
    if isinstance(error, Interrupted) and (failure is None or failure.lost):
        return
    if job.signals.received and not failure:
        raise job.signals.received from error
    if failure and failure.lost:
        raise failure.error() from error
    told = failure.sentence if failure else sentence(error)
    if not failure:
        job.ranks.fail(
            told
        )  # before the log is finished: the others' collectives fail as soon as this rank is gone
    if job.ranks.leads:
        attempts.finish(job, campaign, index, log, Ending.BROKEN)
        end_run(job.place.results, job.name, campaign, index, Ending.BROKEN)
    if lacks(error):  # that folder outlives the run's own state
        raise KernelError(
            f"{lacking(job.name, job.precision, error)};"
            f" {noted(job.entry.results / STATE, job.ranks.rank, error)}"
        ) from error
    raise AbortedError(
        f"{job.name}: run {index} aborted: {told}; {noted(job.state(index), job.ranks.rank, error)}"
    ) from error


def abort(
    job: Job,
    campaign: Campaign,
    index: int,
    log: Log,
    failure: Failure,
    observation: Observation | None,
) -> None:
    """End the run from another thread, while the main thread is blocked in a collective."""
    click.echo(
        f"podium: {job.name}: run {index} {'stopped' if failure.lost else 'aborted'}:"
        f" {failure.sentence}",
        err=True,
    )
    if job.ranks.leads and not failure.lost:
        log.stop(events.RUN_STOP, status=events.ABORTED)
        attempts.finish(job, campaign, index, log, Ending.BROKEN)
        end_run(job.place.results, job.name, campaign, index, Ending.BROKEN)
    if observation is not None:
        observation.follow_log()
