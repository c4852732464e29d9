"""`podium infer --onnx`: the speed of an ONNX file under LoadGen in all scenarios, as a study
outside the submission tree.
"""

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from harness.children.process import load_ahead
from harness.machine.device import resolve_device
from harness.request import check_request_folders
from harness.serving.automatic_engine import format_engine_figures, try_network_engines
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.onnx_file.network import (
    INFERENCE_MODULE,
    OnnxNetwork,
    open_onnx_networks,
)
from harness.serving.onnx_file.shapes import parse_named_shapes, parse_named_values
from harness.serving.setup import ServingSetup, read_batching_settings
from harness.serving.studies.driver import locate_study_folder, measure_system
from harness.serving.studies.resume import find_first_run
from harness.serving.studies.system import ServedSystem, StudyOptions
from harness.serving.sweep.subjects import (
    ServedNetwork,
    build_network_run,
    build_network_setup,
    check_network_options,
    check_single_process,
    describe_network_weights,
)
from suite import registry
from suite.cli import RunOptions
from suite.engine import Engine
from suite.errors import MissingError, RequestError
from suite.loadgen.scenario import Scenario
from suite.rounds import Division, InferenceRow, Profile, ScenarioRow
from suite.rounds.settings import read_chosen_settings
from suite.studies.measured import convert_from_json
from suite.studies.records import find_study_record
from suite.studies.speed import SPEED, SpeedRequest
from suite.terms import AUTOMATIC_ENGINE, Precision
from suite.units import NS_PER_MS
from suite.workload import Run

DURATIONS_MS: Final[Mapping[Profile, int]] = {
    Profile.SMOKE: 5_000,
    Profile.QUICK: 20_000,
    Profile.FULL: 600_000,
}
"""Shortest run of each profile, as of the workloads. Source of `full`: inference_rules.adoc v1.0
and later, Scenarios; of the others: house rule.
"""
BATCH_SETTING: Final = "batching.max_batch"
BOUND_LATENCIES: Final = 10
"""House rule: Server's bound, without --within-ms, is this multiple of one sample's latency,
rounded up to a step, so that two runs usually have the same; LEAST_BOUND_MS at least.
"""
LEAST_BOUND_MS: Final = 15.0
"""Source: inference_rules.adoc v0.7, Scenarios: the tightest bound of Server, ResNet-50's; below it
the pauses of a shared machine would be measured.
"""
BOUND_STEPS: Final = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """The command line's request for a file."""

    path: Path
    shapes: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    scenarios: tuple[Scenario, ...]
    within_ms: float | None = None
    """Server's latency bound; None: by the latency that a probe finds."""
    runs: int | None = None


def measure_file_speed(options: RunOptions, request: FileRequest) -> None:
    """Measure a file in the scenarios; JudgedError if a run is INVALID, RequestError and
    MissingError for what cannot be run here.
    """
    check_request_folders(options)
    (network,) = open_onnx_networks(
        [request.path],
        parse_named_shapes(request.shapes),
        options.data,
        parse_named_values(request.values),
    )
    chosen = read_chosen_settings(
        registry.load_round().settings, options.config, options.assignments
    )
    check_single_process(chosen, "an ONNX file")
    choose_served_batch(network, chosen)  # refused now, whatever the engines say
    options = settle_file_engine(network, replace(options, data=None))
    serving_setup = set_up_file_serving(network, options)
    values: dict[str, Any] = {"scenarios": request.scenarios, "bound_ns": None}
    system = ServedSystem(
        request_name=network.name,
        options=options,
        study_options=StudyOptions(values=values, repeats=request.runs or 1),
        setup=serving_setup,
    )
    if Scenario.SERVER in request.scenarios:
        values["bound_ns"] = resolve_server_bound_ns(system, request.within_ms)
        row = build_file_row(serving_setup.request.profile, values["bound_ns"])
        system.setup = replace(serving_setup, row=row)
    measure_system(SPEED, system, system.study_options)


def settle_file_engine(network: OnnxNetwork, options: RunOptions) -> RunOptions:
    """Return options that name an engine: the user's, or the fastest that runs the file here."""
    if options.engine != AUTOMATIC_ENGINE:
        return options
    systems: dict[str, LoadedSystem] = {}
    failures: list[MissingError] = []
    for name in registry.map_entry_points(registry.ENGINE_GROUP):
        try:
            systems[name] = set_up_file_serving(network, replace(options, engine=name)).system
        except MissingError as error:
            failures.append(error)
        except RequestError:  # an engine of other networks, or without this precision
            continue
    if not systems:
        wanted = options.precision or Precision.FP32
        unable = RequestError(f"{network.name}: no engine runs ONNX files in {wanted}")
        raise failures[0] if failures else unable
    if len(systems) == 1:
        return replace(options, engine=next(iter(systems)))
    trials = try_network_engines(network.name, options, systems, network.graph.sha256)
    fastest = next(iter(trials))
    click.echo(f"{network.name}: engine {format_engine_figures(fastest, trials)}")
    return replace(options, engine=fastest)


def set_up_file_serving(network: OnnxNetwork, options: RunOptions) -> ServingSetup:
    """Set up a file for LoadGen on this machine; RequestError and MissingError as above."""
    engine, device = registry.load_engine(options.engine), resolve_device(options.device)
    precision = Precision(options.precision or Precision.FP32)
    check_network_options(network, engine, options.engine, device, precision)
    load_ahead((INFERENCE_MODULE,))
    run = build_network_run(network, options, device, precision)
    chosen = read_chosen_settings(run.round.settings, options.config, options.assignments)
    batch = choose_served_batch(network, chosen)
    threads = run.threads or len(os.sched_getaffinity(0))
    run = replace(run, threads=threads, settings={**run.settings, BATCH_SETTING: batch})
    weights = describe_network_weights(network.name, network, run, None)
    row = build_file_row(run.profile, bound_ns=None)
    system = build_file_system(network, engine, run)
    return build_network_setup(network.name, options, system, weights, row)


def choose_served_batch(network: OnnxNetwork, chosen: Mapping[str, Any]) -> int:
    """Return the samples of a batch: by --shape or by --set; RequestError if they differ, or if the
    file does not allow it.
    """
    batch = int(chosen.get(BATCH_SETTING, network.batch))
    if network.batch not in (1, batch):
        raise RequestError(
            f"--shape asks for batches of {network.batch}, --set {BATCH_SETTING} for {batch}; give"
            " one of the two"
        )
    network.check_batch_sizes((batch,))
    return batch


def build_file_system(network: OnnxNetwork, engine: Engine[Any], run: Run) -> LoadedSystem:
    """Return the system under test."""
    return LoadedSystem(
        workload=ServedNetwork(network=network, weights=None),
        engine=engine,
        run=run,
        checkpoint=Path(),
        batching=read_batching_settings(run.settings),
    )


def build_file_row(profile: Profile, bound_ns: int | None) -> InferenceRow:
    """Return the conditions of all scenarios: MLPerf's percentiles and queries, or early stopping's
    fewest, and the profile's length.
    """
    lasts_ms = DURATIONS_MS[profile]
    scenarios = {
        Scenario.SINGLE_STREAM: ScenarioRow(
            percentile=90.0, min_duration_ms=lasts_ms, min_queries=64
        ),
        Scenario.MULTI_STREAM: ScenarioRow(
            percentile=99.0, min_duration_ms=lasts_ms, min_queries=662, samples_per_query=8
        ),
        Scenario.SERVER: ScenarioRow(
            percentile=99.0, min_duration_ms=lasts_ms, min_queries=459, bound_ns=bound_ns
        ),
        Scenario.OFFLINE: ScenarioRow(percentile=90.0, min_duration_ms=lasts_ms, min_queries=1),
    }
    return InferenceRow(division=Division.OPEN, performance_samples=1, scenarios=scenarios)


def resolve_server_bound_ns(system: ServedSystem, within_ms: float | None) -> int:
    """Return Server's latency bound: the user's, that of the study that is there, or one by the
    latency of a sample; and say which.
    """
    if within_ms is not None:
        return int(within_ms * NS_PER_MS)
    bound_ns = find_earlier_bound_ns(system)
    if bound_ns is None:
        latency_ms = system.probe_speed().latency_ns / NS_PER_MS
        bound_ms = max(LEAST_BOUND_MS, round_up_to_step(BOUND_LATENCIES * latency_ms))
        bound_ns = int(bound_ms * NS_PER_MS)
    click.echo(f"Server's latency bound: {bound_ns / NS_PER_MS:g} ms (--within-ms takes another)")
    return bound_ns


def find_earlier_bound_ns(system: ServedSystem) -> int | None:
    """Return the bound in the last request of the study of this file that is there; None without
    one.
    """
    folder = locate_study_folder(SPEED, system, system.study_options)
    record, first = find_study_record(folder), find_first_run(folder)
    if record is None or first is None or first.system.engine != system.engine:
        return None
    found: int | None = None
    for saved in record.requests:
        with suppress(msgspec.ValidationError):
            asked = convert_from_json(saved.request, SpeedRequest)
            bounds = (each.bound_ns for each in asked.points)
            found = next(filter(None, bounds), found)
    return found


def round_up_to_step(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, 50 ... in either direction of the point."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-3)))
    return power * next(step for step in BOUND_STEPS if step * power >= value * (1 - 1e-9))
