"""`podium peak`: drives a search, keeps every probe and run, and says what they prove."""

import json
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from harness.children.process import run_in_child
from harness.distributed import SingleRank
from harness.doctor.dtype_trials import PrecisionTrial, WorkloadHalf, check_precision_runs
from harness.machine.system_description import describe_system
from harness.serving.loadgen.probe import Look, LookJob, look
from harness.serving.peak.multi_stream import next_step
from harness.serving.peak.trials import Session, kept, record_in, run_step, same, worded
from harness.serving.setup import Bench, Searched, set_up
from harness.serving.weights.speed import stamps_of
from harness.thread_count import resolve_thread_count
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, RequestError
from suite.files.json_files import write_json
from suite.files.layout import convert_to_slug, find_owning_results
from suite.loadgen.early_stopping import compute_queries_needed
from suite.loadgen.scenario import Scenario
from suite.process.lock import exclusive
from suite.process.signals import Interrupted, raised_signals
from suite.records import SearchRecord
from suite.studies.documents import NS_PER_MS, STUDIES_FOLDER, STUDY_FILE
from suite.studies.peak_search import NextRun
from suite.studies.rates import (
    PEAK_KIND,
    RUN_PURPOSE,
    PeakRequest,
    PeakStudy,
    RateAttempt,
    build_run_observation,
    compute_peak_answer,
    replay_peak_search,
)

BUDGET_S: Final = 600.0
TOLERANCE: Final = 0.02
BUDGET_RUNS: Final = 12
"""Full runs that a search within `podium infer` may take at least, in time: the second phase has
nine at most.
"""
DIGITS: Final = 6
"""LoadGen logs numbers with so many significant digits: C++'s default."""
SPARE: Final = 2.5
"""Full runs that have to fit into what is left of the budget for another probe; else a full run is
next.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The command line's request for a search."""

    scenario: Scenario
    within_ms: float | None
    percentile: float | None
    budget_s: float
    tolerance: float


ROUNDS: Final = Ask(
    scenario=Scenario.SERVER,
    within_ms=None,
    percentile=None,
    budget_s=BUDGET_S,
    tolerance=TOLERANCE,
)
"""The search whose best run `podium infer --peak` takes."""


def peak(workload: str, options: RunOptions, ask: Ask, checkpoint: Path | None, form: str) -> None:
    """Search, print and save; JudgedError if no full run was VALID, RequestError for a budget below
    one full run.
    """
    bench = set_up(workload, options, checkpoint)
    check_precision_runs(
        PrecisionTrial(
            workload=workload,
            half=WorkloadHalf.INFERENCE,
            engine=options.engine,
            precision=bench.precision,
        ),
        bench.system.run.device,
    )
    described = describe_system(bench.entry, bench.request.described)
    home = home_of(bench, ask)
    try:
        with (
            raised_signals(),
            exclusive(bench.entry.results),
            redirect_stdout(sys.stderr if form == "json" else sys.stdout),
        ):
            bench = replace(bench, description=described).on(
                resolve_thread_count(options.threads, SingleRank(), threads_of(home, bench))
            )
            found = search(session_of(bench, ask, looked(bench), home), ask)
    except Interrupted as error:
        raise type(error)(
            f"{workload}: {error}; what was measured is kept, and the same command goes on"
        ) from error
    if form == "json":
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        click.echo(f"{sentence(found)}\nsaved in {home}")
    if found.answer.valid is None:
        raise JudgedError(
            "no full run was VALID" if found.answer.runs else "the budget ended before a full run"
        )
    if (
        form != "json"
        and found.sought.of_round
        and home == home_of(bench, ROUNDS)
        and ask.tolerance == ROUNDS.tolerance
    ):
        command = ("podium", "infer", workload, "--scenario", "server", "--peak", *given())
        print_progress_note(f"next: {shlex.join(command)}")


def given() -> Iterator[str]:
    """Yield the options of this command that `podium infer` has too: with others it would search
    another system.
    """
    context = click.get_current_context()
    for each in context.command.params:
        if (
            each.name in (*RunOptions.__dataclass_fields__, "checkpoint")
            and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
        ):
            values = context.params[each.name]
            for value in values if each.multiple else (values,):
                yield from (each.opts[0], str(value))


def best_run(bench: Bench, seen: Look) -> Searched:
    """Search the round's own peak rate, and return its best run; JudgedError if no full run was
    VALID.
    """
    session = session_of(bench, ROUNDS, seen, home_of(bench, ROUNDS))
    whole_s = lasts_s(
        session,
        NextRun(
            rate=session.sought.seen / 2,
            queries=session.aim.compute_full_queries(session.sought.seen / 2),
            full=True,
        ),
    )
    found = search(session, replace(ROUNDS, budget_s=max(BUDGET_S, BUDGET_RUNS * whole_s)))
    click.echo(sentence(found))
    answer = found.answer
    if answer.valid is None:
        raise JudgedError("no full run of the search was VALID")
    proven = SearchRecord(
        invalid_qps=answer.invalid,
        runs=answer.runs,
        probes=answer.probes,
        tolerance=ROUNDS.tolerance,
    )
    return Searched(folder=session.home / answer.folder, rate=answer.valid, search=proven)


def home_of(bench: Bench, ask: Ask) -> Path:
    """Return the folder of the study: one for each bound that is not the round's."""
    bound = f"-{ask.within_ms:g}ms" if ask.within_ms is not None else ""
    percentile = f"-p{ask.percentile:g}" if ask.percentile is not None else ""
    stream = "-multi-stream" if ask.scenario is Scenario.MULTI_STREAM else ""
    name = convert_to_slug(
        f"{bench.request.name}-{PEAK_KIND}{stream}{bound}{percentile}-{bench.request.options.engine}-{bench.precision}"
    )
    return find_owning_results(bench.request.options.results.absolute()) / STUDIES_FOLDER / name


def threads_of(home: Path, bench: Bench) -> int:
    """Return the CPU threads that a search under way has taken; 0 if there is none."""
    first = record_in(home / bench.entry.system / "trial-01")
    return first.stamps.threads if first else 0


def looked(bench: Bench) -> Look:
    """Probe the system under test for its rate and latency."""
    print_progress_note(
        f"{bench.request.name}: preparing: model, accuracy set, and a probe of its speed"
    )
    with tempfile.TemporaryDirectory() as truth:
        seen = run_in_child(look, LookJob(system=bench.system, query_samples=1, truth=Path(truth)))
    click.echo(
        f"probe: {seen.probe.samples_per_second:,.1f} samples/s,"
        f" {seen.probe.latency_ns / NS_PER_MS:.2f} ms for one sample"
    )
    return seen


def session_of(bench: Bench, ask: Ask, seen: Look, home: Path) -> Session:
    """Resolve a request; JudgedError for a bound below one sample's latency, RequestError for one
    without a bound.
    """
    sought = sought_of(bench, ask, seen)
    if seen.probe.latency_ns > sought.bound_ns:
        bound = f"{sought.bound_ns / NS_PER_MS:g} ms"
        raise JudgedError(
            f"{bench.request.name}: one sample alone takes {seen.probe.latency_ns / NS_PER_MS:.2f}"
            f" ms; no rate keeps {bound}"
        )
    session = Session(bench=bench, look=seen, stamps=stamps_of(bench), sought=sought, home=home)
    first = record_in(home / session.stamps.system / "trial-01")
    return (
        replace(session, sought=replace(sought, seen=first.sought.seen))
        if first and same(first, session)
        else session
    )


def sought_of(bench: Bench, ask: Ask, seen: Look) -> PeakRequest:
    """Resolve what is searched for: the round's bound and percentile unless others are named."""
    row = bench.rules(ask.scenario)
    within_ms = (
        ask.within_ms
        if ask.within_ms is not None or row.bound_ns is not None
        else bench.request.row.latency_budget_ms
    )
    if within_ms is None and row.bound_ns is None:
        raise RequestError(
            f"{ask.scenario.label} of {bench.request.name} has no bound in the round: name one with"
            " --within-ms"
        )
    bound_ns = round((within_ms or 0) * NS_PER_MS) or row.bound_ns or 0
    percentile = ask.percentile if ask.percentile is not None else row.percentile
    of_round = ask.scenario is Scenario.SERVER and (bound_ns, percentile) == (
        row.bound_ns,
        row.percentile,
    )
    rate = seen.probe.samples_per_second
    return PeakRequest(
        scenario=ask.scenario.label,
        percentile=percentile,
        bound_ns=bound_ns,
        of_round=of_round,
        min_queries=max(
            row.min_queries,
            compute_queries_needed(0 if ask.scenario is Scenario.SERVER else 1, percentile),
        ),
        min_duration_ms=row.min_duration_ms,
        tolerance=ask.tolerance,
        seen=rate if ask.scenario is Scenario.SERVER else max(1.0, rate * bound_ns / 1e9),
    )


def search(session: Session, ask: Ask) -> PeakStudy:
    """Run until the peak is known or the budget is spent, and save after each run; RequestError if
    the budget does not hold one full run.
    """
    trials = kept(session)
    if trials:
        click.echo(f"{len(trials)} probes and runs are there; the search goes on")
    while (step := following(session, trials, ask.budget_s)) is not None:
        trials.append(run_step(session, step, len(trials)))
        click.echo(f"  {told(session, trials[-1])}")
        save(session, trials)
    return save(session, trials)


def following(session: Session, trials: Sequence[RateAttempt], budget_s: float) -> NextRun | None:
    """Return the next run that fits into the budget, at a rate that LoadGen can log."""
    step = fitting(session, trials, budget_s)
    return step and replace(step, rate=float(f"{step.rate:.{DIGITS}g}"))


def fitting(session: Session, trials: Sequence[RateAttempt], budget_s: float) -> NextRun | None:
    """Return the next run that fits into the budget."""
    spent_s = sum(trial.seconds for trial in trials)
    step = wanted(session, trials)
    if step is None:
        return None
    whole = replace(
        step,
        queries=(
            session.sought.min_queries
            if session.scenario is Scenario.MULTI_STREAM
            else session.aim.compute_full_queries(step.rate)
        ),
        full=True,
    )
    whole_s = lasts_s(session, whole)
    if not trials and whole_s > budget_s:
        raise RequestError(f"--budget-s {budget_s:g}: one full run takes {whole_s:.0f} s")
    if not step.full and spent_s + lasts_s(session, step) + SPARE * whole_s > budget_s:
        state = replay_peak_search(session.aim, list(map(build_run_observation, trials)))
        rate = state.compute_promising_rate()
        step = NextRun(rate=rate, queries=session.aim.compute_full_queries(rate), full=True)
    return step if spent_s + lasts_s(session, step) <= budget_s else None


def wanted(session: Session, trials: Sequence[RateAttempt]) -> NextRun | None:
    """Return the next run, however long it takes."""
    if session.scenario is Scenario.MULTI_STREAM:
        return next_step(session.sought, trials)
    return replay_peak_search(
        session.aim, list(map(build_run_observation, trials))
    ).choose_next_run()


def lasts_s(session: Session, step: NextRun) -> float:
    """Estimate the seconds of a run."""
    if session.scenario is Scenario.MULTI_STREAM:
        query_s = step.rate / session.look.probe.samples_per_second
        return max(session.sought.min_duration_ms / 1000, step.queries * query_s)
    return (
        step.queries + (0 if step.full else session.aim.compute_skipped_queries(step.rate))
    ) / step.rate


def save(session: Session, trials: Sequence[RateAttempt]) -> PeakStudy:
    """Write the study."""
    made = PeakStudy(
        kind=PEAK_KIND,
        stamps=session.stamps,
        sought=session.sought,
        trials=tuple(trials),
        answer=compute_peak_answer(session.sought, trials),
    )
    write_json(session.home / STUDY_FILE, asdict(made))
    return made


def told(session: Session, trial: RateAttempt) -> str:
    """Format a run in one line."""
    kind = trial.verdict if trial.purpose == RUN_PURPOSE else "probe"
    share = f"{trial.over:,} of {trial.queries:,} over {session.sought.bound_ns / NS_PER_MS:g} ms"
    return f"{worded(session, trial.rate)}: {kind}, {share}, dispersion {trial.dispersion:.1f}"


def sentence(found: PeakStudy) -> str:
    """Say what the runs prove, in one line."""
    answer, sought = found.answer, found.sought
    unit = (
        "queries/s"
        if sought.scenario == Scenario.SERVER.label
        else "samples per query (house rule: no MLPerf metric)"
    )
    best = f"{answer.valid:,.4g} {unit} VALID" if answer.valid else "no rate VALID"
    worst = f", {answer.invalid:,.4g} INVALID" if answer.invalid else ", no rate above it INVALID"
    trial = next((each for each in found.trials if each.folder == answer.folder), None)
    bound = f"{sought.bound_ns / NS_PER_MS:g} ms"
    seen = f"{trial.latency_ns / NS_PER_MS:.1f} of" if trial and trial.latency_ns else "within"
    latency = f"p{sought.percentile:g} {seen} {bound}"
    chance = (
        f"; a run like this passes in about {100 * answer.passes:.0f} %"
        if answer.passes is not None
        else ""
    )
    own = "" if sought.of_round else "; not the round's bound: no result"
    return (
        f"peak: {best}{worst} ({latency}{chance}), {answer.runs} runs, {answer.probes} probes,"
        f" {sum(each.seconds for each in found.trials):.0f} s{own}"
    )
