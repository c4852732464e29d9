"""One run of a set, from opening its log to exporting its weights, including every way it can
fail.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import click

from harness.data_survey import add_survey_results_on_ranks
from harness.data_workers import count_rank_cores
from harness.distributed import RankFailure
from harness.failures import (
    describe_exception,
    describe_machine_error,
    is_data_worker_lost,
    write_traceback,
)
from harness.kernel_errors import KernelError, describe_missing_kernel, is_kernel_missing
from harness.progress import Progress
from harness.training import seeds
from harness.training.export import export_weights
from harness.training.log_header import log_hyperparameters, log_run_header
from harness.training.loop import RunEnding, TrainingGoal, TrainingOutcome, train_to_quality
from harness.training.mllog_writer import LogError, MllogWriter
from harness.training.observation import Observation, observe_training_run
from harness.training.plugin_values import check_facts
from harness.training.run_context import TrainingContext, TrainingJob
from harness.training.state import attempts
from harness.training.state.checkpointing import CheckpointKeeper, list_checkpoint_numbers
from harness.training.state.set_state import TrainingSetState, record_run_ending
from harness.training.step_preparation import prepare_training_steps
from suite import events
from suite.console.screen import print_progress_note
from suite.errors import (
    AbortedError,
    JudgedError,
    MachineError,
    PodiumError,
    RequestError,
    TemporaryError,
)
from suite.files.json_files import write_json
from suite.files.layout import PARTIAL_SUFFIX, STATE_FOLDER
from suite.files.superseded import move_to_superseded
from suite.process import garbage
from suite.process.signals import Interrupted
from suite.rounds import Division, HyperValue
from suite.rounds.quality import format_target_value
from suite.rounds.settings import DATA_WORKERS_SETTING
from suite.workload import Run, ShardedTraining, Training


def run_timed_training(job: TrainingJob, campaign: TrainingSetState, index: int) -> TrainingOutcome:
    """Train once, or resume an interrupted run; on all ranks.

    Finishes the log if there is nothing to export (the loss or score was not finite); otherwise
    `seal` finishes it.
    """
    path = job.get_log_path(index)
    fresh = job.ranks.share_value(not list_checkpoint_numbers(job.get_state_folder(index)))
    if fresh and job.ranks.leads:  # interrupted before its first checkpoint: nothing to resume
        move_to_superseded(
            [path.with_name(path.name + PARTIAL_SUFFIX)],
            results=job.entry.results,
            relative_to=job.working_entry.results,
        )
    run = add_survey_results_on_ranks(job.request, job.build_run(campaign.seed + index), job.ranks)
    with MllogWriter(path if job.ranks.leads else None) as log:
        with ExitStack() as stack:
            with handle_setup_failures(job, index, log, fresh):
                observation = stack.enter_context(observe_training_run(job, index, fresh))
                training = set_up_training(job, campaign, index, log, run, fresh)
                keeper = CheckpointKeeper(
                    job.get_state_folder(index),
                    log,
                    job.ranks,
                    job.signals,
                    float(str(run.settings["checkpoint.interval_s"])),
                )
                progress = announce_training_run(job, training)
            with (
                handle_timed_failures(job, campaign, index, log, observation),
                job.signals.postpone(),
                progress,
            ):
                outcome = train_to_quality(
                    training, build_training_goal(job), log, keeper, job.ranks, progress
                )
        # telemetry has ended with the clock: an export may take as long as the run
        if outcome.ending is not RunEnding.NOT_A_NUMBER:
            export_trained_weights(job, index, training, outcome, log)
        elif job.ranks.leads:
            attempts.record_run_end(job, campaign, index, log, outcome.ending)
    return outcome


def build_training_goal(job: TrainingJob) -> TrainingGoal:
    """Return what ends a run."""
    return TrainingGoal(
        targets=job.training.row.target,
        metrics=job.request.row.metrics,
        lower_is_better=job.request.row.lower_is_better,
        evaluations_below=job.request.row.evaluations_below,
        counts_samples=job.request.row.counts_samples,
    )


def export_trained_weights(
    job: TrainingJob, index: int, training: Training, outcome: TrainingOutcome, log: MllogWriter
) -> None:
    """Gather weights that are divided among the ranks, and export them on rank 0. If a rank is lost
    meanwhile, the run resumes from its last checkpoint.
    """
    try:
        if isinstance(training, ShardedTraining):
            training.gather_weights()
        if job.ranks.leads:
            export_weights(training, outcome, log, job.get_state_folder(index))
    except PodiumError:
        raise
    except Exception as error:
        if failure := job.ranks.find_cause(error):
            raise failure.build_error() from error
        raise build_failed_step_error(
            job, index, "the weights could not be saved", error
        ) from error


def build_failed_step_error(
    job: TrainingJob, index: int, what: str, error: Exception
) -> PodiumError:
    """Build the error for a step outside the clock that failed: the machine's or the workload's."""
    machine = describe_machine_error(error, folder=job.entry.results)
    return (MachineError if machine else JudgedError)(
        f"{job.name}: {what}:"
        f" {describe_exception(error, job.request.settings, job.entry.results)};"
        f" {write_traceback(job.get_state_folder(index), job.ranks.rank, error)}"
    )


def announce_training_run(job: TrainingJob, training: Training) -> Progress:
    """Announce the run, and build its progress display."""
    row, samples = job.training.row, int(str(training.facts()[events.TRAIN_SAMPLES]))
    lower = job.request.row.lower_is_better
    if job.ranks.leads:
        goal = " and ".join(
            f"{metric} {format_target_value(metric, f'{target:.4f}', lower)}"
            for metric, target in row.target.items()
        )
        print_progress_note(
            f"{job.name}: training until {goal}, at most {row.max_epochs} epochs of {samples:,}"
            " samples"
        )
        if job.request.workers_chosen:
            print_progress_note(
                f"{job.name}: {DATA_WORKERS_SETTING}="
                f"{job.request.settings[DATA_WORKERS_SETTING]}: {job.request.workers_chosen}"
            )
    return Progress(
        job.name,
        samples,
        training.loss,
        row.target,
        not job.ranks.leads,
        row.max_epochs,
        lower,
        describe_data_loading(job.request.settings),
    )


def describe_data_loading(settings: Mapping[str, HyperValue]) -> str:
    """Say how many processes load data and how many of this rank's cores have nothing to do; empty
    for a workload without that setting.
    """
    workers = settings.get(DATA_WORKERS_SETTING)
    if not isinstance(workers, int):
        return ""
    idle = max(0, count_rank_cores() - workers - 1)
    return f"{DATA_WORKERS_SETTING}={workers}, {idle} {'core' if idle == 1 else 'cores'} idle"


def set_up_training(
    job: TrainingJob,
    campaign: TrainingSetState,
    index: int,
    log: MllogWriter,
    run: Run,
    fresh: bool,
) -> Training:
    """Build the model outside the clock; log the data facts of a new run. No data set is opened
    yet.
    """
    if fresh:
        log_run_header(log, job.request, job.entry, campaign, index, run)
    training, facts = build_checked_training(job, run)
    prepare_training_steps(job, training, log, fresh)
    if fresh:
        log_hyperparameters(log, job.request, job.training.hyper, facts, job.training.row)
    if job.ranks.leads:  # nothing is refused after this
        write_json(job.working_entry.system_file, job.training.system)
        attempts.record_set_start(job, campaign)
    # no freeze: it would keep the model of each run of a set for good
    garbage.collect_garbage_as_usual()
    job.ranks.wait_for_ranks()
    return training


def build_checked_training(
    job: TrainingContext, run: Run
) -> tuple[Training, Mapping[str, HyperValue]]:
    """Seed the generators, build a run's training and check the facts of its data; RequestError if
    they are refused.
    """
    seeds.seed_generators(run.seed, run.rank, run.framework)
    training = job.request.workload.build_training(run)
    facts = training.facts()
    check_facts(job.request, job.training.row, facts)
    check_data_sizes(job, facts)
    check_evaluation_schedule(job, training.blocks())
    return training, facts


def check_evaluation_schedule(job: TrainingContext, blocks: Iterable[range]) -> None:
    """Before the clock starts, RequestError if the workload evaluates after other epochs than the
    row says: the judge would refuse the run (training.schedule).
    """
    row, last = job.training.row, None
    for block in blocks:
        due = row.list_due_epochs(last)
        is_due = block[-1] in due or block[-1] == row.max_epochs
        if not is_due or block[-1] > row.max_epochs:
            wanted = " or ".join(map(str, due)) or "no epoch"
            raise RequestError(
                f"{job.name}: blocks() ends a block with epoch {block[-1]}, and the row wants the"
                f" next evaluation after {wanted}, of at most {row.max_epochs}: change blocks(),"
                " evaluate_every_epochs or evaluation_epochs"
            )
        last = block[-1]
    if last is None:
        raise RequestError(f"{job.name}: blocks() yields no epochs, so that nothing is evaluated")


def check_data_sizes(job: TrainingContext, facts: Mapping[str, HyperValue]) -> None:
    """Before the clock starts, report data of other sizes than the profile's: the run does not
    count. RequestError in the closed division.
    """
    found_differences = list(find_size_differences(job, facts))
    if found_differences and job.training.row.division is Division.CLOSED:
        raise RequestError(
            f"{job.name}: {'; '.join(found_differences)}: in the closed division other data are not"
            " allowed; --profile quick accepts any data"
        )
    if not job.ranks.leads:
        return
    for difference in found_differences:
        click.echo(f"{job.name}: {difference}: the judge will reject this run")


def find_size_differences(job: TrainingContext, facts: Mapping[str, HyperValue]) -> Iterator[str]:
    """Yield the differences from the data sizes that the row requires."""
    for key, (fewest, most) in job.training.row.collect_sample_limits().items():
        found = facts.get(key)
        if not (isinstance(found, int) and fewest <= found <= most):
            wanted = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            yield f"{key} {found}, and profile {job.request.profile} requires {wanted}"


@contextmanager
def handle_setup_failures(
    job: TrainingJob, index: int, log: MllogWriter, fresh: bool
) -> Iterator[None]:
    """Handle any exception before the clock: no run has started, so delete a new log, but keep one
    that is to be resumed.
    """
    try:
        yield
    except BaseException as error:
        if fresh and job.ranks.leads:
            with job.signals.postpone():  # torchrun ends the other ranks as soon as one has failed
                log.close()
                log.partial.unlink(missing_ok=True)
        if not isinstance(error, Exception) or isinstance(error, PodiumError | ImportError):
            raise
        if failure := job.ranks.find_cause(error):
            raise failure.build_error() from error
        if is_kernel_missing(error):
            raise KernelError(
                f"{describe_missing_kernel(job.name, job.request.precision, error)};"
                f" {write_traceback(job.entry.results / STATE_FOLDER, job.ranks.rank, error)}"
            ) from error
        raise build_failed_step_error(job, index, "could not be set up", error) from error


@contextmanager
def handle_timed_failures(
    job: TrainingJob,
    campaign: TrainingSetState,
    index: int,
    log: MllogWriter,
    observation: Observation | None = None,
) -> Iterator[None]:
    """Keep the log's `.partial` name for resumption after a signal, a lost rank or a lost data
    worker; on any other exception finish it as aborted.
    """
    if job.watch:
        job.watch.last_words = lambda failure: end_blocked_run(
            job, campaign, index, log, failure, observation
        )
    try:
        yield
    except (LogError, TemporaryError):
        raise
    except (Exception, Interrupted) as error:
        with job.signals.postpone():
            # a rank that fails says so first; it breaks the others' collectives, and torchrun
            # signals them
            failure = job.ranks.find_failure()
        if failure is None and not isinstance(error, Interrupted):
            failure = job.ranks.find_cause(error)
        with job.signals.postpone():
            end_broken_run(job, campaign, index, log, error, failure)
        raise


def end_broken_run(
    job: TrainingJob,
    campaign: TrainingSetState,
    index: int,
    log: MllogWriter,
    error: Exception | Interrupted,
    failure: RankFailure | None,
) -> None:
    """End a run that an error of this rank or of another one broke, as aborted; return if it goes
    on later, as behind a signal. A lost data worker leaves it as a lost rank does.
    """
    if isinstance(error, Interrupted) and (failure is None or failure.lost):
        return
    if job.signals.received and not failure:
        raise job.signals.received from error
    if failure and failure.lost:
        raise failure.build_error() from error
    if failure:
        reason = failure.sentence
    else:
        reason = describe_exception(error, job.request.settings, job.entry.results)
    if not failure and is_data_worker_lost(error):
        job.ranks.report_failure(reason, lost=True)
        raise TemporaryError(
            f"run {index} stopped: {reason};"
            f" {write_traceback(job.get_state_folder(index), job.ranks.rank, error)}"
        ) from error
    if not failure:
        # before the log is finished: the others' collectives fail as soon as this rank is gone
        job.ranks.report_failure(reason)
    if job.ranks.leads:
        attempts.record_run_end(job, campaign, index, log, RunEnding.BROKEN)
        record_run_ending(job.working_entry.results, job.name, campaign, index, RunEnding.BROKEN)
    if is_kernel_missing(error):  # that folder outlives the run's own state
        raise KernelError(
            f"{describe_missing_kernel(job.name, job.request.precision, error)};"
            f" {write_traceback(job.entry.results / STATE_FOLDER, job.ranks.rank, error)}"
        ) from error
    machine = describe_machine_error(error, folder=job.entry.results)
    raise (MachineError if machine else AbortedError)(
        f"{job.name}: run {index} aborted: {reason};"
        f" {write_traceback(job.get_state_folder(index), job.ranks.rank, error)}"
    ) from error


def end_blocked_run(
    job: TrainingJob,
    campaign: TrainingSetState,
    index: int,
    log: MllogWriter,
    failure: RankFailure,
    observation: Observation | None,
) -> None:
    """End the run from another thread, while the main thread is blocked in a collective."""
    click.echo(
        f"podium: {job.name}: run {index} {'stopped' if failure.lost else 'aborted'}:"
        f" {failure.sentence}",
        err=True,
    )
    if job.ranks.leads and not failure.lost:
        log.log_stop(events.RUN_STOP, status=events.ABORTED)
        attempts.record_run_end(job, campaign, index, log, RunEnding.BROKEN)
        record_run_ending(job.working_entry.results, job.name, campaign, index, RunEnding.BROKEN)
    if observation is not None:
        observation.follow_log()
