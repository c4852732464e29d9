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
from harness.doctor.dtype_trials import PrecisionTrial, WorkloadHalf, check_precision_runs
from harness.kernel_errors import explain_child_error
from harness.machine.power.selection import has_readable_power
from harness.machine.system_description import describe_system
from harness.progress import WaitProgress
from harness.serving.adoption import adopt
from harness.serving.attempts import attempted
from harness.serving.energy import energy_of, sentences
from harness.serving.harness_ceiling import ceiling_of_host
from harness.serving.loadgen.probe import Look, LookJob, look
from harness.serving.loadgen.result_files import read_facts
from harness.serving.loadgen.session import Job, held
from harness.serving.loadgen.test_settings import Probe, Schedule, lasts_s, least_s, plan
from harness.serving.network.setup import Asked, describe_remote, set_up_remote
from harness.serving.run_record import (
    Result,
    Verdict,
    judge,
    score,
    shortfalls,
    words,
    write_run_record,
)
from harness.serving.setup import Bench, Searched, set_up
from harness.serving.staging import (
    NO_VERDICT,
    VALID,
    beside,
    clear,
    counts,
    in_the_way,
    place_truth,
    recover,
    set_aside,
    stale,
    take_place,
    threads_kept,
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

RETRIES: Final = 4
"""House rule: a probe may be optimistic, and a shared machine slow for a while; after five failures
the user decides.
"""


def serve(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    mode: str,
    checkpoint: Path | None,
    runs: int | None = None,
    search: Callable[[Bench, Look], Searched] | None = None,
    asked: Asked | None = None,
) -> None:
    """Serve a checkpoint under LoadGen; after all runs, JudgedError if one is INVALID or less
    accurate than the reference.

    `runs`: performance runs per scenario, at least the round's. `search`: finds Server's rate.
    `asked`: servers behind a network.
    """
    bench = replace(
        (
            set_up_remote(workload, options, checkpoint, asked)
            if asked
            else set_up(workload, options, checkpoint)
        ),
        runs=runs,
    )
    if not asked:
        check_precision_runs(
            PrecisionTrial(
                workload=workload,
                half=WorkloadHalf.INFERENCE,
                engine=options.engine,
                precision=bench.precision,
            ),
            bench.system.run.device,
        )
    for scenario in scenarios:
        bench.runs_of(scenario)
    try:
        with raised_signals(), exclusive(bench.entry.results):
            problems = list(
                serve_on(bench, scenarios, tuple(Mode) if mode == "all" else (Mode(mode),), search)
            )
    except Interrupted as error:
        kept = (
            "runs that ended are kept until the same command runs them again:"
            f" {shlex.join(('podium', *sys.argv[1:]))}"
        )
        raise type(error)(f"{workload}: {error}; {kept}") from error
    except PodiumError as error:
        raise explain_child_error(
            workload, bench.precision, error, bench.entry.results / STATE_FOLDER
        ) from error
    except OSError as error:
        raise JudgedError(
            f"{error.filename or options.results}: {error.strerror}; finished results are kept"
        ) from error
    accuracy_run = bench.entry.locate_accuracy_run(bench.request.row.inference_name, scenarios[0])
    print_progress_note(
        f"{workload}: logs in {convert_to_user_path(accuracy_run.parent.parent, options.results)}"
    )
    if problems:
        raise JudgedError("; ".join(problems))
    if not get_screen().inner:
        print_progress_note(f"next: {shlex.join(('podium', 'check', str(options.results)))}")


def serve_on(
    bench: Bench,
    scenarios: Sequence[Scenario],
    modes: Sequence[Mode],
    search: Callable[[Bench, Look], Searched] | None = None,
) -> Iterator[str]:
    """Run all requested scenarios and modes; yield what is wrong with them. OSError if the disk is
    full.
    """
    description = (
        describe_remote(bench)
        if bench.served
        else describe_system(bench.entry, bench.request.described)
    )  # an error in --system-file is told now
    first = scenarios[0] if Mode.PERFORMANCE in modes and has_readable_power(bench.power) else None
    threads = resolve_thread_count(
        bench.request.options.threads, SingleRank(), threads_kept(bench, scenarios, modes)
    )
    bench = replace(bench, description=description, first=first).on(threads)
    staging = beside(bench)
    recover(bench, staging)
    bench.ledger.settle()
    try:
        seen = look_at(bench, scenarios, staging.locate_ground_truth(bench.request.name))
        if search and Scenario.SERVER in scenarios and Mode.PERFORMANCE in modes:
            bench = replace(bench, searched=search(bench, seen))
        for scenario in scenarios:
            yield from serve_scenario(bench, staging, scenario, modes, seen)
    finally:
        clear(staging)


def serve_scenario(
    bench: Bench, staging: ResultsEntry, scenario: Scenario, modes: Sequence[Mode], seen: Look
) -> Iterator[str]:
    """Run one scenario, in place or in a staging folder; earlier results stay until all new runs
    are complete.
    """
    standing = in_the_way(bench, scenario, modes)
    if not standing:
        place_truth(
            staging.locate_ground_truth(bench.request.name),
            bench.entry.locate_ground_truth(bench.request.name),
        )
        yield from runs_of(bench, scenario, modes, seen)
        return
    problems = list(runs_of(replace(bench, entry=staging), scenario, modes, seen))
    if problems and all(map(counts, standing)):
        kept = set_aside(bench, staging)
        click.echo(
            f"{scenario.label}: the earlier result has VALID runs and stays in place; this one is"
            f" stored in {kept}"
        )
    else:
        take_place(bench, staging, [*standing, *stale(bench, standing)])
    bench.ledger.settle()
    yield from problems


def runs_of(bench: Bench, scenario: Scenario, modes: Sequence[Mode], seen: Look) -> Iterator[str]:
    """Run one scenario and write its records; yield what is wrong with the runs."""
    write_json(bench.entry.system_file, bench.description)
    write_measurements(bench, scenario, seen)
    for mode in modes:
        yield from run(bench, scenario, mode, seen)


def look_at(bench: Bench, scenarios: Sequence[Scenario], truth: Path) -> Look:
    """Probe the system under test in a child process, which writes the ground truth to `truth`."""
    shutil.rmtree(truth, ignore_errors=True)
    truth.mkdir(parents=True)
    print_progress_note(
        f"{bench.request.name}: preparing: model, accuracy set, and a probe of its speed"
    )
    queries = max(bench.rules(scenario).samples_per_query for scenario in scenarios)
    seen = run_in_child(look, LookJob(system=bench.system, query_samples=queries, truth=truth))
    wanted = bench.row.truth_sha256
    if wanted and compute_folder_sha256(truth) != wanted:
        click.echo(
            "this is not the embedded data, the only data that the judge accepts in profile"
            f" {bench.request.profile}; see --profile quick"
        )
    probe = seen.probe
    click.echo(
        f"probe: {probe.samples_per_second:,.1f} samples/s, {probe.latency_ns / 1e6:.2f} ms for one"
        " sample"
    )
    return seen


def write_measurements(bench: Bench, scenario: Scenario, seen: Look) -> None:
    """Write the measurements file: MLCommons' fields, then podium's."""
    request, record = bench.request, bench.checkpoint.record
    official: dict[str, object] = {
        "input_data_types": "fp32",
        "retraining": "no",
        "starting_weights_filename": f"checkpoints/{request.name}/{record.sha256}",
        "weight_data_types": bench.precision.value,
        "weight_transformations": (
            "none"
            if bench.precision == "fp32"
            else f"{bench.precision} where the engine computes in it"
        ),
    }
    own: dict[str, object] = {
        "workload": request.name,
        "round": request.round.name,
        "profile": request.profile.value,
        "scenario": scenario.label,
        "engine": request.options.engine,
        "precision": bench.precision.value,
        "framework": request.options.framework,
        "device": bench.device,
        "threads": bench.threads,
        "checkpoint_sha256": record.sha256,
        "reference_accuracy": dict(record.reference_accuracy),
        "truth_sha256": compute_folder_sha256(bench.entry.locate_ground_truth(request.name)),
        "settings": dict(request.settings),
        "engine_description": {network: dict(facts) for network, facts in seen.built.items()},
        "calibration": {network: asdict(record) for network, record in seen.calibrated.items()},
    }
    write_json(
        bench.entry.locate_measurements_file(request.row.inference_name, scenario), official | own
    )


def run(bench: Bench, scenario: Scenario, mode: Mode, seen: Look) -> Iterator[str]:
    """Run LoadGen for one scenario and mode; yield what is wrong with the runs."""
    if mode is Mode.ACCURACY:
        yield from accuracy(bench, schedule_of(bench, scenario, mode, seen, {}), seen)
        return
    for number in range(1, bench.runs_of(scenario) + 1):
        yield from performance(bench, scenario, number, seen)


def schedule_of(
    bench: Bench, scenario: Scenario, mode: Mode, seen: Look, changed: Mapping[str, HyperValue]
) -> Schedule:
    """Build the schedule of one LoadGen run."""
    request = bench.request
    return plan(
        request.round,
        bench.rules(scenario),
        scenario,
        mode,
        {**request.settings, **changed},
        seen.probe,
        bench.log_seed,
    )


def accuracy(bench: Bench, schedule: Schedule, seen: Look) -> Iterator[str]:
    """Run and score an accuracy run."""
    name = bench.request.row.inference_name
    job = Job(
        system=bench.system,
        schedule=schedule,
        folder=bench.entry.locate_accuracy_run(name, schedule.scenario),
    )
    title = f"{schedule.scenario.label} accuracy, {seen.sample_count:,} samples"
    waiting = WaitProgress(title, lasts_s(schedule, seen.sample_count, seen.probe), about=True)
    with (
        waiting as shown,
        attempted(bench, AttemptKind.ACCURACY, job.folder) as tried,
        held(job, shown.show_elapsed) as (folder, outcome),
    ):
        scores = score(bench, folder)
        metric, value = next(iter(scores.items()))
        write_run_record(
            bench, schedule, outcome, Result(verdict=NO_VERDICT, metric=metric, value=value), folder
        )
        errors = read_facts(folder).errors
        tried.served(folder, NO_VERDICT)
    short = shortfalls(bench, scores)
    reached = ", ".join(f"{key} {value:.4f}" for key, value in scores.items())
    click.echo(f"{schedule.scenario.label} accuracy: {reached}{', too low' if short else ''}")
    yield from (
        f"{schedule.scenario.label} accuracy: {sentence}"
        for sentence in (*short, *(f"void; LoadGen: {error}" for error in errors))
    )


def performance(bench: Bench, scenario: Scenario, number: int, seen: Look) -> Iterator[str]:
    """Run a performance run; repeat an INVALID one a few times with the advised settings, except
    settings that the user chose.

    A run that is void only because of the machine is repeated unchanged. The best run of a search
    stands for the first.
    """
    changed: dict[str, float] = {}
    if bench.searched and scenario is Scenario.SERVER:
        changed = {SERVER_RATE_SETTING: bench.searched.rate}
        if number == 1:
            adopt(
                bench, bench.searched, schedule_of(bench, scenario, Mode.PERFORMANCE, seen, changed)
            )
            return
    verdict = attempt(
        bench, schedule_of(bench, scenario, Mode.PERFORMANCE, seen, changed), number, seen.probe
    )
    for _ in range(RETRIES):
        advice = advised(bench, verdict.hints)
        if verdict.valid or not (advice or verdict.passing):
            break
        changed |= gentler(advice, changed, verdict.hints)
        settings = ", ".join(
            f"{key}={format_without_exponent(value)}" for key, value in changed.items()
        )
        click.echo(
            f"{scenario.label} performance: repeating with {settings or 'the same settings'}"
        )
        supersede(
            bench.request.options.results.absolute(),
            [
                bench.entry.locate_performance_run(
                    bench.request.row.inference_name, scenario, number
                )
            ],
            bench.entry.results,
        )
        bench.ledger.settle()
        verdict = attempt(
            bench, schedule_of(bench, scenario, Mode.PERFORMANCE, seen, changed), number, seen.probe
        )
    if not verdict.valid:
        reason = "".join(f"; LoadGen: {error}" for error in verdict.errors)
        yield f"{scenario.label} performance run {number} is INVALID{reason}"


def gentler(
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


def below_the_rules(schedule: Schedule, row: ScenarioRow) -> bool:
    """Check whether the user's settings require less of LoadGen than the round does."""
    return schedule.min_duration_ms < row.min_duration_ms or schedule.min_queries < row.min_queries


def advised(bench: Bench, hints: Sequence[Hint]) -> dict[str, float]:
    """Return the settings that the hints name, except the user's own; the most pressing hint
    wins.
    """
    return {
        hint.knob: hint.value
        for hint in reversed(hints)
        if hint.value is not None and hint.knob not in bench.request.chosen
    }


def attempt(bench: Bench, schedule: Schedule, number: int, probe: Probe) -> Verdict:
    """Run one performance run, report its verdict, and keep it."""
    name = bench.request.row.inference_name
    place, idle_s = (
        bench.entry.locate_performance_run(name, schedule.scenario, number),
        bench.idle_s(schedule.scenario, number),
    )
    job = Job(
        system=bench.system, schedule=schedule, folder=place, power=bench.power, idle_s=idle_s
    )
    ceiling = ceiling_of_host(
        locate_cache_folder(), schedule.scenario, instances=len(bench.system.placement)
    )
    title, what = f"{schedule.scenario.label} performance", AttemptKind.PERFORMANCE
    with (
        WaitProgress(title, idle_s + least_s(schedule, probe)) as shown,
        attempted(bench, what, job.folder) as tried,
        held(job, shown.show_elapsed) as (folder, outcome),
    ):
        facts = read_facts(folder)
        verdict = judge(bench, schedule, facts)
        measured = energy_of(
            folder, schedule.scenario, facts, outcome.lost * bench.power.requested, idle=idle_s > 0
        )
        if ceiling is not None and verdict.valid and verdict.rate > ceiling:
            ceiling = ceiling_of_host(
                locate_cache_folder(), schedule.scenario, verdict.rate, len(bench.system.placement)
            )
        above = (
            ceiling is not None
            and verdict.rate > bench.request.round.loadgen.ceiling_share * ceiling
        )
        word = VALID if verdict.valid else "INVALID"
        result = Result(
            verdict=word,
            metric=verdict.metric,
            value=verdict.value,
            ceiling=ceiling,
            above=above,
            hints=verdict.hints,
            measured=measured,
        )
        write_run_record(bench, schedule, outcome, result, folder)
        tried.served(folder, word)
    click.echo(words(schedule, verdict, ceiling))
    for sentence in sentences(measured):
        click.echo(f"  {sentence}")
    if below_the_rules(schedule, bench.rules(schedule.scenario)):
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
