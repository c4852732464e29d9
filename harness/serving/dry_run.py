"""`podium infer --dry-run`: checks all that serving needs, probes the system under test, sends one
query of each scenario, and estimates how long all runs will take. It writes into a temporary folder
alone.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from harness.failures import report_trial_failure
from harness.machine.memory_watch import MemoryWatch
from harness.machine.power.selection import has_readable_power
from harness.request import resolve_request
from harness.serving.automatic_engine import set_up_with_engine
from harness.serving.checkpoint_selection import STAND_IN_ORIGIN, choose_checkpoint
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import (
    OFFLINE_MARGIN,
    LoadGenSchedule,
    estimate_answering_s,
    estimate_minimum_s,
)
from harness.serving.performance_runs import build_mode_schedule
from harness.serving.setup import LOCAL_SITE, ServingSetup
from harness.serving.sites import ServingSite
from harness.serving.speed_probe import probe_serving_speed
from harness.serving.weights.initial import export_random_weights
from harness.serving.weights.speed import RANDOM_CHOICE, require_checkpoint_folder
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.dry_run import DryRunEstimate, StageEstimate
from suite.files.chosen_engine import locate_chosen_engines
from suite.files.layout import ACCURACY_LOG
from suite.files.scratch import collect_temporary_files
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.process.signals import raise_signals_in_block
from suite.units import MS_PER_S, NS_PER_S
from suite.workload import Mode

LOADGEN_MARGIN: Final = 1.1
"""LoadGen sizes Offline's query with it (test_settings_internal.cc, kSlack)."""
LONG_TRIALS_S: Final = 60.0
"""Once single queries have taken so long together, no more are sent: a dry run is for people who
wait.
"""
QUERY_ROW_BYTES: Final = 24
"""A row of queries.npy (suite/loadgen/query_record.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTrial:
    """One query of a scenario, under LoadGen."""

    seconds: float
    """From the start of LoadGen's process to its end: above all, to load the system under test."""
    run_bytes: int
    """Files of the run."""
    answer_bytes: int
    """Those of them that hold its answer."""


def try_serving(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    mode: str,
    checkpoint: Path | None,
    runs: int | None = None,
    weights: str | None = None,
    untrained: bool = False,
    site: ServingSite = LOCAL_SITE,
) -> DryRunEstimate:
    """Check a request to serve, send one query of each scenario, and estimate all runs.

    RequestError, MissingError and JudgedError as for serving. `weights`: as of `podium infer`;
    `untrained`: random ones stand in for those that are yet to be trained.
    """
    began_s = time.perf_counter()
    with (
        raise_signals_in_block(),
        MemoryWatch() as memory,
        collect_temporary_files() as folder,
        report_trial_failure(workload, (), folder),
    ):
        print_progress_note(f"{workload}: dry run of serving, profile {options.profile}")
        setup = set_up_trial(workload, options, folder, checkpoint, weights, untrained, site)
        setup = replace(setup, requested_runs=runs)
        plan = {
            scenario: setup.require_scenario_rules(scenario)
            for scenario in setup.select_row_scenarios(scenarios)
        }
        for scenario in plan:
            setup.check_run_count(scenario)
        modes = select_tried_modes(mode, weights)
        setup = prepare_trial_setup(setup, tuple(plan), modes)
        queries = max(row.samples_per_query for row in plan.values())
        found = probe_serving_speed(setup, query_samples=queries)
        prepared_s = time.perf_counter() - began_s
        trials = send_single_queries(setup, tuple(plan), found, folder)
    click.echo(describe_trials(workload, trials, tuple(plan)))
    # a scenario whose query was not sent has the figures of the last one
    trials = {scenario: trials.get(scenario, [*trials.values()][-1]) for scenario in plan}
    return DryRunEstimate(
        workload=workload,
        stages=[build_serving_estimate(setup, trials, modes, found, prepared_s)],
        memory_bytes=memory.peak_bytes,
        free_memory_bytes=memory.free_bytes,
        disk_bytes=sum(
            estimate_scenario_bytes(setup, scenario, trial, modes, found)
            for scenario, trial in trials.items()
        ),
    )


def set_up_trial(
    workload: str,
    options: RunOptions,
    folder: Path,
    checkpoint: Path | None,
    weights: str | None,
    untrained: bool,
    site: ServingSite = LOCAL_SITE,
) -> ServingSetup:
    """Set up the system under test, with a copy of the results' choice of engines and no results:
    what is chosen or exported here is in `folder` alone.
    """
    own_options = replace(options, results=folder / "results")
    if untrained:
        own_options = add_untrained_settings(workload, own_options)
        checkpoint = export_random_weights(workload, own_options, STAND_IN_ORIGIN)
    elif weights == RANDOM_CHOICE:
        checkpoint = export_random_weights(workload, own_options)
    elif weights:
        checkpoint = require_checkpoint_folder(weights)
    else:
        request = resolve_request(options, workload, serving=True)
        checkpoint = choose_checkpoint(request, checkpoint).folder
    copy_engine_choices(workload, options.results.absolute(), own_options.results)
    return set_up_with_engine(workload, own_options, checkpoint, site)


def select_tried_modes(mode: str, weights: str | None) -> tuple[Mode, ...]:
    """Return the modes that the command would run in: with --weights it measures speed alone."""
    if weights:
        return (Mode.PERFORMANCE,)
    return tuple(Mode) if mode == "all" else (Mode(mode),)


def add_untrained_settings(workload: str, options: RunOptions) -> RunOptions:
    """Return options with which random weights answer at the length of trained ones, where the row
    names such settings; the user's own win.
    """
    row = registry.load_round().benchmark(workload).inference.get(options.profile)
    added = row.untrained_settings.items() if row else ()
    given = tuple(f"{key}={value}" for key, value in added)
    return replace(options, assignments=(*given, *options.assignments))


def copy_engine_choices(workload: str, results: Path, own_results: Path) -> None:
    """Copy the engines that were chosen for these results, if any were."""
    chosen, copied = (locate_chosen_engines(folder, workload) for folder in (results, own_results))
    if chosen.is_file():
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(chosen, copied)


def prepare_trial_setup(
    setup: ServingSetup, scenarios: Sequence[Scenario], modes: Sequence[Mode]
) -> ServingSetup:
    """Check precision and system description, and settle threads and the idle reading of power."""
    setup.check_precision()
    setup = setup.add_description()
    idle = scenarios[0] if Mode.PERFORMANCE in modes and has_readable_power(setup.power) else None
    return replace(setup, idle_scenario=idle).settle_threads()


def send_single_queries(
    setup: ServingSetup, scenarios: Sequence[Scenario], found: ProbeResult, folder: Path
) -> dict[Scenario, QueryTrial]:
    """Run LoadGen for one query of each scenario, or of the first ones if they take long: they tell
    how long a query and the start of a run take.
    """
    trials: dict[Scenario, QueryTrial] = {}
    for scenario in scenarios:
        trials[scenario] = send_single_query(setup, scenario, found, folder)
        if sum(trial.seconds for trial in trials.values()) > LONG_TRIALS_S:
            break
    return trials


def describe_trials(
    workload: str, trials: Mapping[Scenario, QueryTrial], scenarios: Sequence[Scenario]
) -> str:
    """Describe of which scenarios a query was sent."""
    took = f"{workload}: took one query each of {', '.join(each.label for each in trials)}"
    left = [each.label for each in scenarios if each not in trials]
    if not left:
        return took
    seconds = sum(trial.seconds for trial in trials.values())
    return f"{took}, in {seconds:.0f} s; {', '.join(left)} estimated by that"


def send_single_query(
    setup: ServingSetup, scenario: Scenario, found: ProbeResult, folder: Path
) -> QueryTrial:
    """Run LoadGen for one query of a scenario."""
    schedule = build_mode_schedule(setup, scenario, Mode.PERFORMANCE, found, {})
    job = LoadGenJob(
        system=setup.system,
        schedule=replace(schedule, min_duration_ms=0, min_queries=1),
        folder=folder / scenario.value,
    )
    print_progress_note(f"{setup.request.name}: one query of {scenario.label}")
    start_s = time.perf_counter()
    with run_loadgen_in_child(job) as (run, _):
        return QueryTrial(
            seconds=time.perf_counter() - start_s,
            run_bytes=sum(path.stat().st_size for path in run.iterdir()),
            answer_bytes=(run / ACCURACY_LOG).stat().st_size,
        )


def build_serving_estimate(
    setup: ServingSetup,
    trials: Mapping[Scenario, QueryTrial],
    modes: Sequence[Mode],
    found: ProbeResult,
    prepared_s: float,
) -> StageEstimate:
    """Compute what all runs will take."""
    parts = {
        scenario: sum(estimate_mode_s(setup, scenario, mode, found, trial) for mode in modes)
        for scenario, trial in trials.items()
    }
    figures = ", ".join(f"{scenario.label} {part:.0f} s" for scenario, part in parts.items())
    return StageEstimate(
        name="serving",
        seconds=prepared_s + sum(parts.values()),
        basis=f"by {setup.request.engine}, {found.probe.samples_per_second:,.1f} samples/s in the"
        f" probe; {figures}",
    )


def estimate_mode_s(
    setup: ServingSetup, scenario: Scenario, mode: Mode, found: ProbeResult, trial: QueryTrial
) -> float:
    """Estimate the seconds of a scenario's runs in one mode, if none has to be repeated."""
    schedule = build_mode_schedule(setup, scenario, mode, found, {})
    if mode is Mode.ACCURACY:
        return trial.seconds + estimate_answering_s(schedule, found.sample_count, found.probe)
    run_s = trial.seconds + estimate_performance_s(schedule, found)
    return setup.get_idle_reading_s(scenario, 1) + setup.resolve_run_count(scenario) * run_s


def estimate_performance_s(schedule: LoadGenSchedule, found: ProbeResult) -> float:
    """Estimate the seconds in which LoadGen queries in a performance run: Offline's one query is
    larger than its least duration needs.
    """
    least_s = estimate_minimum_s(schedule, found.probe)
    margin = OFFLINE_MARGIN * LOADGEN_MARGIN if schedule.scenario is Scenario.OFFLINE else 1.0
    return max(least_s, margin * schedule.min_duration_ms / MS_PER_S)


def estimate_scenario_bytes(
    setup: ServingSetup,
    scenario: Scenario,
    trial: QueryTrial,
    modes: Sequence[Mode],
    found: ProbeResult,
) -> int:
    """Estimate the bytes of a scenario's runs: LoadGen's files, answers and query times."""
    counted = 0
    if Mode.ACCURACY in modes:
        counted += trial.run_bytes + found.sample_count * trial.answer_bytes
    if Mode.PERFORMANCE in modes:
        schedule = build_mode_schedule(setup, scenario, Mode.PERFORMANCE, found, {})
        rows = min(MAX_QUERY_RECORD_ROWS, estimate_query_count(schedule, found))
        answers = schedule.sampled_answers * trial.answer_bytes
        each = trial.run_bytes + rows * QUERY_ROW_BYTES + answers
        counted += setup.resolve_run_count(scenario) * each
    return counted


def estimate_query_count(schedule: LoadGenSchedule, found: ProbeResult) -> int:
    """Estimate the queries of a performance run."""
    seconds = estimate_performance_s(schedule, found)
    rates = {
        Scenario.SINGLE_STREAM: NS_PER_S / found.probe.latency_ns,
        Scenario.MULTI_STREAM: NS_PER_S / found.probe.query_latency_ns,
    }
    return int(seconds * rates.get(schedule.scenario, schedule.rate))
