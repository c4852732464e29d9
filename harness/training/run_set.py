"""`podium train`: a set of runs, each from the request to a finished log and checkpoint."""

import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from harness.distributed import RankFailed, Ranks, launched
from harness.doctor.dtype_trials import check_training
from harness.engine_choice import foresee
from harness.failures import sentence
from harness.machine.device import several
from harness.machine.power.chosen import Chosen
from harness.machine.power.selection import choose
from harness.machine.system_description import describe
from harness.request import Request, prepare
from harness.thread_count import beside_others, trains_large_kernels
from harness.training.energy import sentences
from harness.training.export import seal, stopped_run
from harness.training.loop import Ending, Outcome
from harness.training.observation import complete
from harness.training.plugin_values import check_hyperparameters
from harness.training.run_context import Job
from harness.training.state import set_state
from harness.training.state.resume import (
    going_on,
    launch,
    resume_command,
    taken_up,
    threads_begun,
    to_json,
)
from harness.training.state.set_state import Campaign
from harness.training.state.shared_filesystem import check_shared
from harness.training.timed_run import timed_run
from suite.cli import Options
from suite.console.screen import as_given, note, screen
from suite.errors import JudgedError, MissingError, RequestError, TemporaryError
from suite.files.superseded import Moved
from suite.ledger.steps import challenge_problem
from suite.process.lock import exclusive
from suite.process.signals import Interrupted, Signals, raised
from suite.rounds import Division, HyperValue, TrainingRow
from suite.rounds.legality import judge
from suite.terms import Precision


def train_set(
    workload: str,
    options: Options,
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
        options = taken_up(workload, options, given)
    request, row, hyper = requested(workload, options)
    precision = options.precision or Precision(row.precision)
    entry = request.entry(row.division, options.framework, precision)
    system = describe(entry, request.described)
    with (
        raised() as signals,
        launched(options.device) as (ranks, watch),
        telling(ranks, signals, workload, options),
    ):
        if ranks.leads:
            note(
                f"{workload}: preparing, profile {request.profile}: the data survey and the model"
                " come before the clock"
            )
            check_training(request, precision)
        with exclusive(entry.results) if ranks.leads else nullcontext():
            check_shared(entry.results, ranks)
            begun = (
                threads_begun(entry, workload, ranks.restarts)
                if ranks.leads and (resume or ranks.restarts)
                else 0
            )
            power = (
                choose(options.power, options.meter, request.settings)
                if ranks.local_rank == 0
                else Chosen()
            )
            shared: dict[str, Any] = {
                "request": request,
                "row": row,
                "hyper": hyper,
                "precision": precision,
                "entry": entry,
                "place": entry,
            }
            threads = beside_others(
                options.threads, ranks, begun, large_kernels=trains_large_kernels(request.workload)
            )
            job = Job(
                **shared,
                system=system,
                threads=threads,
                ranks=ranks,
                watch=watch,
                signals=signals,
                power=power,
            )
            train_runs(job, seed, runs, resume, challenge)


def check_challenge(challenge: str | None) -> None:
    """Refuse a challenge that is not 8 to 64 bytes in hexadecimal digits."""
    if challenge is not None and (problem := challenge_problem(challenge)):
        raise RequestError(f"--challenge: {problem}")


def check_device(workload: str, device: str) -> None:
    """Refuse several devices: each has a rank of its own, which torchrun starts."""
    if several(device):
        start = f"torchrun --nproc-per-node N -m harness train {workload}"
        raise RequestError(
            f"--device {device}: training has one rank for each GPU, started by {start}; podium"
            " infer serves on several"
        )


def requested(
    workload: str, options: Options
) -> tuple[Request, TrainingRow, Mapping[str, HyperValue]]:
    """Resolve the request, its row and hyper-parameters; refuse what the judge would reject, before
    anything else.
    """
    check_device(workload, options.device)
    request = prepare(options, workload)
    foresee(request)
    row = training_row(request)
    hyper = request.workload.hyperparameters(request.round, request.profile, request.settings)
    check_hyperparameters(request, row, hyper)
    check_legal(request, row, hyper)
    return request, row, hyper


def train_runs(
    job: Job, seed: int | None, runs: int | None, resume: bool, challenge: str | None = None
) -> None:
    """Train the set's remaining runs; one refused before its first clock leaves nothing, and an
    earlier set stays until this one is complete.
    """
    job, campaign, moved = open_set(job, seed, runs, resume, challenge)
    fresh = moved is not None
    for index in range(campaign.runs):
        try:
            campaign = train_one(job, campaign, index)
        except (RequestError, MissingError):
            if moved is not None and fresh:
                set_state.discard(job.entry, job.place, job.name)
                moved.undo()
            raise
        fresh = False
    if job.ranks.leads and job.place != job.entry:
        with job.signals.postponed():
            take_place(job, campaign)
            job.ledger.settle()
    if job.ranks.leads:
        farewell(job, campaign)
    verdict(job, campaign)


def farewell(job: Job, campaign: Campaign) -> None:
    """Print the path of the logs and the next command."""
    good = not too_many(job, missed(campaign), campaign.runs)
    if good or job.place == job.entry:
        note(
            f"{job.name}: logs in"
            f" {as_given(job.entry.results / campaign.logs, job.request.options.results)}"
        )
    if good and not screen().inner:
        note(f"next: {shlex.join(['podium', 'infer', job.name, *unusual(job.request.options)])}")


def unusual(options: Options) -> Iterator[str]:
    """Yield the options with which the next command finds these results and this data."""
    given = {
        "--profile": options.profile.value,
        "--data": options.data,
        "--results": options.results,
        "--org": options.org,
    }
    usual = {
        "--profile": "smoke",
        "--data": None,
        "--results": Path("results"),
        "--org": "unaffiliated",
    }
    for option, value in given.items():
        if value != usual[option]:
            yield from (option, str(value))


def take_place(job: Job, campaign: Campaign) -> None:
    """Move a complete set to its final place; one that missed its target does not replace one that
    reached it.
    """
    logs = sorted((job.entry.results / campaign.logs).glob(set_state.LOGS))
    earlier = len(logs) - sum(map(reached_target, logs))
    if (
        not (campaign.chosen or campaign.displacing)
        and too_many(job, missed(campaign), campaign.runs)
        and not too_many(job, earlier, len(logs))
    ):
        kept = set_state.set_aside(job.entry, job.place)
        click.echo(
            f"{job.name}: the earlier result reached the target and stays in place; this one is"
            f" stored in {kept}"
        )
    else:
        set_state.take_place(job.entry, job.place, job.name, campaign)


def training_row(request: Request) -> TrainingRow:
    """Return the workload's training row of this profile; RequestError if the round has none."""
    row = request.row.training.get(request.profile)
    if row is None:
        known = ", ".join(request.row.training) or "none"
        raise RequestError(
            f"{request.name} has no training rules in profile {request.profile} of round"
            f" {request.round.name}; it has: {known}"
        )
    return row


def check_legal(request: Request, row: TrainingRow, hyper: Mapping[str, HyperValue]) -> None:
    """Before the clock starts, refuse hyper-parameters and fixed settings that the judge would
    reject in the closed division.
    """
    if row.division is not Division.CLOSED:
        return
    found = [f"{key} is missing" for key in row.required if key not in hyper]
    for index, constraint in enumerate(row.constraints):
        source = request.round.source(
            f"{request.name}.training.{request.profile}.constraints.{index}"
        )
        found += [
            f"{breach.key} is {breach.found!r}, has to be {breach.required} ({source})"
            for breach in judge([constraint], {**request.settings, **hyper})
        ]
    if found:
        raise RequestError(f"not allowed in the closed division: {'; '.join(found)}")


@contextmanager
def telling(ranks: Ranks, signals: Signals, workload: str, options: Options) -> Iterator[None]:
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
        told = (
            str(error) if ended is error or isinstance(error, Interrupted) else f"{ended}: {error}"
        )
        raise type(ended)(
            f"{workload}: {told}; to go on: {resume_command(ranks, workload, options)}"
        ) from error
    except BaseException as error:
        with signals.postponed():  # the error says more than a signal behind it
            ranks.fail(sentence(error))
        raise


def open_set(
    job: Job, seed: int | None, runs: int | None, resume: bool, challenge: str | None = None
) -> tuple[Job, Campaign, Moved | None]:
    """Resume or begin a set on rank 0, and share it with all ranks. Rank 0 also gets what it moved
    aside for a new set.
    """
    found: dict[str, Any] = {}
    place, moved = job.entry, None
    if job.ranks.leads:
        going = going_on(job, seed, runs) if resume or job.ranks.restarts else None
        if going is not None:
            place, campaign = going
        else:
            options = to_json(job.request.options)
            campaign = set_state.new(
                job.identity(), seed, runs or job.row.runs, options, launch(), challenge
            )
            place, moved = set_state.begin(
                job.entry, job.request.row.training_name, job.name, campaign
            )
            campaign = set_state.read(place.results, job.name) or campaign
        found = {"campaign": set_state.to_plain(campaign), "results": str(place.results)}
    found = job.ranks.share(found)
    return (
        replace(job, place=replace(job.entry, results=Path(found["results"]))),
        set_state.from_plain(found["campaign"]),
        moved,
    )


def train_one(job: Job, campaign: Campaign, index: int) -> Campaign:
    """Complete one run of the set; a finished one stays as it is."""
    if str(index) in campaign.endings:
        return campaign
    stopped = job.ranks.leads and stopped_run(job.state(index)) is not None
    if job.ranks.share(stopped):
        outcome = Outcome()
        complete(job, index)
    else:
        outcome = timed_run(job, campaign, index)
    if job.ranks.leads:
        campaign = finish(job, campaign, index, outcome)
    return set_state.from_plain(job.ranks.share(set_state.to_plain(campaign)))


def finish(job: Job, campaign: Campaign, index: int, outcome: Outcome) -> Campaign:
    """Seal the run's results, report how it ended, and delete its state."""
    stopped = stopped_run(job.state(index))
    outcome = stopped.outcome if stopped else outcome
    sha256 = seal(job, campaign, index, stopped) if stopped else None
    campaign = set_state.end_run(job.place.results, job.name, campaign, index, outcome.ending)
    shutil.rmtree(job.state(index), ignore_errors=True)
    number = f" (run {index + 1} of {campaign.runs})" if campaign.runs > 1 else ""
    click.echo(
        f"{job.name}{number}: {told(outcome, job.row.target)}"
        + (f"; checkpoint {sha256[:12]}" if sha256 else "")
    )
    for measured in sentences(job.log_path(index), job.telemetry_path(index)):
        click.echo(f"  {measured}")
    return campaign


def told(outcome: Outcome, targets: Mapping[str, float]) -> str:
    """Describe how a run ended, with its scores."""
    found = []
    for metric, target in targets.items():
        value = outcome.scores.get(metric, float("nan"))
        found.append(f"{metric} {value:.4f} {'>=' if value >= target else 'not >='} {target:.4f}")
    return (
        f"{outcome.ending}: {', '.join(found)} in {outcome.minutes:.2f} minutes, {outcome.epoch}"
        " epochs"
    )


def verdict(job: Job, campaign: Campaign) -> None:
    """Raise JudgedError if more runs missed the target than a set may have."""
    if too_many(job, missed(campaign), campaign.runs):
        raise JudgedError(
            f"{job.name}: {missed(campaign)} of {campaign.runs} runs did not reach the target"
        )


def missed(campaign: Campaign) -> int:
    """Count the finished runs that did not reach the target."""
    return sum(ending != Ending.REACHED for ending in campaign.endings.values())


def too_many(job: Job, missed: int, runs: int) -> bool:
    """Check whether more runs of a set missed the target than the round allows."""
    rules = job.request.round.training
    return missed > (rules.not_converged_allowed if runs >= rules.olympic_from_runs else 0)


def reached_target(log: Path) -> bool:
    """Check whether a finished podium log records that its run reached the target."""
    return any(
        b'"run_stop"' in line and b'"success"' in line for line in log.read_bytes().splitlines()
    )
