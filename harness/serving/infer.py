"""`podium infer`: a probe of the system under test, then a LoadGen run for each scenario and
mode.
"""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from harness.kernel_errors import write_traceback_and_explain
from harness.machine.power.selection import has_readable_power
from harness.progress import WaitProgress
from harness.serving.attempts import record_attempt
from harness.serving.automatic_engine import set_up_with_engine
from harness.serving.checkpoint_selection import describe_missing_training_set
from harness.serving.forced_answers import force_logged_answers
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    estimate_answering_s,
)
from harness.serving.performance_runs import build_mode_schedule, measure_performance
from harness.serving.run_record import (
    score_accuracy_run,
    write_run_record,
)
from harness.serving.setup import LOCAL_SITE, SearchedRun, ServingSetup
from harness.serving.sites import ServingSite
from harness.serving.speed_probe import probe_serving_speed
from harness.serving.staging import (
    NO_LOADGEN_VERDICT,
    ServingPlan,
    build_staging_entry,
    clear_staging_folder,
    copy_ground_truth,
    find_replaced_runs,
    find_stale_audits,
    find_stale_records,
    finish_interrupted_move,
    is_every_run_valid,
    move_staged_runs_aside,
    read_other_modes_thread_count,
    replace_earlier_runs,
)
from suite.cli import RunOptions
from suite.console.screen import convert_to_user_path, get_output_level, print_progress_note
from suite.errors import JudgedError, MissingError, PodiumError
from suite.files.json_files import write_json
from suite.files.layout import (
    DISK_FULL_ERRORS,
    STATE_FOLDER,
    ResultsEntry,
    compute_folder_sha256,
)
from suite.ledger.steps import AttemptKind
from suite.loadgen.advice import OFFLINE_RATE_SETTING
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.served_identity import NOT_STATED
from suite.terms import Precision
from suite.workload import Mode


def serve_workload(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    mode: str,
    checkpoint: Path | None,
    runs: int | None = None,
    search: Callable[[ServingSetup, ProbeResult], SearchedRun] | None = None,
    site: ServingSite = LOCAL_SITE,
) -> None:
    """Serve a checkpoint under LoadGen; after all runs, JudgedError if one is INVALID or less
    accurate than the reference.

    `runs`: performance runs per scenario, at least the round's. `search`: finds Server's rate.
    `site`: where the system is.
    """
    serving_setup = set_up_with_engine(workload, options, checkpoint, site)
    if sentence := describe_missing_training_set(serving_setup.request, serving_setup.checkpoint):
        click.echo(sentence)
    if serving_setup.host.network is not None:
        click.echo(f"{workload}: serving: {serving_setup.identity.describe_engine()}")
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
    modes = tuple(Mode) if mode == "all" else (Mode(mode),)
    scenarios = serving_setup.select_row_scenarios(scenarios)
    try:
        problems = serve_plan(serving_setup, dict.fromkeys(scenarios, modes), search)
    except Interrupted as error:
        recovery_hint = (
            "runs that ended are kept until the same command runs them again:"
            f" {shlex.join(('podium', *sys.argv[1:]))}"
        )
        raise type(error)(f"{workload}: {error}; {recovery_hint}") from error
    accuracy_run = serving_setup.entry.locate_accuracy_run(
        serving_setup.request.row.inference_name, scenarios[0]
    )
    if problems or get_output_level().moving is None:  # a campaign that moves them names the place
        print_progress_note(
            f"{workload}: logs in {convert_to_user_path(accuracy_run.parent.parent, results)}"
        )
    if problems:
        raise JudgedError("; ".join(problems))
    if not get_output_level().inner:
        print_progress_note(f"next: {shlex.join(('podium', 'check', str(results)))}")


def serve_plan(
    serving_setup: ServingSetup,
    plan: ServingPlan,
    search: Callable[[ServingSetup, ProbeResult], SearchedRun] | None = None,
) -> list[str]:
    """Serve the planned modes of each scenario; return what is wrong with the runs."""
    workload, results = serving_setup.request.name, serving_setup.request.options.results
    serving_setup.check_precision()
    for scenario in plan:
        serving_setup.check_run_count(scenario)
    try:
        with raise_signals_in_block(), lock_results_folder(serving_setup.entry.results):
            return run_scenarios(serving_setup, plan, search)
    except PodiumError as error:
        raise write_traceback_and_explain(
            workload, serving_setup.precision, error, serving_setup.entry.results / STATE_FOLDER
        ) from error
    except OSError as error:
        kind = MissingError if error.errno in DISK_FULL_ERRORS else JudgedError
        raise kind(
            f"{error.filename or results}: {error.strerror}; finished results are kept"
        ) from error


def run_scenarios(
    serving_setup: ServingSetup,
    plan: ServingPlan,
    search: Callable[[ServingSetup, ProbeResult], SearchedRun] | None = None,
) -> list[str]:
    """Run all requested scenarios and modes; return what is wrong with them. OSError if the disk is
    full.
    """
    serving_setup = serving_setup.add_description()  # an error in --system-file is reported now
    measured = [scenario for scenario, modes in plan.items() if Mode.PERFORMANCE in modes]
    idle_scenario = measured[0] if measured and has_readable_power(serving_setup.power) else None
    earlier = read_other_modes_thread_count(serving_setup, plan)
    serving_setup = replace(serving_setup, idle_scenario=idle_scenario).settle_threads(earlier)
    staging = build_staging_entry(serving_setup)
    finish_interrupted_move(serving_setup, staging)
    serving_setup.ledger.settle()
    try:
        probe_result = probe_system(
            shorten_needless_probe(serving_setup, plan),
            tuple(plan),
            staging.locate_ground_truth(serving_setup.request.name),
        )
        if search and Scenario.SERVER in measured:
            serving_setup = replace(serving_setup, searched_run=search(serving_setup, probe_result))
        problems: list[str] = []
        for scenario, modes in plan.items():
            problems += run_staged_scenario(serving_setup, staging, scenario, modes, probe_result)
        return problems
    finally:
        clear_staging_folder(staging)


def run_staged_scenario(
    serving_setup: ServingSetup,
    staging: ResultsEntry,
    scenario: Scenario,
    modes: Sequence[Mode],
    probe_result: ProbeResult,
) -> list[str]:
    """Run one scenario, in place or in a staging folder; earlier results stay until all new runs
    are complete. Return what is wrong with the runs.
    """
    replaced_runs = find_replaced_runs(serving_setup, scenario, modes, probe_result.sample_count)
    if not replaced_runs:
        copy_ground_truth(
            staging.locate_ground_truth(serving_setup.request.name),
            serving_setup.entry.locate_ground_truth(serving_setup.request.name),
        )
        return run_modes(serving_setup, scenario, modes, probe_result)
    problems = run_modes(replace(serving_setup, entry=staging), scenario, modes, probe_result)
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
            [
                *replaced_runs,
                *find_stale_records(serving_setup, replaced_runs),
                *find_stale_audits(serving_setup, replaced_runs),
            ],
        )
    serving_setup.ledger.settle()
    return problems


def run_modes(
    serving_setup: ServingSetup,
    scenario: Scenario,
    modes: Sequence[Mode],
    probe_result: ProbeResult,
) -> list[str]:
    """Run one scenario and write its records; return what is wrong with the runs."""
    write_json(serving_setup.entry.system_file, serving_setup.description)
    write_measurements(serving_setup, scenario, probe_result)
    problems: list[str] = []
    for mode in modes:
        problems += run_scenario_mode(serving_setup, scenario, mode, probe_result)
    return problems


def shorten_needless_probe(serving_setup: ServingSetup, plan: ServingPlan) -> ServingSetup:
    """Return a setup whose probe makes as few calls as it can, where a setting already says the
    rate that it would find.
    """
    if (
        set(plan) != {Scenario.OFFLINE}
        or OFFLINE_RATE_SETTING not in serving_setup.request.settings
    ):
        return serving_setup
    return replace(serving_setup, system=replace(serving_setup.system, probe_share=0.0))


def probe_system(
    serving_setup: ServingSetup, scenarios: Sequence[Scenario], truth: Path
) -> ProbeResult:
    """Probe the system under test in a child process, which writes the ground truth to `truth`."""
    shutil.rmtree(truth, ignore_errors=True)
    truth.mkdir(parents=True)
    queries = max(
        serving_setup.require_scenario_rules(scenario).samples_per_query for scenario in scenarios
    )
    probe_result = probe_serving_speed(serving_setup, truth, queries)
    wanted = serving_setup.row.truth_sha256
    if wanted and compute_folder_sha256(truth) != wanted:
        click.echo(
            "this is not the embedded data, the only data that the judge accepts in profile"
            f" {serving_setup.request.profile}; see --profile quick"
        )
    return probe_result


def write_measurements(
    serving_setup: ServingSetup, scenario: Scenario, probe_result: ProbeResult
) -> None:
    """Write the measurements file: MLCommons' fields, then podium's."""
    request, record = serving_setup.request, serving_setup.checkpoint.record
    identity = serving_setup.identity
    precision = identity.precision.text
    transformations = "none"
    if not identity.precision.is_known:
        transformations = NOT_STATED
    elif precision != Precision.FP32:
        transformations = f"{precision} where the engine computes in it"
    official: dict[str, object] = {
        "input_data_types": "fp32",
        "retraining": "no",
        "starting_weights_filename": f"checkpoints/{request.name}/{record.sha256}",
        "weight_data_types": precision,
        "weight_transformations": transformations,
    }
    own: dict[str, object] = {
        "workload": request.name,
        "round": request.round.name,
        "profile": request.profile.value,
        "scenario": scenario.label,
        "engine": identity.engine.text,
        "precision": precision,
        "framework": serving_setup.framework,
        "device": serving_setup.device,
        "threads": serving_setup.threads,
        "checkpoint_sha256": record.sha256,
        "weights_origin": record.origin,
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
) -> list[str]:
    """Run LoadGen for one scenario and mode; return what is wrong with the runs."""
    if mode is Mode.ACCURACY:
        return measure_accuracy(
            serving_setup,
            build_mode_schedule(serving_setup, scenario, mode, probe_result, {}),
            probe_result,
        )
    problems: list[str] = []
    for number in range(1, serving_setup.resolve_run_count(scenario) + 1):
        problems += measure_performance(serving_setup, scenario, number, probe_result)
    return problems


def measure_accuracy(
    serving_setup: ServingSetup, schedule: LoadGenSchedule, probe_result: ProbeResult
) -> list[str]:
    """Run and score an accuracy run; return what is wrong with it."""
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
        force_logged_answers(serving_setup, folder)
        write_run_record(serving_setup, schedule, outcome, folder)
        errors = read_detail_log(folder).errors
        ledger_attempt.record_completion(folder, NO_LOADGEN_VERDICT)
    score_shortfalls = serving_setup.score_limits.list_shortfalls(scores)
    reached = ", ".join(f"{key} {value:.4f}" for key, value in scores.items())
    click.echo(
        f"{schedule.scenario.label} accuracy: {reached}{', too low' if score_shortfalls else ''}"
    )
    return [
        f"{schedule.scenario.label} accuracy: {sentence}"
        for sentence in (*score_shortfalls, *(f"void; LoadGen: {error}" for error in errors))
    ]
