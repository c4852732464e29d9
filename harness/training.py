"""The command behind `podium train`: a set of runs, each from the request to a sealed log and checkpoint."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import click

from harness import campaign as campaigns
from harness.alone import alone
from harness.bench import foresee
from harness.campaign import Campaign
from harness.distributed import RankFailed, Ranks, launched
from harness.job import Job, sentence
from harness.request import Request, prepare
from harness.sealing import seal, stopped_run
from harness.signals import Interrupted, raised
from harness.supersede import Moved
from harness.system import write_system
from harness.timed_run import timed_run
from harness.train import Ending, Outcome
from harness.trial import check_training
from suite.cli import Options
from suite.errors import JudgedError, MissingError, RequestError
from suite.legality import judge
from suite.rounds import Division, HyperValue, TrainingRow
from suite.terms import Precision


def train_set(workload: str, options: Options, *, seed: int | None = None, runs: int | None = None, resume: bool = False) -> None:
    """Train a set of runs; JudgedError where more of them miss the target than the round allows, or one breaks.

    RequestError for what can be seen to be wrong before the clock starts; Interrupted leaves a set that `resume` goes on with.
    """
    request = prepare(options, workload)
    foresee(request)
    row = training_row(request)
    hyper = request.workload.hyperparameters(request.round, request.profile, request.settings)
    check_legal(request, row, hyper)
    precision = options.precision or Precision(row.precision)
    with raised() as signals, launched(options.device) as (ranks, watch), telling(ranks, workload):
        if ranks.leads:
            check_training(request, precision)
        entry = request.entry(row.division, options.framework, precision)
        job = Job(request=request, row=row, hyper=hyper, precision=precision, entry=entry, ranks=ranks, watch=watch, signals=signals)
        with alone(entry.results) if ranks.leads else nullcontext():
            train_runs(job, seed, runs, resume)


def train_runs(job: Job, seed: int | None, runs: int | None, resume: bool) -> None:
    """Train what is left of the set; where the first run is refused before its clock, what made room for it comes back."""
    campaign, moved = open_set(job, seed, runs, resume)
    for index in range(campaign.runs):
        try:
            campaign = train_one(job, campaign, index)
        except (RequestError, MissingError):
            moved.undo()
            raise
        moved = Moved()
    verdict(job, campaign)


def training_row(request: Request) -> TrainingRow:
    """Give the workload's training row of this profile; RequestError where the round has none."""
    row = request.row.training.get(request.profile)
    if row is None:
        known = ", ".join(request.row.training) or "none"
        raise RequestError(f"{request.name} has no training rules in profile {request.profile} of round {request.round.name}; it has: {known}")
    return row


def check_legal(request: Request, row: TrainingRow, hyper: Mapping[str, HyperValue]) -> None:
    """Refuse, before the clock starts, what the judge would refuse afterwards: the closed division's hyper-parameters, and settings that it fixes."""
    if row.division is not Division.CLOSED:
        return
    found = [f"{key} is missing" for key in row.required if key not in hyper]
    for index, constraint in enumerate(row.constraints):
        source = request.round.source(f"{request.name}.training.{request.profile}.constraints.{index}")
        found += [f"{breach.key} is {breach.found}, has to be {breach.required} ({source})" for breach in judge([constraint], {**request.settings, **hyper})]
    if found:
        raise RequestError(f"not legal in the closed division: {'; '.join(found)}")


@contextmanager
def telling(ranks: Ranks, workload: str) -> Iterator[None]:
    """Tell the other ranks where this one cannot go on (a signal reaches them by itself), and the user how to go on."""
    try:
        yield
    except RankFailed:
        raise
    except Interrupted as error:
        raise type(error)(f"{workload}: {error}; `podium train {workload} --resume` with the same options goes on") from error
    except BaseException as error:
        ranks.fail(sentence(error))
        raise


def open_set(job: Job, seed: int | None, runs: int | None, resume: bool) -> tuple[Campaign, Moved]:
    """Go on with a set or begin one; rank 0 does, and all ranks get it. Rank 0 also gets what it moved aside."""
    found: dict[str, Any] = {}
    moved = Moved()
    if job.ranks.leads:
        campaign = campaigns.resume(job.entry, job.name, job.identity(), seed, runs) if resume else None
        if campaign is None:
            campaign, moved = campaigns.begin(job.entry, job.request.row.training_name, job.name, job.identity(), seed, runs or job.row.runs)
        write_system(job.entry, job.request)
        found = campaigns.to_plain(campaign)
    return campaigns.from_plain(job.ranks.share(found)), moved


def train_one(job: Job, campaign: Campaign, index: int) -> Campaign:
    """Bring one run of the set to its end; one that is over already stays as it is."""
    if str(index) in campaign.endings:
        return campaign
    stopped = job.ranks.leads and stopped_run(job.state(index)) is not None
    outcome = Outcome() if job.ranks.share(stopped) else timed_run(job, campaign, index)
    if job.ranks.leads:
        campaign = finish(job, campaign, index, outcome)
    return campaigns.from_plain(job.ranks.share(campaigns.to_plain(campaign)))


def finish(job: Job, campaign: Campaign, index: int, outcome: Outcome) -> Campaign:
    """Seal what the run left, say how it ended, and forget its state."""
    stopped = stopped_run(job.state(index))
    outcome = stopped.outcome if stopped else outcome
    sha256 = seal(job.request, campaign, index, stopped, job.log_path(index)) if stopped else None
    campaign = campaigns.end_run(job.entry.results, job.name, campaign, index, outcome.ending)
    shutil.rmtree(job.state(index), ignore_errors=True)
    number = f" (run {index + 1} of {campaign.runs})" if campaign.runs > 1 else ""
    click.echo(f"{job.name}{number}: {told(outcome, job.row.target)}" + (f"; checkpoint {sha256[:12]}" if sha256 else ""))
    return campaign


def told(outcome: Outcome, targets: Mapping[str, float]) -> str:
    """Say how a run ended, with the numbers."""
    found = []
    for metric, target in targets.items():
        value = outcome.scores.get(metric, float("nan"))
        found.append(f"{metric} {value:.4f} {'>=' if value >= target else 'not >='} {target:.4f}")
    return f"{outcome.ending}: {', '.join(found)} in {outcome.minutes:.2f} minutes, {outcome.epoch} epochs"


def verdict(job: Job, campaign: Campaign) -> None:
    """Raise JudgedError where more runs missed the target than a set may have."""
    missed = sum(ending != Ending.REACHED for ending in campaign.endings.values())
    rules = job.request.round.training
    allowed = rules.not_converged_allowed if campaign.runs >= rules.olympic_from_runs else 0
    if missed > allowed:
        raise JudgedError(f"{job.name}: {missed} of {campaign.runs} runs did not reach the target")
