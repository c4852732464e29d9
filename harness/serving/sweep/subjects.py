"""Subjects of a sweep: workloads with their checkpoints, and bare networks, each in every requested
engine and precision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness.children.process import load_ahead
from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.onnx.file_versions import check_runtime_reads
from harness.machine import cpus
from harness.machine.device import resolve_device
from harness.machine.power.selection import choose_power_sources as choose_power
from harness.machine.system_description import build_system_name
from harness.request import locate_cache_folder
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.onnx_file.network import INFERENCE_MODULE, OnnxNetwork
from harness.serving.setup import set_up_serving
from harness.serving.sweep.points import SWEEP_PERCENTILE, SweepSubject
from harness.serving.sweep.study_files import read_sweep_study
from suite import __version__, registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.engine import Engine
from suite.errors import MissingError, RequestError
from suite.files.layout import compute_file_sha256, convert_to_slug
from suite.loadgen.scenario import Scenario
from suite.rounds import Round, ScenarioRow
from suite.rounds.settings import read_chosen_settings
from suite.studies.bare_network import BareNetwork, ChecksWeights, Labelled
from suite.studies.documents import (
    SAMPLES_LIST_FILE,
    STUDIES_FOLDER,
    STUDY_TRUTH_FOLDER,
    PointIdentity,
    build_batch_settings,
)
from suite.terms import QUANTISED, Precision
from suite.workload import Inference, Run

SINGLE_SAMPLE_BATCHING: Final = BatchingSettings(workers=1, max_batch=1, window_us=0)
SCORING_BATCH_SIZE: Final = 32
"""Samples of a batch in which a bare network is scored; it changes no answer."""
PROCESS_SETTINGS: Final = "sut."
"""Begin of settings that divide cores among the processes of a workload."""
RANDOM_WEIGHTS_SEED: Final = 0
"""Seed of random weights and of noise."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectScoring:
    """What scores a subject once."""

    system: LoadedSystem
    rules: ScenarioRow
    """Offline's."""
    samples: str = ""
    """Of a bare network: what it is scored on, a line for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptSubject:
    """One subject in one engine and precision, with what scores it."""

    subject: SweepSubject
    scoring: SubjectScoring | None = None
    reference: Mapping[str, float] = field(default_factory=dict)
    """Reference accuracy of a workload's checkpoint."""


def build_study_path(results: Path, name: str) -> Path:
    """Return the folder of a subject's study."""
    return results.absolute() / STUDIES_FOLDER / name


def set_up_swept_workload(
    name: str, options: RunOptions, checkpoint: Path | None, seconds: float
) -> SweptSubject:
    """Set up a workload in the engine and precision of `options`; RequestError and MissingError as
    for `podium infer`.
    """
    serving_setup = set_up_serving(name, options, checkpoint)
    run = serving_setup.system.run
    identity = build_point_identity(
        run,
        subject=name,
        weights=serving_setup.checkpoint.record.sha256,
        profile=run.profile.value,
        engine=options.engine,
        seconds=seconds,
    )
    identity = replace(identity, threads=serving_setup.threads)
    folder = build_series_path(identity, options)
    loadgen = run.round.loadgen
    subject = SweepSubject(
        system=serving_setup.system,
        loadgen=loadgen,
        log_seed=serving_setup.log_seed,
        identity=identity,
        folder=folder,
        power=serving_setup.power,
    )
    scoring = SubjectScoring(
        system=serving_setup.system, rules=serving_setup.require_scenario_rules(Scenario.OFFLINE)
    )
    return SweptSubject(
        subject=subject,
        scoring=scoring,
        reference=serving_setup.checkpoint.record.reference_accuracy,
    )


def set_up_swept_network(
    name: str, options: RunOptions, device: str, request: SweepOptions, data: Path | None = None
) -> SweptSubject:
    """Set up a bare network on a device, and its scoring if there is data; RequestError for an
    unknown name, MissingError for an engine that does not run here.
    """
    network, engine, precision = (
        request.load_network(name),
        registry.load_engine(options.engine),
        Precision(options.precision or Precision.FP32),
    )
    weights = request.weights
    check_network_options(network, engine, options.engine, device, precision)
    check_network_weights(network, weights)
    load_ahead((name_serving_module(network),))
    run = build_network_run(network, options, device, precision)
    identity = build_point_identity(
        run,
        subject=name,
        weights=identify_network_weights(network, weights),
        profile=None,
        engine=options.engine,
        seconds=request.seconds,
    )
    served = ServedNetwork(network=network, weights=weights)
    system = LoadedSystem(
        workload=served, engine=engine, run=run, checkpoint=Path(), batching=SINGLE_SAMPLE_BATCHING
    )
    folder = build_series_path(identity, options)
    power = choose_power(options.power, options.meter, run.settings)
    subject = SweepSubject(
        system=system,
        loadgen=run.round.loadgen,
        log_seed=RANDOM_WEIGHTS_SEED,
        identity=identity,
        folder=folder,
        power=power,
    )
    return SweptSubject(
        subject=subject, scoring=set_up_network_scoring(subject, served, data) if data else None
    )


def name_serving_module(network: BareNetwork) -> str:
    """Return the module that serves a network, to be imported before LoadGen's processes fork."""
    return INFERENCE_MODULE if isinstance(network, OnnxNetwork) else type(network).__module__


def identify_network_weights(network: BareNetwork, weights: Path | None) -> str:
    """Return what tells a network's weights: the hash of their file, or that they are random."""
    if isinstance(network, OnnxNetwork):
        return network.graph.sha256
    return compute_file_sha256(weights) if weights else f"random, seed {RANDOM_WEIGHTS_SEED}"


def set_up_network_scoring(
    subject: SweepSubject, served: ServedNetwork, data: Path
) -> SubjectScoring:
    """Set up the scoring of a bare network; RequestError if it has none, without weights, and for
    other data than its study has been scored on.
    """
    name = subject.identity.subject
    if not isinstance(served.network, Labelled):
        raise RequestError(f"--data {data}: the network {name} has no score")
    if served.weights is None:
        raise RequestError(
            f"--data {data} needs --weights: random weights of {name} cannot be scored"
        )
    registry.load_scorer(name)  # one that is missing is said now, and not after all points
    samples, known = (
        served.network.listing(data),
        subject.folder.parent / STUDY_TRUTH_FOLDER / SAMPLES_LIST_FILE,
    )
    if known.is_file() and known.read_text("utf-8") != samples:
        raise RequestError(
            f"--data {data}: {subject.folder.parent} was scored on other samples; give another"
            " --results"
        )
    run = replace(
        subject.system.run,
        data=data,
        settings={**subject.system.run.settings, **build_batch_settings(SCORING_BATCH_SIZE)},
    )
    batching = BatchingSettings(workers=1, max_batch=SCORING_BATCH_SIZE, window_us=0)
    over = LabelledNetwork(network=served.network, weights=served.weights, data=data)
    system = replace(subject.system, workload=over, run=run, batching=batching)
    return SubjectScoring(
        system=system,
        rules=ScenarioRow(percentile=SWEEP_PERCENTILE, min_duration_ms=0, min_queries=1),
        samples=samples,
    )


def build_point_identity(
    run: Run, *, subject: str, weights: str, profile: str | None, engine: str, seconds: float
) -> PointIdentity:
    """Describe what is measured, for no batch size yet; a bare network has no profile."""
    return PointIdentity(
        subject=subject,
        bare=profile is None,
        weights=weights,
        profile=profile,
        engine=engine,
        precision=run.precision.value,
        framework=run.framework,
        device=run.device,
        threads=run.threads,
        batch=0,
        seconds=seconds,
        settings=dict(run.settings),
        version=__version__,
        system=build_system_name(run.device),
    )


def build_series_path(identity: PointIdentity, options: RunOptions) -> Path:
    """Return the folder of a subject in one engine and precision."""
    return build_study_path(options.results, identity.subject) / convert_to_slug(
        f"{build_system_name(identity.device)}-{identity.engine}-{identity.precision}"
    )


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


def read_study_threads(options: RunOptions, device: str, request: SweepOptions) -> int:
    """Return the CPU threads of a study that this sweep continues, if the machine still has
    them, and say so where they are few; 0 if there is none.

    What others use now decides the threads of a new study; points with others than the first ones
    would be of another system.
    """
    tables = (
        read_sweep_study(build_study_path(options.results, name))
        for name in (*request.workloads, *request.networks)
    )
    alike = {
        "system": build_system_name(device),
        "seconds": request.seconds,
        "version": __version__,
    }
    for study in filter(None, tables):
        if (
            all(getattr(study, name) == value for name, value in alike.items())
            and study.threads <= cpus.count_available_cores()
        ):
            if study.threads < cpus.count_available_cores():
                print_progress_note(
                    f"CPU threads, as in the study of {study.subject} that is there:"
                    f" {study.threads} of {cpus.count_available_cores()} (--threads takes another"
                    " number)"
                )
            return study.threads
    return 0


def settle_sweep_threads(options: RunOptions, request: SweepOptions) -> RunOptions:
    """Return options that name the CPU threads of all points."""
    return replace(
        options,
        threads=options.threads
        or read_study_threads(options, resolve_device(options.device), request)
        or cpus.choose_core_count(cpus.measure_busy_share()),
    )


def set_up_sweep_subjects(options: RunOptions, request: SweepOptions) -> Iterator[SweptSubject]:
    """Set up all subjects before the first point, so that an invalid request is refused at once."""
    device = resolve_device(options.device)  # one: a batch is measured on it
    if options.data and request.workloads and request.networks:
        raise RequestError(
            "--data belongs to workloads or to networks: sweep them by commands of their own, in"
            " studies of two names"
        )
    for engine in request.engines:
        for precision in request.precisions:
            engine_options = replace(options, engine=engine, precision=precision)
            yield from (
                set_up_swept_workload(name, engine_options, request.checkpoint, request.seconds)
                for name in request.workloads
            )
            yield from (
                set_up_swept_network(
                    name, engine_options, device, request, None if request.files else options.data
                )
                for name in request.networks
            )
