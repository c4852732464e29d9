"""`podium peak`: drives a search, keeps every probe and run, and says what they prove."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from harness.distributed import SingleRank
from harness.machine.system_description import describe_system
from harness.serving.automatic_engine import settle_engine
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.peak.multi_stream import choose_multi_stream_step
from harness.serving.peak.trials import (
    SearchSession,
    format_trial_rate,
    is_same_search,
    read_trial_record,
    recover_earlier_trials,
    run_search_step,
)
from harness.serving.setup import SearchedRun, ServingSetup, check_serving_precision, set_up_serving
from harness.serving.speed_probe import probe_serving_speed
from harness.serving.study_machine import describe_study_machine
from harness.serving.weights.speed import build_speed_stamps
from harness.thread_count import resolve_thread_count
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, RequestError
from suite.files.json_files import write_json
from suite.files.layout import convert_to_slug, find_owning_results
from suite.loadgen.early_stopping import compute_queries_needed
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.records import SearchRecord
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.studies.peak_search import NextRun
from suite.studies.rates import (
    PEAK_KIND,
    RUN_PURPOSE,
    PeakRequest,
    PeakStudy,
    RateAttempt,
    build_run_observation,
    compute_peak_answer,
    format_peak_bound,
    replay_peak_search,
)
from suite.units import NS_PER_MS

DEFAULT_BUDGET_S: Final = 600.0
DEFAULT_PEAK_TOLERANCE: Final = 0.02
MIN_BUDGET_RUNS: Final = 12
"""Full runs that a search within `podium infer` may take at least, in time: the second phase has
nine at most.
"""
LOGGED_RATE_DIGITS: Final = 6
"""LoadGen logs numbers with so many significant digits: C++'s default."""
RESERVED_FULL_RUNS: Final = 2.5
"""Full runs that have to fit into what is left of the budget for another probe; else a full run is
next.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakOptions:
    """The command line's request for a search."""

    scenario: Scenario
    within_ms: float | None
    percentile: float | None
    budget_s: float
    tolerance: float


ROUND_PEAK_OPTIONS: Final = PeakOptions(
    scenario=Scenario.SERVER,
    within_ms=None,
    percentile=None,
    budget_s=DEFAULT_BUDGET_S,
    tolerance=DEFAULT_PEAK_TOLERANCE,
)
"""The search whose best run `podium infer --peak` takes."""


def measure_peak(
    workload: str,
    options: RunOptions,
    peak_options: PeakOptions,
    checkpoint: Path | None,
    output_format: str,
) -> None:
    """Search, print and save; JudgedError if no full run was VALID, RequestError for a budget below
    one full run.
    """
    with redirect_stdout(sys.stderr if output_format == "json" else sys.stdout):
        options = settle_engine(workload, options, checkpoint)
    serving_setup = set_up_serving(workload, options, checkpoint)
    check_serving_precision(serving_setup)
    check_peak_bound(serving_setup, peak_options)
    described = describe_system(serving_setup.entry, serving_setup.request.described)
    study_folder = build_peak_study_path(serving_setup, peak_options)
    try:
        with (
            raise_signals_in_block(),
            lock_results_folder(serving_setup.entry.results),
            redirect_stdout(sys.stderr if output_format == "json" else sys.stdout),
        ):
            serving_setup = replace(serving_setup, description=described).copy_with_threads(
                resolve_thread_count(
                    options.threads, SingleRank(), read_search_threads(study_folder, serving_setup)
                )
            )
            found = search_peak(
                build_search_session(
                    serving_setup, peak_options, probe_serving_speed(serving_setup), study_folder
                ),
                peak_options,
            )
    except Interrupted as error:
        raise type(error)(
            f"{workload}: {error}; what was measured is kept, and the same command continues"
        ) from error
    if output_format == "json":
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        click.echo(f"{format_peak_summary(found)}\nsaved in {study_folder}")
    if found.answer.valid is None:
        raise JudgedError(
            "no full run was VALID" if found.answer.runs else "the budget ended before a full run"
        )
    if (
        output_format != "json"
        and found.sought.of_round
        and study_folder == build_peak_study_path(serving_setup, ROUND_PEAK_OPTIONS)
        and peak_options.tolerance == ROUND_PEAK_OPTIONS.tolerance
    ):
        command = (
            "podium",
            "infer",
            workload,
            "--scenario",
            "server",
            "--peak",
            *iterate_shared_options(),
        )
        print_progress_note(f"next: {shlex.join(command)}")


def iterate_shared_options() -> Iterator[str]:
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


def search_round_peak(serving_setup: ServingSetup, probe_result: ProbeResult) -> SearchedRun:
    """Search the round's own peak rate, and return its best run; JudgedError if no full run was
    VALID.
    """
    check_peak_bound(serving_setup, ROUND_PEAK_OPTIONS)
    session = build_search_session(
        serving_setup,
        ROUND_PEAK_OPTIONS,
        probe_result,
        build_peak_study_path(serving_setup, ROUND_PEAK_OPTIONS),
    )
    whole_s = estimate_step_s(
        session,
        NextRun(
            rate=session.sought.seen / 2,
            queries=session.aim.compute_full_queries(session.sought.seen / 2),
            full=True,
        ),
    )
    found = search_peak(
        session,
        replace(ROUND_PEAK_OPTIONS, budget_s=max(DEFAULT_BUDGET_S, MIN_BUDGET_RUNS * whole_s)),
    )
    click.echo(format_peak_summary(found))
    answer = found.answer
    if answer.valid is None:
        raise JudgedError("no full run of the search was VALID")
    proven = SearchRecord(
        invalid_qps=answer.invalid,
        runs=answer.runs,
        probes=answer.probes,
        tolerance=ROUND_PEAK_OPTIONS.tolerance,
    )
    return SearchedRun(
        folder=session.study_folder / answer.folder, rate=answer.valid, search=proven
    )


def build_peak_study_path(serving_setup: ServingSetup, peak_options: PeakOptions) -> Path:
    """Return the folder of the study: one for each bound that is not the round's."""
    bound = f"-{peak_options.within_ms:g}ms" if peak_options.within_ms is not None else ""
    percentile = f"-p{peak_options.percentile:g}" if peak_options.percentile is not None else ""
    stream = "-multi-stream" if peak_options.scenario is Scenario.MULTI_STREAM else ""
    name = convert_to_slug(
        f"{serving_setup.request.name}-{PEAK_KIND}{stream}{bound}{percentile}-{serving_setup.request.engine}-{serving_setup.precision}"
    )
    return (
        find_owning_results(serving_setup.request.options.results.absolute())
        / STUDIES_FOLDER
        / name
    )


def read_search_threads(study_folder: Path, serving_setup: ServingSetup) -> int:
    """Return the CPU threads that a search under way has taken; 0 if there is none."""
    first = read_trial_record(study_folder / serving_setup.entry.system / "trial-01")
    return first.stamps.threads if first else 0


def build_search_session(
    serving_setup: ServingSetup,
    peak_options: PeakOptions,
    probe_result: ProbeResult,
    study_folder: Path,
) -> SearchSession:
    """Resolve a request; JudgedError for a bound below one sample's latency."""
    sought = resolve_peak_request(serving_setup, peak_options, probe_result)
    if sought.per_token_ns is None and probe_result.probe.latency_ns > sought.bound_ns:
        bound = f"{sought.bound_ns / NS_PER_MS:g} ms"
        raise JudgedError(
            f"{serving_setup.request.name}: one sample alone takes"
            f" {probe_result.probe.latency_ns / NS_PER_MS:.2f} ms; no rate keeps {bound}"
        )
    session = SearchSession(
        serving_setup=serving_setup,
        probe_result=probe_result,
        stamps=build_speed_stamps(serving_setup),
        sought=sought,
        study_folder=study_folder,
    )
    first = read_trial_record(study_folder / session.stamps.system / "trial-01")
    return (
        replace(session, sought=replace(sought, seen=first.sought.seen))
        if first and is_same_search(first, session)
        else session
    )


def check_peak_bound(serving_setup: ServingSetup, peak_options: PeakOptions) -> None:
    """RequestError for a search without a bound, and for one bound where the round has two, of
    first and of further tokens.
    """
    request, scenario = serving_setup.request, peak_options.scenario
    row, within_ms = serving_setup.require_scenario_rules(scenario), peak_options.within_ms
    if row.per_token_ns is not None and within_ms is not None:
        raise RequestError(
            f"--within-ms {within_ms:g}: {scenario.label} of {request.name} is bounded by its"
            " tokens, the first and each further one; --set tokens.bounds=... chooses the bounds"
        )
    if (
        within_ms is None
        and request.row.latency_budget_ms is None
        and row.bound_ns is None
        and row.per_token_ns is None
    ):
        raise RequestError(
            f"{scenario.label} of {request.name} has no bound in the round: name one with"
            " --within-ms"
        )


def resolve_peak_request(
    serving_setup: ServingSetup, peak_options: PeakOptions, probe_result: ProbeResult
) -> PeakRequest:
    """Resolve what is searched for: the round's bounds and percentile unless others are named."""
    row = serving_setup.require_scenario_rules(peak_options.scenario)
    round_bound_ns = row.first_token_ns if row.per_token_ns is not None else row.bound_ns
    within_ms = (
        peak_options.within_ms
        if peak_options.within_ms is not None or round_bound_ns is not None
        else serving_setup.request.row.latency_budget_ms
    )
    bound_ns = round((within_ms or 0) * NS_PER_MS) or round_bound_ns or 0
    percentile = peak_options.percentile if peak_options.percentile is not None else row.percentile
    of_round = peak_options.scenario is Scenario.SERVER and (bound_ns, percentile) == (
        round_bound_ns,
        row.percentile,
    )
    rate = probe_result.probe.samples_per_second
    return PeakRequest(
        scenario=peak_options.scenario.label,
        percentile=percentile,
        bound_ns=bound_ns,
        of_round=of_round,
        min_queries=max(
            row.min_queries,
            compute_queries_needed(
                0 if peak_options.scenario is Scenario.SERVER else 1, percentile
            ),
        ),
        min_duration_ms=row.min_duration_ms,
        tolerance=peak_options.tolerance,
        seen=rate if peak_options.scenario is Scenario.SERVER else max(1.0, rate * bound_ns / 1e9),
        per_token_ns=row.per_token_ns,
    )


def search_peak(session: SearchSession, peak_options: PeakOptions) -> PeakStudy:
    """Run until the peak is known or the budget is spent, and save after each run; RequestError if
    the budget does not hold one full run.
    """
    trials = recover_earlier_trials(session)
    if trials:
        click.echo(f"continuing the search after {len(trials)} probes and runs")
    while (step := choose_loggable_step(session, trials, peak_options.budget_s)) is not None:
        trials.append(run_search_step(session, step, len(trials)))
        click.echo(f"  {format_trial_line(session, trials[-1])}")
        write_peak_study(session, trials)
    return write_peak_study(session, trials)


def choose_loggable_step(
    session: SearchSession, trials: Sequence[RateAttempt], budget_s: float
) -> NextRun | None:
    """Return the next run that fits into the budget, at a rate that LoadGen can log."""
    step = choose_affordable_step(session, trials, budget_s)
    return step and replace(step, rate=float(f"{step.rate:.{LOGGED_RATE_DIGITS}g}"))


def choose_affordable_step(
    session: SearchSession, trials: Sequence[RateAttempt], budget_s: float
) -> NextRun | None:
    """Return the next run that fits into the budget."""
    spent_s = sum(trial.seconds for trial in trials)
    step = choose_unbudgeted_step(session, trials)
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
    whole_s = estimate_step_s(session, whole)
    if not trials and whole_s > budget_s:
        raise RequestError(f"--budget-s {budget_s:g}: one full run takes {whole_s:.0f} s")
    if (
        not step.full
        and spent_s + estimate_step_s(session, step) + RESERVED_FULL_RUNS * whole_s > budget_s
    ):
        state = replay_peak_search(session.aim, list(map(build_run_observation, trials)))
        rate = state.compute_promising_rate()
        step = NextRun(rate=rate, queries=session.aim.compute_full_queries(rate), full=True)
    return step if spent_s + estimate_step_s(session, step) <= budget_s else None


def choose_unbudgeted_step(session: SearchSession, trials: Sequence[RateAttempt]) -> NextRun | None:
    """Return the next run, however long it takes."""
    if session.scenario is Scenario.MULTI_STREAM:
        return choose_multi_stream_step(session.sought, trials)
    return replay_peak_search(
        session.aim, list(map(build_run_observation, trials))
    ).choose_next_run()


def estimate_step_s(session: SearchSession, step: NextRun) -> float:
    """Estimate the seconds of a run."""
    if session.scenario is Scenario.MULTI_STREAM:
        query_s = step.rate / session.probe_result.probe.samples_per_second
        return max(session.sought.min_duration_ms / 1000, step.queries * query_s)
    return (
        step.queries + (0 if step.full else session.aim.compute_skipped_queries(step.rate))
    ) / step.rate


def write_peak_study(session: SearchSession, trials: Sequence[RateAttempt]) -> PeakStudy:
    """Write the study."""
    made = PeakStudy(
        kind=PEAK_KIND,
        stamps=session.stamps,
        sought=session.sought,
        trials=tuple(trials),
        answer=compute_peak_answer(session.sought, trials),
        machine=describe_study_machine(session.study_folder),
    )
    write_json(session.study_folder / STUDY_FILE, asdict(made))
    return made


def format_trial_line(session: SearchSession, trial: RateAttempt) -> str:
    """Format a run in one line."""
    kind = trial.verdict if trial.purpose == RUN_PURPOSE else "probe"
    share = f"{trial.over:,} of {trial.queries:,} over {format_peak_bound(session.sought)}"
    return (
        f"{format_trial_rate(session, trial.rate)}: {kind}, {share}, dispersion"
        f" {trial.dispersion:.1f}"
    )


def format_peak_summary(found: PeakStudy) -> str:
    """Format what the runs prove, in one line."""
    answer, sought = found.answer, found.sought
    unit = (
        "queries/s"
        if sought.scenario == Scenario.SERVER.label
        else "samples per query (house rule: no MLPerf metric)"
    )
    best = f"{answer.valid:,.4g} {unit} VALID" if answer.valid else "no rate VALID"
    worst = f", {answer.invalid:,.4g} INVALID" if answer.invalid else ", no rate above it INVALID"
    trial = next((each for each in found.trials if each.folder == answer.folder), None)
    reached = (trial.latency_ns, trial.per_token_ns) if trial else (None, None)
    word = "within " if reached[0] is None else ""
    latency = f"p{sought.percentile:g} {word}{format_peak_bound(sought, *reached)}"
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
