"""`podium train`: a set of runs, each from the request to a finished log and checkpoint."""

import gc
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.distributed import RankFailed, Ranks, join_launched_ranks
from harness.doctor.dtype_trials import check_training_precision
from harness.failures import describe_exception
from harness.machine.power.chosen import ChosenPower
from harness.machine.power.selection import choose_power_sources
from harness.progress import Heartbeat
from harness.thread_count import resolve_thread_count
from harness.training.energy import describe_run_energy
from harness.training.export import read_stopped_run, seal_training_run
from harness.training.loop import RunEnding, TrainingOutcome
from harness.training.observation import complete_telemetry
from harness.training.request import TrainingRequest, resolve_training_request
from harness.training.run_context import TrainingJob
from harness.training.state import set_state
from harness.training.state.resume import (
    convert_options_to_json,
    find_resumed_thread_count,
    format_resume_command,
    identify_launcher,
    resolve_resumed_options,
    resume_unfinished_set,
)
from harness.training.state.set_state import TrainingSetState
from harness.training.state.shared_filesystem import check_shared_results_folder
from harness.training.timed_run import run_timed_training
from suite.cli import RunOptions
from suite.console.options import DEFAULT_RESULTS
from suite.console.screen import convert_to_user_path, get_output_level, print_progress_note
from suite.errors import (
    JudgedError,
    MachineError,
    MissingError,
    RequestError,
    TemporaryError,
)
from suite.files.superseded import SupersededFiles
from suite.ledger.steps import find_challenge_fault
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, Signals, raise_signals_in_block
from suite.rounds.quality import format_target_sign, has_reached_target


def train_run_set(
    workload: str,
    options: RunOptions,
    *,
    seed: int | None = None,
    runs: int | None = None,
    resume: bool = False,
    given: Collection[str] | None = None,
    challenge: str | None = None,
) -> None:
    """Train a set of runs; JudgedError if one fails, or if more miss the target than the round
    allows.

    RequestError for errors detected before the clock starts. Interrupted, or TemporaryError if a
    rank is lost,
    leave a set that `resume` continues. `given` names the options that the user typed: `resume`
    reads the others
    from the set; None: all were typed. `challenge`: hexadecimal digits that somebody else chose,
    from which a new set's nonce is made.
    """
    check_challenge(challenge)
    if resume and given is not None:
        options = resolve_resumed_options(workload, options, given)
    training = resolve_training_request(workload, options)
    request, entry = training.request, training.entry
    with (
        raise_signals_in_block() as signals,
        join_launched_ranks(request.device) as (ranks, watch),
        report_rank_failures(ranks, signals, workload, options),
        Heartbeat(silent=not ranks.leads),
    ):
        if ranks.leads:
            announce_preparation(training)
            check_training_precision(request)
        with lock_results_folder(entry.results) if ranks.leads else nullcontext():
            check_shared_results_folder(entry.results, ranks)
            threads_at_start = 0
            if ranks.leads and (resume or ranks.restarts):
                threads_at_start = find_resumed_thread_count(entry, workload, ranks.restarts)
            if ranks.local_rank == 0:
                power = choose_power_sources(options.power, options.meter, request.settings)
            else:
                power = ChosenPower()
            threads = resolve_thread_count(
                options.threads,
                ranks,
                threads_at_start,
                large_kernels=request.workload.has_large_kernels,
            )
            job = TrainingJob(
                training=training,
                working_entry=entry,
                threads=threads,
                ranks=ranks,
                watch=watch,
                signals=signals,
                power=power,
            )
            train_remaining_runs(job, seed, runs, resume, challenge)


def announce_preparation(training: TrainingRequest) -> None:
    """Say what comes before the clock, and that the row's precision is not taken where the
    processor would emulate it.
    """
    request, usual = training.request, training.row.precision
    print_progress_note(
        f"{request.name}: preparing, profile {request.profile}: the data survey and the model"
        " come before the clock"
    )
    if request.precision != (request.options.precision or usual):
        print_progress_note(
            f"{request.name}: this processor has no instructions for {usual} and would emulate it,"
            f" so training takes {request.precision}; --precision {usual} trains in {usual}"
        )


def check_challenge(challenge: str | None) -> None:
    """Refuse a challenge that is not 8 to 64 bytes in hexadecimal digits."""
    if challenge is not None and (problem := find_challenge_fault(challenge)):
        raise RequestError(f"--challenge: {problem}")


def train_remaining_runs(
    job: TrainingJob, seed: int | None, runs: int | None, resume: bool, challenge: str | None = None
) -> None:
    """Train the set's remaining runs; one refused before its first clock leaves nothing, and an
    earlier set stays until this one is complete.
    """
    job, campaign, moved = open_training_set(job, seed, runs, resume, challenge)
    fresh = moved is not None
    for index in range(campaign.runs):
        try:
            campaign = train_or_complete_run(job, campaign, index)
        except MachineError:
            raise  # in the midst of a run, which can be resumed
        except (RequestError, MissingError):
            if moved is not None and fresh:
                set_state.remove_refused_set(job.entry, job.working_entry, job.name)
                moved.move_back()
            raise
        fresh = False
    if job.ranks.leads and job.working_entry != job.entry:
        with job.signals.postpone():
            place_complete_set(job, campaign)
            job.ledger.settle()
    if job.ranks.leads:
        print_next_command(job, campaign)
    check_missed_runs(job, campaign)


def print_next_command(job: TrainingJob, campaign: TrainingSetState) -> None:
    """Print the path of the logs and the next command."""
    good = not has_too_many_misses(job, count_missed_runs(campaign), campaign.runs)
    moved = good and get_output_level().moving is not None  # by the campaign, which names the place
    if not moved and (good or job.working_entry == job.entry):
        logs = job.entry.results / campaign.logs
        shown = convert_to_user_path(logs, job.request.options.results)
        print_progress_note(f"{job.name}: logs in {shown}")
    if good and not get_output_level().inner:
        command = ["podium", "infer", job.name, *iterate_unusual_options(job.request.options)]
        print_progress_note(f"next: {shlex.join(command)}")


def iterate_unusual_options(options: RunOptions) -> Iterator[str]:
    """Yield the options with which the next command finds these results and this data."""
    given = {
        "--profile": options.profile.value,
        "--data": options.data,
        "--results": options.results,
        "--org": options.org,
    }
    defaults = {
        "--profile": "smoke",
        "--data": None,
        "--results": DEFAULT_RESULTS,
        "--org": "unaffiliated",
    }
    for option, value in given.items():
        if value != defaults[option]:
            yield from (option, str(value))


def place_complete_set(job: TrainingJob, campaign: TrainingSetState) -> None:
    """Move a complete set to its final place; one that missed its target does not replace one that
    reached it.
    """
    logs = sorted((job.entry.results / campaign.logs).glob(set_state.LOG_PATTERN))
    earlier = len(logs) - sum(map(has_log_reached_target, logs))
    if (
        not (campaign.chosen or campaign.displacing)
        and has_too_many_misses(job, count_missed_runs(campaign), campaign.runs)
        and not has_too_many_misses(job, earlier, len(logs))
    ):
        set_aside_folder = set_state.set_training_aside(job.entry, job.working_entry)
        click.echo(
            f"{job.name}: the earlier result reached the target and stays in place; this one is"
            f" stored in {set_aside_folder}"
        )
    else:
        set_state.move_set_into_results(job.entry, job.working_entry, job.name, campaign)


@contextmanager
def report_rank_failures(
    ranks: Ranks, signals: Signals, workload: str, options: RunOptions
) -> Iterator[None]:
    """Report this rank's failure to the other ranks (they receive signals themselves), and the
    resume command to the user.

    A launcher sends the remaining ranks a signal if one is lost: the sentence names both, the exit
    code is the signal's.
    """
    try:
        yield
    except RankFailed:
        raise
    except (Interrupted, TemporaryError) as error:
        ended = signals.received or error
        if ended is error or isinstance(error, Interrupted):
            reason = str(error)
        else:
            reason = f"{ended}: {error}"
        raise type(ended)(
            f"{workload}: {reason}; to go on: {format_resume_command(ranks, workload, options)}"
        ) from error
    except BaseException as error:
        with signals.postpone():  # the error says more than a signal behind it
            ranks.report_failure(describe_exception(error))
        raise


def open_training_set(
    job: TrainingJob, seed: int | None, runs: int | None, resume: bool, challenge: str | None = None
) -> tuple[TrainingJob, TrainingSetState, SupersededFiles | None]:
    """Resume or begin a set on rank 0, and share it with all ranks. Rank 0 also gets what it moved
    aside for a new set.
    """
    found: dict[str, Any] = {}
    place, moved = job.entry, None
    if job.ranks.leads:
        resumed = None
        if resume or job.ranks.restarts:
            resumed = resume_unfinished_set(job, seed, runs)
        if resumed is not None:
            place, campaign = resumed
        else:
            options = convert_options_to_json(job.request.options)
            campaign = set_state.create_set_state(
                job.collect_identity(),
                seed,
                runs or job.training.row.runs,
                options,
                identify_launcher(),
                challenge,
            )
            place, moved = set_state.begin_training_set(
                job.entry, job.request.row.training_name, job.name, campaign
            )
            campaign = set_state.read_set_state(place.results, job.name) or campaign
        found = {
            "campaign": set_state.convert_set_state_to_json(campaign),
            "results": str(place.results),
        }
    found = job.ranks.share_value(found)
    return (
        replace(job, working_entry=replace(job.entry, results=Path(found["results"]))),
        set_state.parse_set_state(found["campaign"]),
        moved,
    )


def train_or_complete_run(
    job: TrainingJob, campaign: TrainingSetState, index: int
) -> TrainingSetState:
    """Complete one run of the set; a finished one stays as it is."""
    if str(index) in campaign.endings:
        return campaign
    stopped = job.ranks.leads and read_stopped_run(job.get_state_folder(index)) is not None
    if job.ranks.share_value(stopped):
        outcome = TrainingOutcome()
        complete_telemetry(job, index)
    else:
        outcome = run_timed_training(job, campaign, index)
        gc.collect()  # a training may refer to itself: its loaders end here, its memory is free
    if job.ranks.leads:
        campaign = finish_training_run(job, campaign, index, outcome)
    return set_state.parse_set_state(
        job.ranks.share_value(set_state.convert_set_state_to_json(campaign))
    )


def finish_training_run(
    job: TrainingJob, campaign: TrainingSetState, index: int, outcome: TrainingOutcome
) -> TrainingSetState:
    """Seal the run's results, report how it ended, and delete its state."""
    stopped = read_stopped_run(job.get_state_folder(index))
    outcome = stopped.outcome if stopped else outcome
    sha256 = None
    if stopped:
        sha256 = seal_training_run(job, campaign, index, stopped)
    campaign = set_state.record_run_ending(
        job.working_entry.results, job.name, campaign, index, outcome.ending
    )
    shutil.rmtree(job.get_state_folder(index), ignore_errors=True)
    number = ""
    if campaign.runs > 1:
        number = f" (run {index + 1} of {campaign.runs})"
    ended = describe_run_outcome(outcome, job.training.row.target, job.request.row.lower_is_better)
    click.echo(f"{job.name}{number}: {ended}" + (f"; checkpoint {sha256[:12]}" if sha256 else ""))
    for measured in describe_run_energy(job.get_log_path(index), job.get_telemetry_path(index)):
        click.echo(f"  {measured}")
    return campaign


def describe_run_outcome(
    outcome: TrainingOutcome, targets: Mapping[str, float], lower_is_better: Collection[str]
) -> str:
    """Describe how a run ended, with its scores."""
    found = []
    for metric, target in targets.items():
        value = outcome.scores.get(metric, float("nan"))
        reached = has_reached_target({metric: value}, {metric: target}, lower_is_better)
        sign = format_target_sign(metric, lower_is_better)
        found.append(f"{metric} {value:.4f} {'' if reached else 'not '}{sign} {target:.4f}")
    return (
        f"{outcome.ending}: {', '.join(found)} in {outcome.minutes:.2f} minutes, {outcome.epoch}"
        " epochs"
    )


def check_missed_runs(job: TrainingJob, campaign: TrainingSetState) -> None:
    """Raise JudgedError if more runs missed the target than a set may have."""
    if has_too_many_misses(job, count_missed_runs(campaign), campaign.runs):
        raise JudgedError(
            f"{job.name}: {count_missed_runs(campaign)} of {campaign.runs} runs did not reach the"
            f" target within {describe_epoch_limit(job.training.row.max_epochs)}: change the recipe"
            f" with --set (podium list settings {job.name}), try another --seed or, in a"
            " row of your own, raise max_epochs or lower the target"
        )


def describe_epoch_limit(max_epochs: int) -> str:
    """Describe how long a run may train."""
    return f"{max_epochs} epoch{'' if max_epochs == 1 else 's'}"


def count_missed_runs(campaign: TrainingSetState) -> int:
    """Count the finished runs that did not reach the target."""
    return sum(ending != RunEnding.REACHED for ending in campaign.endings.values())


def has_too_many_misses(job: TrainingJob, missed: int, runs: int) -> bool:
    """Check whether more runs of a set missed the target than the round allows."""
    rules = job.request.round.training
    return missed > (rules.not_converged_allowed if runs >= rules.olympic_from_runs else 0)


def has_log_reached_target(log: Path) -> bool:
    """Check whether a finished podium log records that its run reached the target."""
    return any(
        b'"run_stop"' in line and b'"success"' in line for line in log.read_bytes().splitlines()
    )
