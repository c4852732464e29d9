"""`podium precision`: accuracy and speed of every engine and precision.

Every row is served as `podium infer` serves it (Offline and SingleStream, both modes), into the
same results folder, so
the judge checks the runs that the table shows. Existing runs of the same checkpoint and settings
are reused.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import click

from harness.doctor.dtype_trials import (
    PrecisionTrial,
    TrialEnding,
    WorkloadHalf,
    run_precision_trials,
)
from harness.engine_choice import describe_missing_calibration, describe_unused_options
from harness.machine import cpus
from harness.request import RunRequest, choose_served_framework, resolve_request
from harness.serving.checkpoint_selection import ExportedCheckpoint, choose_checkpoint
from harness.serving.infer import serve_scenarios
from harness.serving.loadgen.result_files import DetailLog, read_detail_log, read_logged_answers
from harness.serving.run_record import list_score_shortfalls, read_run_record
from harness.serving.setup import ServingSetup, set_up_serving
from suite import __version__, registry
from suite.cli import RunOptions
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.json_files import write_json
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds import HyperValue, ScenarioRow
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.terms import Precision
from suite.units import NS_PER_MS
from suite.workload import Scores

PRECISION_SCENARIOS: Final = (Scenario.OFFLINE, Scenario.SINGLE_STREAM)
"""Samples per second come from Offline, latencies from SingleStream."""
OFFLINE_RATE_KEY: Final = "result_samples_per_second"
SHOWN_PERCENTILES: Final = (50, 90, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionRow:
    """One engine in one precision."""

    engine: str
    precision: str
    system: str
    scores: Mapping[str, float]
    difference: Mapping[str, float]
    """Score minus the checkpoint's fp32 reference accuracy; for a metric without one, minus the
    score of the first fp32 row.
    """
    samples_per_second: float | None
    """Offline."""
    latency_ns: Mapping[str, float]
    """SingleStream: p50, p90, p99."""
    speed_up: float | None
    """Relative to the first fp32 row."""
    compliant: bool
    why: str
    """Why the row is not compliant."""


def compare_precisions(
    workload: str,
    options: RunOptions,
    *,
    engine: str | None,
    checkpoint: Path | None,
    output_format: str,
) -> None:
    """Measure every combination that this machine can run, print and save the table; JudgedError if
    a row is not compliant.
    """
    request = add_precision_settings(resolve_request(options, workload))
    threads = options.threads or cpus.choose_core_count(
        cpus.measure_busy_share()
    )  # the same for all rows
    request = replace(request, options=replace(request.options, threads=threads))
    chosen = choose_checkpoint(request, checkpoint)
    wanted = filter_runnable_combinations(request, list(iterate_combinations(request, engine)))
    if not wanted:
        raise MissingError(
            f"{workload}: no engine on this machine supports the request; podium doctor {workload}"
            " says why"
        )
    with redirect_stdout(sys.stderr if output_format == "json" else sys.stdout):
        rows = compare_with_fp32([measure_combination(request, chosen, *pair) for pair in wanted])
    path = options.results / f"precision-{workload}.json"
    document = {
        "workload": workload,
        "profile": request.profile.value,
        "checkpoint_sha256": chosen.record.sha256,
        "rows": [asdict(row) for row in rows],
    }
    write_json(path, document)
    print_precision_table(rows, document, path, output_format)
    if bad := [f"{row.engine} {row.precision}: {row.why}" for row in rows if not row.compliant]:
        raise JudgedError("; ".join(bad))


def add_precision_settings(request: RunRequest) -> RunRequest:
    """Add the row's settings for this table; the user's own take precedence."""
    added = tuple(f"{key}={value}" for key, value in request.row.precision_settings.items())
    return (
        resolve_request(
            replace(request.options, assignments=(*added, *request.options.assignments)),
            request.name,
        )
        if added
        else request
    )


def iterate_combinations(
    request: RunRequest, engine: str | None
) -> Iterator[tuple[str, Precision]]:
    """Yield the combinations that this machine can run, the framework's own engine and fp32 first;
    quantised ones if the round has a calibration list.
    """
    options, row = request.options, request.row.inference.get(request.profile)
    names = (
        [engine]
        if engine
        else sorted(
            registry.list_entry_points(registry.ENGINE_GROUP),
            key=lambda name: (name != request.framework, name),
        )
    )
    for name in names:
        for precision in [options.precision] if options.precision else Precision:
            listed = row is not None and (
                precision is options.precision
                or not describe_missing_calibration(request.row, row, precision)
            )
            if listed and can_serve_combination(name, request, precision):
                yield name, precision


def filter_runnable_combinations(
    request: RunRequest, pairs: Sequence[tuple[str, Precision]]
) -> list[tuple[str, Precision]]:
    """Drop combinations whose trial shows that this machine's kernels cannot run them; one that the
    user names stays, so that its refusal explains why.
    """
    if request.options.precision:
        return list(pairs)
    attempts = {
        pair: PrecisionTrial(
            workload=request.name, half=WorkloadHalf.INFERENCE, engine=pair[0], precision=pair[1]
        )
        for pair in pairs
    }
    results = run_precision_trials(attempts.values(), request.device)
    return [pair for pair in pairs if results[attempts[pair]].ending is not TrialEnding.FAILED]


def can_serve_combination(name: str, request: RunRequest, precision: Precision) -> bool:
    """Check whether an engine is installed and accepts the workload's networks, the user's options
    and the precision.
    """
    try:
        found = registry.load_engine(name)
    except MissingError:
        return False
    takes = choose_served_framework(
        found, request.framework, request.workload
    ) in found.accepts and not describe_unused_options(request, found)
    return takes and found.missing(request.device, precision) is None


def measure_combination(
    request: RunRequest, checkpoint: ExportedCheckpoint, engine: str, precision: Precision
) -> PrecisionRow:
    """Serve one combination, unless its runs exist, and read the results; a refusal becomes a row
    too.
    """
    own = request.options.system
    system = f"{own}-{engine}-{precision}" if own else None
    options = replace(request.options, engine=engine, precision=precision, system=system)
    click.echo(f"{engine} {precision}")
    serving_setup = None
    try:
        serving_setup = set_up_serving(request.name, options, checkpoint.folder)
        missing = tuple(
            scenario
            for scenario in PRECISION_SCENARIOS
            if not has_reusable_runs(serving_setup, scenario)
        )
        if missing:
            serve_scenarios(serving_setup, scenarios=missing, mode="all")
        return read_precision_row(serving_setup, "")
    except JudgedError as error:
        return (
            read_precision_row(serving_setup, str(error))
            if serving_setup
            and all(has_reusable_runs(serving_setup, scenario) for scenario in PRECISION_SCENARIOS)
            else build_refused_row(engine, precision, str(error))
        )
    except (RequestError, MissingError) as error:
        return build_refused_row(engine, precision, str(error))


def build_refused_row(engine: str, precision: Precision, why: str) -> PrecisionRow:
    """Build the row of a combination that could not be served."""
    return PrecisionRow(
        engine=engine,
        precision=precision.value,
        system="",
        scores={},
        difference={},
        samples_per_second=None,
        latency_ns={},
        speed_up=None,
        compliant=False,
        why=why,
    )


def has_reusable_runs(serving_setup: ServingSetup, scenario: Scenario) -> bool:
    """Check whether both runs of a scenario exist, with this checkpoint, campaign and system under
    test, and are as long as requested.
    """
    name, rules = (
        serving_setup.request.row.inference_name,
        serving_setup.require_scenario_rules(scenario),
    )
    accuracy, performance = (
        read_run_record(folder)
        for folder in (
            serving_setup.entry.locate_accuracy_run(name, scenario),
            serving_setup.entry.locate_performance_run(name, scenario),
        )
    )
    required_limits = {
        limit: serving_setup.request.settings.get(limit, least)
        for limit, least in list_minimum_limits(rules).items()
    }
    return (
        is_run_reusable(serving_setup, accuracy)
        and is_run_reusable(serving_setup, performance)
        and not is_below_limits(performance, required_limits)
    )


def is_run_reusable(serving_setup: ServingSetup, run: RunRecord | None) -> bool:
    """Check whether a record matches what would be served now, including podium's version."""
    record, served = serving_setup.checkpoint.record, serving_setup.system.run
    now = (
        record.sha256,
        record.nonce,
        serving_setup.threads,
        served.profile,
        served.device,
        served.framework,
        __version__,
        select_system_settings(serving_setup.request.settings),
    )
    return run is not None and now == (
        *(
            run.checkpoint_sha256,
            run.nonce,
            run.threads,
            run.profile,
            run.device,
            run.framework,
            run.version,
        ),
        select_system_settings(run.settings),
    )


def list_minimum_limits(rules: ScenarioRow) -> dict[str, HyperValue]:
    """Return the minimum length of a performance run."""
    return {
        "loadgen.min_duration_ms": rules.min_duration_ms,
        "loadgen.min_queries": rules.min_queries,
    }


def is_below_limits(run: RunRecord | None, least: Mapping[str, HyperValue]) -> bool:
    """Check whether LoadGen was given lower limits."""
    return run is None or any(
        not isinstance(found := run.settings.get(name), int | float) or found < float(str(value))
        for name, value in least.items()
    )


def select_system_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that affect the system under test, as JSON types."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in settings.items()
        if not key.startswith(PERFORMANCE_PREFIXES)
    }


def read_precision_row(serving_setup: ServingSetup, why: str) -> PrecisionRow:
    """Read scores, rate and latencies from LoadGen's files."""
    name, reference = (
        serving_setup.request.row.inference_name,
        serving_setup.checkpoint.record.reference_accuracy,
    )
    scores = score_scenario_accuracy(serving_setup, Scenario.OFFLINE)
    offline, single = (
        read_detail_log(serving_setup.entry.locate_performance_run(name, scenario))
        for scenario in PRECISION_SCENARIOS
    )
    other = score_scenario_accuracy(serving_setup, Scenario.SINGLE_STREAM)
    reasons = (
        [why]
        if why
        else [
            *check_scenario_compliance(serving_setup, Scenario.OFFLINE, scores, offline),
            *check_scenario_compliance(serving_setup, Scenario.SINGLE_STREAM, other, single),
        ]
    )
    return PrecisionRow(
        engine=serving_setup.request.engine,
        precision=serving_setup.precision.value,
        system=serving_setup.entry.system,
        scores=dict(scores),
        difference={
            metric: value - reference[metric]
            for metric, value in scores.items()
            if metric in reference
        },
        samples_per_second=offline.require_number(OFFLINE_RATE_KEY),
        latency_ns={
            f"p{share}": single.require_number(f"result_{share}.00_percentile_latency_ns")
            for share in SHOWN_PERCENTILES
        },
        speed_up=None,
        compliant=not reasons,
        why="; ".join(reasons),
    )


def score_scenario_accuracy(serving_setup: ServingSetup, scenario: Scenario) -> Scores:
    """Score the accuracy run of a scenario."""
    answers = dict(
        read_logged_answers(
            serving_setup.entry.locate_accuracy_run(
                serving_setup.request.row.inference_name, scenario
            )
        )
    )
    return registry.load_scorer(serving_setup.request.name)(
        answers, serving_setup.entry.locate_ground_truth(serving_setup.request.name)
    )


def check_scenario_compliance(
    serving_setup: ServingSetup, scenario: Scenario, scores: Scores, detail_log: DetailLog
) -> Iterator[str]:
    """Yield why the runs of a scenario are not a valid result."""
    yield from (
        f"{scenario.label} accuracy: {sentence}"
        for sentence in list_score_shortfalls(serving_setup, scores)
    )
    if detail_log.values.get("result_validity") != "VALID":
        yield f"{scenario.label} performance is INVALID"
    if is_below_limits(
        read_run_record(
            serving_setup.entry.locate_performance_run(
                serving_setup.request.row.inference_name, scenario
            )
        ),
        list_minimum_limits(serving_setup.require_scenario_rules(scenario)),
    ):
        yield f"{scenario.label} performance is shorter than the round requires"


def compare_with_fp32(rows: Sequence[PrecisionRow]) -> list[PrecisionRow]:
    """Compare every rate, and the scores without a reference, with the first fp32 row."""
    base = next(
        (row for row in rows if row.precision == Precision.FP32 and row.samples_per_second), None
    )
    return [compare_precision_rows(row, base) for row in rows] if base else list(rows)


def compare_precision_rows(row: PrecisionRow, base: PrecisionRow) -> PrecisionRow:
    """Compare one row with another."""
    score_differences = {
        metric: value - base.scores[metric]
        for metric, value in row.scores.items()
        if metric in base.scores
    }
    rates = row.samples_per_second, base.samples_per_second
    return replace(
        row,
        difference=score_differences | dict(row.difference),
        speed_up=rates[0] / rates[1] if rates[0] and rates[1] else None,
    )


def print_precision_table(
    rows: Sequence[PrecisionRow], document: Mapping[str, object], path: Path, output_format: str
) -> None:
    """Print the table, or the document alone."""
    if output_format == "json":
        click.echo(json.dumps(document))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "engine",
        "precision",
        "score",
        "to fp32",
        "samples/s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "speed-up",
        "compliant",
    )
    for row in rows:
        latencies = [f"{value / NS_PER_MS:.2f}" for value in row.latency_ns.values()] or [
            "-"
        ] * len(SHOWN_PERCENTILES)
        table.add_row(
            row.engine,
            row.precision,
            "\n".join(f"{metric} {value:.4f}" for metric, value in row.scores.items()) or "-",
            "\n".join(
                f"{row.difference[metric]:+.4f}" if metric in row.difference else "-"
                for metric in row.scores
            )
            or "-",
            f"{row.samples_per_second:,.1f}" if row.samples_per_second else "-",
            *latencies,
            f"{row.speed_up:.2f}" if row.speed_up else "-",
            "yes" if row.compliant else "no",
        )
    console = Console()
    (console if console.is_terminal else Console(width=160)).print(table)
    for row in rows:
        if row.why:
            click.echo(f"  {row.engine} {row.precision}: {row.why}")
    click.echo(f"saved in {path}")
