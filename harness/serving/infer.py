"""`podium infer`: a probe of the system under test, then a LoadGen run for each scenario and
mode.
"""

import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

import click

from harness.children.process import run_in_child
from harness.distributed import SingleRank
from harness.kernel_errors import explain_child_error
from harness.machine.power.selection import has_readable_power
from harness.machine.system_description import describe_system
from harness.progress import WaitProgress
from harness.serving.adoption import copy_searched_run
from harness.serving.attempts import record_attempt
from harness.serving.energy import compute_loadgen_energy, describe_measured_energy
from harness.serving.harness_ceiling import get_harness_ceiling
from harness.serving.loadgen.probe import ProbeJob, ProbeResult, run_probe_job
from harness.serving.loadgen.result_files import read_detail_log
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    ProbedSpeed,
    build_loadgen_schedule,
    estimate_answering_s,
    estimate_minimum_s,
)
from harness.serving.network.setup import (
    EndpointOptions,
    describe_remote_system,
    set_up_remote_serving,
)
from harness.serving.run_record import (
    LoadGenVerdict,
    RunResult,
    format_run_verdict,
    judge_performance_run,
    list_score_shortfalls,
    score_accuracy_run,
    write_run_record,
)
from harness.serving.setup import (
    SearchedRun,
    ServingSetup,
    check_serving_precision,
    set_up_serving,
)
from harness.serving.staging import (
    NO_LOADGEN_VERDICT,
    VALID_RUN,
    build_staging_entry,
    clear_staging_folder,
    copy_ground_truth,
    find_replaced_runs,
    find_stale_audits,
    finish_interrupted_move,
    is_every_run_valid,
    move_staged_runs_aside,
    read_earlier_threads,
    replace_earlier_runs,
)
from harness.thread_count import resolve_thread_count
from suite.cli import RunOptions
from suite.console.screen import convert_to_user_path, get_screen, print_progress_note
from suite.errors import JudgedError, PodiumError
from suite.files.cache import locate_cache_folder
from suite.files.json_files import write_json
from suite.files.layout import STATE_FOLDER, ResultsEntry, compute_folder_sha256
from suite.files.superseded import supersede
from suite.ledger.steps import AttemptKind
from suite.loadgen.advice import (
    EARLY_STOPPING_RULE,
    LATENCY_BOUND_RULE,
    SERVER_RATE_SETTING,
    Hint,
    format_without_exponent,
    round_to_significant,
)
from suite.loadgen.scenario import Scenario
from suite.process.lock import exclusive
from suite.process.signals import Interrupted, raised_signals
from suite.rounds import HyperValue, ScenarioRow
from suite.workload import Mode

MAX_INVALID_RETRIES: Final = 4
"""House rule: a probe may be optimistic, and a shared machine slow for a while; after five failures
the user decides.
"""


def serve_workload(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    mode: str,
    checkpoint: Path | None,
    runs: int | None = None,
    search: Callable[[ServingSetup, ProbeResult], SearchedRun] | None = None,
    endpoint_options: EndpointOptions | None = None,
) -> None:
    """Serve a checkpoint under LoadGen; after all runs, JudgedError if one is INVALID or less
    accurate than the reference.

    `runs`: performance runs per scenario, at least the round's. `search`: finds Server's rate.
    `endpoint_options`: servers behind a network.
    """
    serving_setup = (
        set_up_remote_serving(workload, options, checkpoint, endpoint_options)
        if endpoint_options
        else set_up_serving(workload, options, checkpoint)
    )
    serve_scenarios(
        replace(serving_setup, requested_runs=runs), scenarios=scenarios, mode=mode, search=search
    )


def serve_scenarios(
    serving_setup: ServingSetup,
    *,
    scenarios: Sequence[Scenario],
    mode: str,
    search: Callable[[ServingSetup, ProbeResult], SearchedRun] | None = None,
) -> None:
    """Serve a system that is set up; JudgedError as for `serve_workload`."""
    workload, results = serving_setup.request.name, serving_setup.request.options.results
    if not serving_setup.server_description:
        check_serving_precision(serving_setup)
    for scenario in scenarios:
        serving_setup.resolve_run_count(scenario)
    try:
        with raised_signals(), exclusive(serving_setup.entry.results):
            problems = list(
                run_scenarios(
                    serving_setup,
                    scenarios,
                    tuple(Mode) if mode == "all" else (Mode(mode),),
                    search,
                )
            )
    except Interrupted as error:
        recovery_hint = (
            "runs that ended are kept until the same command runs them again:"
            f" {shlex.join(('podium', *sys.argv[1:]))}"
        )
        raise type(error)(f"{workload}: {error}; {recovery_hint}") from error
    except PodiumError as error:
        raise explain_child_error(
            workload, serving_setup.precision, error, serving_setup.entry.results / STATE_FOLDER
        ) from error
    except OSError as error:
        raise JudgedError(
            f"{error.filename or results}: {error.strerror}; finished results are kept"
        ) from error
    accuracy_run = serving_setup.entry.locate_accuracy_run(
        serving_setup.request.row.inference_name, scenarios[0]
    )
    print_progress_note(
        f"{workload}: logs in {convert_to_user_path(accuracy_run.parent.parent, results)}"
    )
    if problems:
        raise JudgedError("; ".join(problems))
    if not get_screen().inner:
        print_progress_note(f"next: {shlex.join(('podium', 'check', str(results)))}")


def run_scenarios(
    serving_setup: ServingSetup,
    scenarios: Sequence[Scenario],
    modes: Sequence[Mode],
    search: Callable[[ServingSetup, ProbeResult], SearchedRun] | None = None,
) -> Iterator[str]:
    """Run all requested scenarios and modes; yield what is wrong with them. OSError if the disk is
    full.
    """
    description = (
        describe_remote_system(serving_setup)
        if serving_setup.server_description
        else describe_system(serving_setup.entry, serving_setup.request.described)
    )  # an error in --system-file is told now
    idle_scenario = (
        scenarios[0]
        if Mode.PERFORMANCE in modes and has_readable_power(serving_setup.power)
        else None
    )
    threads = resolve_thread_count(
        serving_setup.request.options.threads,
        SingleRank(),
        read_earlier_threads(serving_setup, scenarios, modes),
    )
    serving_setup = replace(
        serving_setup, description=description, idle_scenario=idle_scenario
    ).copy_with_threads(threads)
    staging = build_staging_entry(serving_setup)
    finish_interrupted_move(serving_setup, staging)
    serving_setup.ledger.settle()
    try:
        probe_result = probe_system(
            serving_setup, scenarios, staging.locate_ground_truth(serving_setup.request.name)
        )
        if search and Scenario.SERVER in scenarios and Mode.PERFORMANCE in modes:
            serving_setup = replace(serving_setup, searched_run=search(serving_setup, probe_result))
        for scenario in scenarios:
            yield from run_staged_scenario(serving_setup, staging, scenario, modes, probe_result)
    finally:
        clear_staging_folder(staging)


def run_staged_scenario(
    serving_setup: ServingSetup,
    staging: ResultsEntry,
    scenario: Scenario,
    modes: Sequence[Mode],
    probe_result: ProbeResult,
) -> Iterator[str]:
    """Run one scenario, in place or in a staging folder; earlier results stay until all new runs
    are complete.
    """
    replaced_runs = find_replaced_runs(serving_setup, scenario, modes)
    if not replaced_runs:
        copy_ground_truth(
            staging.locate_ground_truth(serving_setup.request.name),
            serving_setup.entry.locate_ground_truth(serving_setup.request.name),
        )
        yield from run_modes(serving_setup, scenario, modes, probe_result)
        return
    problems = list(run_modes(replace(serving_setup, entry=staging), scenario, modes, probe_result))
    if problems and all(map(is_every_run_valid, replaced_runs)):
        aside_folder = move_staged_runs_aside(serving_setup, staging)
        click.echo(
            f"{scenario.label}: the earlier result has VALID runs and stays in place; this one is"
            f" stored in {aside_folder}"
        )
    else:
        replace_earlier_runs(
            serving_setup,
            staging,
            [*replaced_runs, *find_stale_audits(serving_setup, replaced_runs)],
        )
    serving_setup.ledger.settle()
    yield from problems


def run_modes(
    serving_setup: ServingSetup,
    scenario: Scenario,
    modes: Sequence[Mode],
    probe_result: ProbeResult,
) -> Iterator[str]:
    """Run one scenario and write its records; yield what is wrong with the runs."""
    write_json(serving_setup.entry.system_file, serving_setup.description)
    write_measurements(serving_setup, scenario, probe_result)
    for mode in modes:
        yield from run_scenario_mode(serving_setup, scenario, mode, probe_result)


def probe_system(
    serving_setup: ServingSetup, scenarios: Sequence[Scenario], truth: Path
) -> ProbeResult:
    """Probe the system under test in a child process, which writes the ground truth to `truth`."""
    shutil.rmtree(truth, ignore_errors=True)
    truth.mkdir(parents=True)
    print_progress_note(
        f"{serving_setup.request.name}: preparing: model, accuracy set, and a probe of its speed"
    )
    queries = max(
        serving_setup.require_scenario_rules(scenario).samples_per_query for scenario in scenarios
    )
    probe_result = run_in_child(
        run_probe_job, ProbeJob(system=serving_setup.system, query_samples=queries, truth=truth)
    )
    wanted = serving_setup.row.truth_sha256
    if wanted and compute_folder_sha256(truth) != wanted:
        click.echo(
            "this is not the embedded data, the only data that the judge accepts in profile"
            f" {serving_setup.request.profile}; see --profile quick"
        )
    probe = probe_result.probe
    click.echo(
        f"probe: {probe.samples_per_second:,.1f} samples/s, {probe.latency_ns / 1e6:.2f} ms for one"
        " sample"
    )
    return probe_result


def write_measurements(
    serving_setup: ServingSetup, scenario: Scenario, probe_result: ProbeResult
) -> None:
    """Write the measurements file: MLCommons' fields, then podium's."""
    request, record = serving_setup.request, serving_setup.checkpoint.record
    official: dict[str, object] = {
        "input_data_types": "fp32",
        "retraining": "no",
        "starting_weights_filename": f"checkpoints/{request.name}/{record.sha256}",
        "weight_data_types": serving_setup.precision.value,
        "weight_transformations": (
            "none"
            if serving_setup.precision == "fp32"
            else f"{serving_setup.precision} where the engine computes in it"
        ),
    }
    own: dict[str, object] = {
        "workload": request.name,
        "round": request.round.name,
        "profile": request.profile.value,
        "scenario": scenario.label,
        "engine": request.engine,
        "precision": serving_setup.precision.value,
        "framework": request.framework,
        "device": serving_setup.device,
        "threads": serving_setup.threads,
        "checkpoint_sha256": record.sha256,
        "reference_accuracy": dict(record.reference_accuracy),
        "truth_sha256": compute_folder_sha256(
            serving_setup.entry.locate_ground_truth(request.name)
        ),
        "settings": dict(request.settings),
        "engine_description": {
            network: dict(detail_log) for network, detail_log in probe_result.built.items()
        },
        "calibration": {
            network: asdict(record) for network, record in probe_result.calibrated.items()
        },
    }
    write_json(
        serving_setup.entry.locate_measurements_file(request.row.inference_name, scenario),
        official | own,
    )


def run_scenario_mode(
    serving_setup: ServingSetup, scenario: Scenario, mode: Mode, probe_result: ProbeResult
) -> Iterator[str]:
    """Run LoadGen for one scenario and mode; yield what is wrong with the runs."""
    if mode is Mode.ACCURACY:
        yield from measure_accuracy(
            serving_setup,
            build_mode_schedule(serving_setup, scenario, mode, probe_result, {}),
            probe_result,
        )
        return
    for number in range(1, serving_setup.resolve_run_count(scenario) + 1):
        yield from measure_performance(serving_setup, scenario, number, probe_result)


def build_mode_schedule(
    serving_setup: ServingSetup,
    scenario: Scenario,
    mode: Mode,
    probe_result: ProbeResult,
    changed: Mapping[str, HyperValue],
) -> LoadGenSchedule:
    """Build the schedule of one LoadGen run."""
    request = serving_setup.request
    return build_loadgen_schedule(
        request.round,
        serving_setup.require_scenario_rules(scenario),
        scenario,
        mode,
        {**request.settings, **changed},
        probe_result.probe,
        serving_setup.log_seed,
    )


def measure_accuracy(
    serving_setup: ServingSetup, schedule: LoadGenSchedule, probe_result: ProbeResult
) -> Iterator[str]:
    """Run and score an accuracy run."""
    name = serving_setup.request.row.inference_name
    job = LoadGenJob(
        system=serving_setup.system,
        schedule=schedule,
        folder=serving_setup.entry.locate_accuracy_run(name, schedule.scenario),
    )
    title = f"{schedule.scenario.label} accuracy, {probe_result.sample_count:,} samples"
    waiting = WaitProgress(
        title,
        estimate_answering_s(schedule, probe_result.sample_count, probe_result.probe),
        about=True,
    )
    with (
        waiting as shown,
        record_attempt(serving_setup, AttemptKind.ACCURACY, job.folder) as ledger_attempt,
        run_loadgen_in_child(job, shown.show_elapsed) as (folder, outcome),
    ):
        scores = score_accuracy_run(serving_setup, folder)
        metric, value = next(iter(scores.items()))
        write_run_record(
            serving_setup,
            schedule,
            outcome,
            RunResult(verdict=NO_LOADGEN_VERDICT, metric=metric, value=value),
            folder,
        )
        errors = read_detail_log(folder).errors
        ledger_attempt.record_completion(folder, NO_LOADGEN_VERDICT)
    score_shortfalls = list_score_shortfalls(serving_setup, scores)
    reached = ", ".join(f"{key} {value:.4f}" for key, value in scores.items())
    click.echo(
        f"{schedule.scenario.label} accuracy: {reached}{', too low' if score_shortfalls else ''}"
    )
    yield from (
        f"{schedule.scenario.label} accuracy: {sentence}"
        for sentence in (*score_shortfalls, *(f"void; LoadGen: {error}" for error in errors))
    )


def measure_performance(
    serving_setup: ServingSetup, scenario: Scenario, number: int, probe_result: ProbeResult
) -> Iterator[str]:
    """Run a performance run; repeat an INVALID one a few times with the advised settings, except
    settings that the user chose.

    A run that is void only because of the machine is repeated unchanged. The best run of a search
    stands for the first.
    """
    changed: dict[str, float] = {}
    if serving_setup.searched_run and scenario is Scenario.SERVER:
        changed = {SERVER_RATE_SETTING: serving_setup.searched_run.rate}
        if number == 1:
            copy_searched_run(
                serving_setup,
                serving_setup.searched_run,
                build_mode_schedule(
                    serving_setup, scenario, Mode.PERFORMANCE, probe_result, changed
                ),
            )
            return
    verdict = run_performance_once(
        serving_setup,
        build_mode_schedule(serving_setup, scenario, Mode.PERFORMANCE, probe_result, changed),
        number,
        probe_result.probe,
    )
    for _ in range(MAX_INVALID_RETRIES):
        advice = select_advised_settings(serving_setup, verdict.hints)
        if verdict.valid or not (advice or verdict.is_repeatable):
            break
        changed |= lower_missed_rate(advice, changed, verdict.hints)
        settings = ", ".join(
            f"{key}={format_without_exponent(value)}" for key, value in changed.items()
        )
        click.echo(
            f"{scenario.label} performance: repeating with {settings or 'the same settings'}"
        )
        supersede(
            serving_setup.request.options.results.absolute(),
            [
                serving_setup.entry.locate_performance_run(
                    serving_setup.request.row.inference_name, scenario, number
                )
            ],
            serving_setup.entry.results,
        )
        serving_setup.ledger.settle()
        verdict = run_performance_once(
            serving_setup,
            build_mode_schedule(serving_setup, scenario, Mode.PERFORMANCE, probe_result, changed),
            number,
            probe_result.probe,
        )
    if not verdict.valid:
        reason = "".join(f"; LoadGen: {error}" for error in verdict.errors)
        yield f"{scenario.label} performance run {number} is INVALID{reason}"


def lower_missed_rate(
    advice: Mapping[str, float], changed: Mapping[str, float], hints: Sequence[Hint]
) -> dict[str, float]:
    """Halve a rate that was already lowered and still missed: on a busy machine, one run predicts
    little about the next.
    """
    missed = any(
        hint.knob == SERVER_RATE_SETTING and hint.rule in (LATENCY_BOUND_RULE, EARLY_STOPPING_RULE)
        for hint in hints
    )
    if not (missed and SERVER_RATE_SETTING in advice and SERVER_RATE_SETTING in changed):
        return dict(advice)
    return {
        **advice,
        SERVER_RATE_SETTING: min(
            advice[SERVER_RATE_SETTING], round_to_significant(changed[SERVER_RATE_SETTING] / 2)
        ),
    }


def is_below_round_minimum(schedule: LoadGenSchedule, row: ScenarioRow) -> bool:
    """Check whether the user's settings require less of LoadGen than the round does."""
    return schedule.min_duration_ms < row.min_duration_ms or schedule.min_queries < row.min_queries


def select_advised_settings(serving_setup: ServingSetup, hints: Sequence[Hint]) -> dict[str, float]:
    """Return the settings that the hints name, except the user's own; the most pressing hint
    wins.
    """
    return {
        hint.knob: hint.value
        for hint in reversed(hints)
        if hint.value is not None and hint.knob not in serving_setup.request.chosen
    }


def run_performance_once(
    serving_setup: ServingSetup, schedule: LoadGenSchedule, number: int, probe: ProbedSpeed
) -> LoadGenVerdict:
    """Run one performance run, report its verdict, and keep it."""
    name = serving_setup.request.row.inference_name
    run_folder, idle_s = (
        serving_setup.entry.locate_performance_run(name, schedule.scenario, number),
        serving_setup.get_idle_reading_s(schedule.scenario, number),
    )
    job = LoadGenJob(
        system=serving_setup.system,
        schedule=schedule,
        folder=run_folder,
        power=serving_setup.power,
        idle_s=idle_s,
    )
    ceiling = get_harness_ceiling(
        locate_cache_folder(), schedule.scenario, instances=len(serving_setup.system.placement)
    )
    title, what = f"{schedule.scenario.label} performance", AttemptKind.PERFORMANCE
    with (
        WaitProgress(title, idle_s + estimate_minimum_s(schedule, probe)) as shown,
        record_attempt(serving_setup, what, job.folder) as ledger_attempt,
        run_loadgen_in_child(job, shown.show_elapsed) as (folder, outcome),
    ):
        detail_log = read_detail_log(folder)
        verdict = judge_performance_run(serving_setup, schedule, detail_log)
        measured = compute_loadgen_energy(
            folder,
            schedule.scenario,
            detail_log,
            outcome.lost * serving_setup.power.requested,
            idle=idle_s > 0,
        )
        if ceiling is not None and verdict.valid and verdict.rate > ceiling:
            ceiling = get_harness_ceiling(
                locate_cache_folder(),
                schedule.scenario,
                verdict.rate,
                len(serving_setup.system.placement),
            )
        above = (
            ceiling is not None
            and verdict.rate > serving_setup.request.round.loadgen.ceiling_share * ceiling
        )
        word = VALID_RUN if verdict.valid else "INVALID"
        result = RunResult(
            verdict=word,
            metric=verdict.metric,
            value=verdict.value,
            ceiling=ceiling,
            is_above_ceiling=above,
            hints=verdict.hints,
            measured=measured,
        )
        write_run_record(serving_setup, schedule, outcome, result, folder)
        ledger_attempt.record_completion(folder, word)
    click.echo(format_run_verdict(schedule, verdict, ceiling))
    for sentence in describe_measured_energy(measured):
        click.echo(f"  {sentence}")
    if is_below_round_minimum(schedule, serving_setup.require_scenario_rules(schedule.scenario)):
        click.echo("  shorter than the round requires: this run does not count")
    if above and verdict.valid:
        click.echo("  above a fifth of the harness ceiling: the measurement includes the harness")
    for sentence in (
        *outcome.lost,
        *(f"LoadGen: {error}" for error in verdict.errors),
        *(hint.sentence for hint in verdict.hints),
    ):
        click.echo(f"  {sentence}")
    return verdict
