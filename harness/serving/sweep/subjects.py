"""Subjects of a sweep: workloads with their checkpoints, and bare networks, each in every requested
engine and precision.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.children.process import load_ahead
from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.onnx.file_versions import check_runtime_reads
from harness.machine.device import resolve_device
from harness.machine.power.selection import choose_power_sources
from harness.request import RunRequest, locate_cache_folder
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.onnx_file.network import INFERENCE_MODULE, OnnxNetwork
from harness.serving.setup import (
    LocalHost,
    ServingSetup,
    read_batching_settings,
    set_up_serving,
)
from harness.serving.studies.system import ServedSystem, StudyOptions
from suite import __version__, registry
from suite.cli import RunOptions
from suite.engine import Engine
from suite.errors import MissingError, RequestError
from suite.files.layout import compute_file_sha256
from suite.loadgen.scenario import Scenario
from suite.records import CheckpointRecord
from suite.rounds import Benchmark, Division, InferenceRow, Round, ScenarioRow
from suite.rounds.settings import read_chosen_settings
from suite.studies.bare_network import BareNetwork, ChecksWeights, Labelled
from suite.studies.documents import SAMPLES_LIST_FILE, STUDIES_FOLDER, STUDY_TRUTH_FOLDER
from suite.studies.sweep import SWEEP_PERCENTILE
from suite.terms import QUANTISED, Precision
from suite.workload import Inference, Mode, Run, Workload

PROCESS_SETTINGS: Final = "sut."
"""Begin of settings that divide cores among the processes of a workload."""
RANDOM_WEIGHTS_SEED: Final = 0
"""Seed of random weights and of noise."""
NO_PART: Final = ""
"""Parts of a workload that a bare network lacks, and nobody asks for: it is not trained, and its
system under test is built by itself.
"""
LOOP_ROW: Final = ScenarioRow(percentile=SWEEP_PERCENTILE, min_duration_ms=0, min_queries=1)
"""The plan decides how long a closed loop takes."""
NETWORK_ROW: Final = InferenceRow(
    division=Division.OPEN,
    performance_samples=1,
    scenarios={Scenario.MULTI_STREAM: LOOP_ROW, Scenario.OFFLINE: LOOP_ROW},
)
"""Of a bare network, of which the round has no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """The command line's request for a sweep."""

    workloads: tuple[str, ...]
    networks: tuple[str, ...]
    batches: tuple[int, ...]
    engines: tuple[str, ...]
    precisions: tuple[Precision, ...]
    within_ms: float | None
    seconds: float
    seed: int
    checkpoint: Path | None
    weights: Path | None
    files: tuple[OnnxNetwork, ...] = ()
    """ONNX files; their names are among `networks`."""

    def load_network(self, name: str) -> BareNetwork:
        """Return the bare network of that name: a file, or else a registered one."""
        return next(
            (each for each in self.files if each.name == name), None
        ) or registry.load_bare_network(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedNetwork:
    """A bare network with its weights, in the form of a workload for LoadGen's session."""

    network: BareNetwork
    weights: Path | None

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        return self.network.inference(run, self.weights, engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledNetwork:
    """A bare network over labelled samples, in the form of a workload for LoadGen's session."""

    network: Labelled
    weights: Path
    data: Path

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        return self.network.over_data(run, self.data, self.weights, engine)


@dataclass(slots=True, kw_only=True)
class SweptWorkload(ServedSystem):
    """A workload, whose points need no rules of the round."""

    def set_up_run(self, options: RunOptions, mode: Mode) -> ServingSetup:
        """Set up the workload, with the conditions of a closed loop."""
        return set_up_swept_workload(self.request_name, options, self.study_options.checkpoint)


@dataclass(slots=True, kw_only=True)
class SweptNetwork(ServedSystem):
    """A bare network."""

    request: SweepOptions
    data: Path | None
    """Labelled samples that it is scored on."""

    @property
    def is_bare(self) -> bool:
        """Return that it is a bare network."""
        return True

    @property
    def can_be_scored(self) -> bool:
        """Return whether there are labelled samples."""
        return self.data is not None

    def set_up_run(self, options: RunOptions, mode: Mode) -> ServingSetup:
        """Set up the network over noise, or over the labelled samples."""
        made = set_up_swept_network(self.request_name, options, self.request)
        if mode is Mode.ACCURACY and self.data is not None:
            return set_up_network_scoring(made, self.request, self.data)
        return made

    def complete_ground_truth(self, truth: Path) -> None:
        """Write the list of the samples that the network is scored on."""
        if self.data is not None:
            listing = list_labelled_samples(self.request_name, self.request, self.data)
            (truth / SAMPLES_LIST_FILE).write_text(listing, "utf-8")


def set_up_swept_workload(name: str, options: RunOptions, checkpoint: Path | None) -> ServingSetup:
    """Set up a workload; RequestError and MissingError as for `podium infer`."""
    made = set_up_serving(name, options, checkpoint)
    made.require_scenario_rules(Scenario.OFFLINE)
    scenarios = {**made.row.scenarios, Scenario.MULTI_STREAM: LOOP_ROW}
    return replace(made, row=replace(made.row, scenarios=scenarios))


def set_up_swept_network(name: str, options: RunOptions, request: SweepOptions) -> ServingSetup:
    """Set up a bare network; RequestError for an unknown name, MissingError for an engine that does
    not run here.
    """
    network, engine = request.load_network(name), registry.load_engine(options.engine)
    device = resolve_device(options.device)
    precision = Precision(options.precision or Precision.FP32)
    check_network_options(network, engine, options.engine, device, precision)
    check_network_weights(network, request.weights)
    load_ahead((name_serving_module(network),))
    run = build_network_run(network, options, device, precision)
    system = LoadedSystem(
        workload=ServedNetwork(network=network, weights=request.weights),
        engine=engine,
        run=run,
        checkpoint=Path(),
        batching=read_batching_settings(run.settings),
    )
    weights = describe_network_weights(name, network, run, request.weights)
    return build_network_setup(name, options, system, weights, NETWORK_ROW)


def build_network_setup(
    name: str,
    options: RunOptions,
    system: LoadedSystem,
    weights: ExportedCheckpoint,
    row: InferenceRow,
) -> ServingSetup:
    """Build the set-up of a bare network, which has no workload and no row of the round."""
    run = system.run
    request = RunRequest(
        name=name,
        options=options,
        workload=Workload(name=name, training=NO_PART, inference=NO_PART, score=NO_PART),
        round=run.round,
        row=Benchmark(
            title=name,
            training_name=name,
            inference_name=name,
            metrics={},
            settings=run.round.settings,
            training={},
            inference={run.profile: row},
        ),
        profile=run.profile,
        settings=run.settings,
        chosen=read_chosen_settings(run.round.settings, options.config, options.assignments),
        devices=(run.device,),
        framework=run.framework,
        engine=options.engine,
        precision=run.precision,
    )
    return ServingSetup(
        request=request,
        row=row,
        entry=request.build_entry(row.division, options.engine, run.precision),
        checkpoint=weights,
        system=system,
        threads=run.threads,
        power=choose_power_sources(options.power, options.meter, run.settings),
        host=LocalHost(),
    )


def describe_network_weights(
    name: str, network: BareNetwork, run: Run, weights: Path | None
) -> ExportedCheckpoint:
    """Describe the weights of a bare network as a checkpoint. A file's nonce binds each run to its
    shapes and its data.
    """
    inputs = network.describe_inputs() if isinstance(network, OnnxNetwork) else {}
    record = CheckpointRecord(
        workload=name,
        round=run.round.name,
        profile=run.profile.value,
        framework=network.framework,
        sha256=identify_network_weights(network, weights),
        nonce=hashlib.sha256(repr(sorted(inputs.items())).encode()).hexdigest()[:32],
        seed=RANDOM_WEIGHTS_SEED,
        run_index=0,
        training_log="",
        target_reached=False,
        scores={},
        reference_accuracy={},
        settings={},
        version=__version__,
        origin=describe_weights_origin(network, weights),
    )
    return ExportedCheckpoint(folder=Path(), record=record)


def describe_weights_origin(network: BareNetwork, weights: Path | None) -> str:
    """Say where weights come from."""
    if isinstance(network, OnnxNetwork):
        return f"the ONNX file {network.graph.path.name}"
    return (
        f"the weights {weights.name}" if weights else f"random weights, seed {RANDOM_WEIGHTS_SEED}"
    )


def set_up_network_scoring(made: ServingSetup, request: SweepOptions, data: Path) -> ServingSetup:
    """Set up a bare network over labelled samples; RequestError if it has no score, without
    weights, and for other data than its study has been scored on.
    """
    name = made.request.name
    network = require_labelled_network(name, request, data)
    if request.weights is None:
        raise RequestError(
            f"--data {data} needs --weights: random weights of {name} cannot be scored"
        )
    registry.load_scorer(name)  # one that is missing is said now, and not after all points
    samples = list_labelled_samples(name, request, data)
    study_folder = made.entry.results / STUDIES_FOLDER / name
    known = study_folder / STUDY_TRUTH_FOLDER / SAMPLES_LIST_FILE
    if known.is_file() and known.read_text("utf-8") != samples:
        raise RequestError(
            f"--data {data}: {study_folder} was scored on other samples; give another --results"
        )
    over = LabelledNetwork(network=network, weights=request.weights, data=data)
    run = replace(made.system.run, data=data)
    return replace(made, system=replace(made.system, workload=over, run=run))


def require_labelled_network(name: str, request: SweepOptions, data: Path) -> Labelled:
    """Return a bare network that can be scored; RequestError for another one."""
    network = request.load_network(name)
    if not isinstance(network, Labelled):
        raise RequestError(f"--data {data}: the network {name} has no score")
    return network


def list_labelled_samples(name: str, request: SweepOptions, data: Path) -> str:
    """Return a line for each sample that a bare network is scored on."""
    return require_labelled_network(name, request, data).listing(data)


def name_serving_module(network: BareNetwork) -> str:
    """Return the module that serves a network, to be imported before LoadGen's processes fork."""
    return INFERENCE_MODULE if isinstance(network, OnnxNetwork) else type(network).__module__


def identify_network_weights(network: BareNetwork, weights: Path | None) -> str:
    """Return what tells a network's weights: the hash of their file, or that they are random."""
    if isinstance(network, OnnxNetwork):
        return network.graph.sha256
    return compute_file_sha256(weights) if weights else f"random, seed {RANDOM_WEIGHTS_SEED}"


def check_network_options(
    network: BareNetwork, engine: Engine[Any], engine_name: str, device: str, precision: Precision
) -> None:
    """Refuse incompatible options before anything is measured."""
    if network.framework not in engine.accepts:
        raise RequestError(
            f"engine {engine.name} does not accept {network.framework} networks, only"
            f" {', '.join(sorted(engine.accepts))}"
        )
    if precision in QUANTISED:
        raise RequestError(
            f"{precision} needs calibration samples, and a bare network has none; sweep the"
            " workload instead"
        )
    if lacking := engine.missing(device, precision):
        raise MissingError(f"engine {engine_name}: {lacking}")
    if isinstance(network, OnnxNetwork) and isinstance(engine, OnnxRuntimeEngine):
        check_runtime_reads(network.graph.path, network.graph.ir_version, network.graph.opsets)


def check_single_process(chosen: Mapping[str, Any], subject: str) -> None:
    """Refuse settings of several processes, which a bare network is not served by."""
    for key in chosen:
        if key.startswith(PROCESS_SETTINGS):
            raise RequestError(f"setting {key}: {subject} is served in one process; omit it")


def check_network_weights(network: BareNetwork, weights: Path | None) -> None:
    """Refuse a file that is not there, and weights of another network."""
    if weights is not None and not weights.is_file():
        raise RequestError(f"--weights {weights}: no such file")
    if weights is not None and isinstance(network, ChecksWeights):
        network.check_weights(weights)


def build_network_run(
    network: BareNetwork, options: RunOptions, device: str, precision: Precision
) -> Run:
    """Build the run record that a bare network receives."""
    round = registry.load_round()
    subject = "an ONNX file" if isinstance(network, OnnxNetwork) else "a bare network"
    settings = resolve_network_settings(round, options, subject)
    if isinstance(network, OnnxNetwork):
        settings |= network.describe_inputs()
    return Run(
        round=round,
        profile=options.profile,
        seed=RANDOM_WEIGHTS_SEED,
        data=None,
        cache=locate_cache_folder(),
        framework=network.framework,
        input=options.input,
        device=device,
        precision=precision,
        threads=options.threads,
        settings=settings,
    )


def resolve_network_settings(round: Round, options: RunOptions, subject: str) -> dict[str, Any]:
    """Resolve the round's own settings: a bare network has no row. RequestError for one without an
    effect on the subject.
    """
    defaults = {
        key: setting.default
        for key, setting in round.settings.items()
        if setting.default is not None
    }
    chosen = read_chosen_settings(round.settings, options.config, options.assignments)
    check_single_process(chosen, subject)
    return defaults | chosen


def set_up_swept_systems(
    options: RunOptions, study_options: StudyOptions, request: SweepOptions
) -> list[ServedSystem]:
    """Set up all subjects before the first point, so that an invalid request is refused at once."""
    if options.data and request.workloads and request.networks:
        raise RequestError(
            "--data belongs to workloads or to networks: sweep them by commands of their own, in"
            " studies of two names"
        )
    first = replace(options, engine=request.engines[0], precision=request.precisions[0])
    workloads: list[ServedSystem] = [
        SweptWorkload(
            request_name=name,
            options=options,
            study_options=study_options,
            setup=set_up_swept_workload(name, first, request.checkpoint),
        )
        for name in request.workloads
    ]
    unlabelled = replace(options, data=None)
    networks = [
        SweptNetwork(
            request_name=name,
            options=unlabelled,
            study_options=study_options,
            setup=set_up_swept_network(name, replace(first, data=None), request),
            request=request,
            data=None if request.files else options.data,
        )
        for name in request.networks
    ]
    for each in networks:
        each.set_up_run(
            replace(first, data=None), Mode.ACCURACY
        )  # what cannot be scored is refused
    return [*workloads, *networks]
