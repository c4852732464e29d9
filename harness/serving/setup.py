"""Set-up shared by all LoadGen runs of one `podium infer`, checked before the first run starts."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from harness.children.process import load_ahead
from harness.data_survey import add_survey_results
from harness.distributed import SingleRank
from harness.doctor.dtype_trials import PrecisionTrial, WorkloadHalf, check_precision_runs
from harness.engine_choice import (
    ServingRequest,
    check_serving_engine,
    list_candidate_engines,
    resolve_serving_request,
)
from harness.machine.placement import (
    INSTANCES_SETTING,
    parse_loadgen_cores,
    place_instances,
    resolve_instance_count,
)
from harness.machine.power.chosen import ChosenPower
from harness.machine.power.selection import choose_power_sources
from harness.machine.system_description import describe_system
from harness.request import RunRequest
from harness.serving.checkpoint_selection import (
    STAND_IN_ORIGIN,
    ExportedCheckpoint,
    choose_checkpoint,
)
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.loadgen.test_settings import get_numeric_setting
from harness.serving.sites import BoundSystem, ServingSite, SystemHost
from harness.thread_count import resolve_thread_count
from suite import registry
from suite.cli import RunOptions
from suite.engine import ServingTask, TaskCheckingEngine
from suite.errors import RequestError
from suite.files.cache import ENGINE_CACHE_FOLDER
from suite.files.layout import SYSTEM_RECORD, ResultsEntry, compute_bound_seed
from suite.ledger.book import Ledger, build_ledger
from suite.loadgen.scenario import Scenario
from suite.measurement.power_readings import IDLE_POWER_S
from suite.measurement.score_limits import ScoreLimits
from suite.process.devices import format_device_name
from suite.records import NetworkRecord, SearchRecord
from suite.rounds import (
    INTERACTIVE_BOUNDS,
    TOKEN_BOUNDS_SETTING,
    Division,
    HyperValue,
    InferenceRow,
    ScenarioRow,
)
from suite.rounds.legality import check_served_settings
from suite.served_identity import ServedIdentity, Speaker, state_all
from suite.terms import Precision
from suite.workload import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedRun:
    """The best run of a search for the peak rate: it is the result of the Server scenario."""

    folder: Path
    rate: float
    """Queries/s."""
    search: SearchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSetup:
    """One system under test, ready for LoadGen."""

    request: RunRequest
    row: InferenceRow
    entry: ResultsEntry
    checkpoint: ExportedCheckpoint
    system: LoadedSystem
    threads: int
    """Total of all workers."""
    requested_runs: int | None = None
    """Performance runs per scenario; None: as many as the round requires."""
    description: Mapping[str, Any] = field(default_factory=dict)
    """Content of systems/<system>.json."""
    power: ChosenPower = ChosenPower()
    """Power sources read during performance runs."""
    idle_scenario: Scenario | None = None
    """The scenario before whose first performance run the power of the idle machine is read; None
    where there is none to read.
    """
    searched_run: SearchedRun | None = None
    """The result of a search for Server's rate, if one was asked for."""
    host: SystemHost
    """What answers."""

    @property
    def precision(self) -> Precision:
        """Return the number format in which the engine computes."""
        return self.request.precision

    @property
    def score_limits(self) -> ScoreLimits:
        """Return what its scores must reach."""
        return ScoreLimits(
            reference=dict(self.checkpoint.record.reference_accuracy),
            share=self.request.round.loadgen.accuracy_share,
            threshold=dict(self.row.threshold),
            threshold_most=dict(self.row.threshold_most),
        )

    @property
    def log_seed(self) -> int:
        """Return the seed that binds each LoadGen run to the campaign and the checkpoint."""
        return compute_bound_seed(self.checkpoint.record.nonce, self.checkpoint.record.sha256)

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of all attempts."""
        return build_ledger(self.entry, self.request.name, self.request.row)

    @property
    def identity(self) -> ServedIdentity:
        """Return what serves, and who says so."""
        return self.host.identify_served(self.request, self.system)

    @property
    def device(self) -> str:
        """Return the device that computes, as records have it: the servers' behind a network."""
        return self.identity.device.text

    @property
    def framework(self) -> str:
        """Return the framework of the network that runs, as records have it."""
        return self.host.name_framework(self.request)

    @property
    def engine_package(self) -> str:
        """Return the distribution of the engine, as records have it."""
        return self.host.describe_engine_package(self.request.engine)

    def get_idle_reading_s(self, scenario: Scenario, number: int) -> float:
        """Return how long power is read before a performance run, in s."""
        return IDLE_POWER_S if scenario is self.idle_scenario and number == 1 else 0.0

    def copy_with_threads(self, threads: int) -> "ServingSetup":
        """Return a copy that uses this many CPU threads, shared by the workers."""
        return replace(self, threads=threads, system=self.system.copy_with_threads(threads))

    def settle_threads(self, earlier: int = 0) -> "ServingSetup":
        """Return a copy with the CPU threads of a run that this one continues, or with as many as
        the system has now.
        """
        return self.copy_with_threads(self.host.choose_threads(self, earlier))

    def add_description(self) -> "ServingSetup":
        """Return a copy with the content of systems/<system>.json; RequestError for an invalid
        --system-file.
        """
        return replace(self, description=self.host.describe_system(self))

    def check_precision(self) -> None:
        """Refuse a precision that the system lacks, before any clock."""
        self.host.check_precision(self)

    def select_row_scenarios(self, asked: Sequence[Scenario]) -> Sequence[Scenario]:
        """Return the scenarios that were asked for; all of LoadGen's mean all that the row has."""
        if set(asked) != set(Scenario):
            return asked
        return [scenario for scenario in asked if scenario in self.row.scenarios]

    def require_scenario_rules(self, scenario: Scenario) -> ScenarioRow:
        """Return the round's row of a scenario, with the bounds of tokens that were asked for;
        RequestError if there is none, or if it has no such bounds.
        """
        if scenario not in self.row.scenarios:
            known = ", ".join(self.row.scenarios) or "none"
            raise RequestError(
                f"{self.request.name} has no rules for {scenario} in profile"
                f" {self.request.profile}; it has: {known}"
            )
        row, settings = self.row.scenarios[scenario], self.request.settings
        interactive = settings.get(TOKEN_BOUNDS_SETTING) == INTERACTIVE_BOUNDS
        if interactive and scenario is Scenario.SERVER and row.interactive is None:
            raise RequestError(
                f"setting {TOKEN_BOUNDS_SETTING}: {self.request.name} has no {INTERACTIVE_BOUNDS}"
                f" bounds in profile {self.request.profile}"
            )
        return row.select_token_bounds(settings)

    def check_run_count(self, scenario: Scenario) -> None:
        """Raise RequestError if fewer performance runs were requested than the round requires."""
        least = self.require_scenario_rules(scenario).runs
        if self.requested_runs is not None and self.requested_runs < least:
            raise RequestError(
                f"--runs {self.requested_runs}: {scenario.label} of profile {self.request.profile}"
                f" needs {least}"
            )

    def resolve_run_count(self, scenario: Scenario) -> int:
        """Return the performance runs of a scenario: as many as were requested, or as the round
        requires.
        """
        return self.requested_runs or self.require_scenario_rules(scenario).runs


class LocalHost:
    """Processes of this machine answer."""

    network: NetworkRecord | None = None

    def identify_served(self, request: RunRequest, system: LoadedSystem) -> ServedIdentity:
        """Return what podium runs itself."""
        return state_all(
            Speaker.PODIUM,
            SYSTEM_RECORD,
            engine=request.engine,
            precision=request.precision.value,
            device=system.device,
        )

    def name_framework(self, request: RunRequest) -> str:
        """Return the framework of the network."""
        return request.framework

    def describe_engine_package(self, engine: str) -> str:
        """Return the distribution of the engine."""
        return registry.describe_engine_package(engine)

    def describe_system(self, setup: ServingSetup) -> Mapping[str, Any]:
        """Describe this machine."""
        return describe_system(setup.entry, setup.request.described)

    def check_precision(self, setup: ServingSetup) -> None:
        """Refuse a precision that this machine's kernels lack; nothing tells it of a workload
        without a trial.
        """
        if setup.request.workload.trial is None:
            return
        trial = PrecisionTrial(
            workload=setup.request.name,
            half=WorkloadHalf.INFERENCE,
            engine=setup.request.engine,
            precision=setup.precision,
        )
        check_precision_runs(trial, setup.system.run.device)

    def choose_threads(self, setup: ServingSetup, earlier: int) -> int:
        """Return as many threads as there are cores that other programs leave, if none were named
        before.
        """
        return resolve_thread_count(setup.request.options.threads, SingleRank(), earlier)


class LocalSite:
    """This machine serves, with the user's settings, in LoadGen's process or beside it."""

    is_remote: bool = False

    def list_candidate_engines(self, workload: str, options: RunOptions) -> list[str]:
        """Return the installed engines that serve the request."""
        return list_candidate_engines(workload, options)

    def stream_tokens(self, study: str, options: RunOptions) -> RunOptions:
        """Return the options: LoadGen is told each first token."""
        return options

    def resolve_request(self, workload: str, options: RunOptions) -> ServingRequest:
        """Resolve the request."""
        return resolve_serving_request(options, workload)

    def bind_system(
        self, asked: ServingRequest, choose: Callable[[], ExportedCheckpoint]
    ) -> BoundSystem:
        """Choose the weights, and place the engine on this machine's devices."""
        request = asked.request
        chosen = choose()
        batching = read_batching_settings(request.settings)
        instances = resolve_instance_count(request.settings, request.devices)
        check_single_worker(batching, instances, request.devices)
        check_serving_engine(asked)
        check_engine_task(asked, chosen)
        placement = place_instances(request.devices, instances, request.settings)
        run = prepare_serving_run(request, chosen)
        return BoundSystem(
            request=request,
            checkpoint=chosen,
            system=LoadedSystem(
                workload=request.workload,
                engine=asked.engine,
                run=run,
                checkpoint=chosen.folder,
                batching=batching,
                placement=placement,
                loadgen_cores=parse_loadgen_cores(request.settings),
            ),
            host=LocalHost(),
            entry=request.build_entry(asked.row.division, request.engine, request.precision),
            threads=run.threads,
            power=choose_power_sources(
                request.options.power, request.options.meter, request.settings
            ),
        )


LOCAL_SITE: Final = LocalSite()


def set_up_serving(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    site: ServingSite = LOCAL_SITE,
) -> ServingSetup:
    """Resolve a request to serve, here or elsewhere; RequestError for invalid requests,
    MissingError for what this machine lacks and for servers that cannot be used.
    """
    asked = site.resolve_request(workload, options)
    check_serving_legality(asked.request, asked.row)
    bound = site.bind_system(asked, lambda: choose_checkpoint(asked.request, checkpoint))
    return ServingSetup(
        request=bound.request,
        row=asked.row,
        entry=bound.entry,
        checkpoint=bound.checkpoint,
        system=bound.system,
        threads=bound.threads,
        power=bound.power,
        host=bound.host,
    ).copy_with_threads(bound.threads)


def check_engine_task(asked: ServingRequest, checkpoint: ExportedCheckpoint) -> None:
    """Let an engine refuse what it cannot serve with the files that the request names."""
    request = asked.request
    if isinstance(asked.engine, TaskCheckingEngine):
        asked.engine.check_serving_task(
            ServingTask(
                workload=request.name,
                checkpoint_sha256=checkpoint.record.sha256,
                precision=request.precision,
                devices=request.devices,
                options=request.settings,
            )
        )


def prepare_serving_run(
    request: RunRequest, checkpoint: ExportedCheckpoint, modules: Sequence[str] = ()
) -> Run:
    """Build the run record with the data findings, and load what serves the networks, and
    `modules`, before anything forks.
    """
    run = add_survey_results(request, request.build_run(checkpoint.record.seed, request.precision))
    if checkpoint.record.origin == STAND_IN_ORIGIN:  # nobody serves these networks again
        run = replace(run, engine_cache=checkpoint.folder.parent / ENGINE_CACHE_FOLDER)
    load_ahead((*request.workload.served_by.get(request.framework, ()), *modules))
    return run


def check_serving_legality(request: RunRequest, row: InferenceRow) -> None:
    """Before serving, refuse settings that the judge would reject in the closed division."""
    if row.division is not Division.CLOSED:
        return
    violations = check_served_settings(
        request.round, request.name, request.profile, request.settings
    )
    if found := [
        f"{breach.key} is {breach.found!r}; it must be {breach.required}" for breach in violations
    ]:
        raise RequestError(f"not allowed in the closed division: {'; '.join(found)}")


def read_batching_settings(settings: Mapping[str, HyperValue]) -> BatchingSettings:
    """Read the batching settings; RequestError for an invalid number."""
    lowest = {"workers": 1, "max_batch": 1, "window_us": 0}
    values = {
        name: int(get_numeric_setting(settings, f"batching.{name}", least))
        for name, least in lowest.items()
    }
    for name, least in lowest.items():
        if values[name] < least:
            raise RequestError(f"setting batching.{name}: {values[name]} is below {least}")
    cores = len(os.sched_getaffinity(0))
    if values["workers"] > 64 * cores:
        raise RequestError(
            f"setting batching.workers: {values['workers']} threads are too many for {cores} cores"
        )
    return BatchingSettings(**values)


def check_single_worker(batching: BatchingSettings, instances: int, devices: Sequence[str]) -> None:
    """Refuse several workers beside instances."""
    if batching.workers > 1 and instances:
        if len(devices) == 1:
            other = f"setting {INSTANCES_SETTING}"
        else:
            other = f"--device {format_device_name(devices)}"
        raise RequestError(
            f"setting batching.workers and {other}: an instance has one worker; give one of the two"
        )
