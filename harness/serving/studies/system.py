"""The system under test of a study: set up once, and once more for each point that changes its
settings.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.machine.system_description import build_system_name
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.test_settings import ProbedSpeed
from harness.serving.run_record import build_system_record
from harness.serving.setup import LOCAL_SITE, ServingSetup, set_up_serving
from harness.serving.sites import ServingSite
from harness.serving.speed_probe import probe_serving_speed
from suite.cli import RunOptions
from suite.errors import MissingError, PodiumError, RequestError
from suite.files.layout import convert_to_slug
from suite.loadgen.scenario import Scenario
from suite.measurement.score_limits import ScoreLimits
from suite.process.devices import format_device_name
from suite.rounds import HyperValue, ScenarioRow
from suite.studies.kind import PlannedRun, StudyKind
from suite.studies.subject import StudySubject, build_study_subject
from suite.terms import Precision
from suite.workload import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """The command line's request for a study."""

    values: Mapping[str, Any]
    """Of the options of its kind."""
    checkpoint: Path | None = None
    site: ServingSite = LOCAL_SITE
    repeats: int = 1
    output_format: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupKey:
    """What the set-up of a run depends on, beside the command's options."""

    engine: str
    precision: str
    mode: Mode
    settings: tuple[tuple[str, HyperValue], ...]


ProbeKey = tuple[str, str, tuple[str, ...], Mode]
"""Engine, number format, servers and mode."""


@dataclass(slots=True, kw_only=True)
class ServedSystem:
    """The system under test, as `podium infer` would serve it, and with the settings of points
    (suite.studies.kind, StudiedSystem).
    """

    request_name: str
    options: RunOptions
    study_options: StudyOptions
    setup: ServingSetup
    """Without the settings of any point."""
    setups: dict[SetupKey, ServingSetup] = field(default_factory=dict)
    """By what a point changes."""
    probes: dict[ProbeKey, ProbeResult] = field(default_factory=dict)
    result_threads: int = 0
    """CPU threads of results whose runs the study takes; 0 without any."""

    @property
    def workload(self) -> str:
        """Return the workload's name."""
        return self.setup.request.name

    @property
    def profile(self) -> str:
        """Return the profile."""
        return self.setup.request.profile.value

    @property
    def engine(self) -> str:
        """Return the engine's name, as records have it."""
        return self.setup.identity.engine.text

    @property
    def precision(self) -> str:
        """Return the number format, as records have it."""
        return self.setup.identity.precision.text

    @property
    def name(self) -> str:
        """Return the system's name."""
        return self.setup.entry.system

    @property
    def machine_name(self) -> str:
        """Return what the names of all systems of a study begin with."""
        request = self.setup.request
        named = self.options.system or build_system_name(format_device_name(request.devices))
        return convert_to_slug(named)

    def name_planned_system(self, planned: PlannedRun) -> str:
        """Return the name of the system of a run."""
        return planned.name_system(self.machine_name) if planned.has_own_system else self.name

    @property
    def is_remote(self) -> bool:
        """Return whether servers answer."""
        return self.setup.host.network is not None

    @property
    def is_bare(self) -> bool:
        """Return whether it is a bare network; no workload is."""
        return False

    @property
    def can_be_scored(self) -> bool:
        """Return whether its answers can be scored; all workloads' can."""
        return True

    @property
    def reference_accuracy(self) -> Mapping[str, float]:
        """Return the reference accuracy of the checkpoint."""
        return self.setup.checkpoint.record.reference_accuracy

    @property
    def latency_budget_ms(self) -> float | None:
        """Return the budget within which vendors state the workload's throughput."""
        return self.setup.request.row.latency_budget_ms

    @property
    def scenarios(self) -> Sequence[Scenario]:
        """Return the scenarios of the round's row."""
        return tuple(self.setup.row.scenarios)

    @property
    def settings(self) -> Mapping[str, HyperValue]:
        """Return the settings without those of a point."""
        return self.setup.request.settings

    @property
    def score_limits(self) -> ScoreLimits:
        """Return what scores must reach."""
        return self.setup.score_limits

    def require_scenario_rules(self, scenario: Scenario) -> ScenarioRow:
        """Return the round's row of a scenario."""
        return self.setup.require_scenario_rules(scenario)

    def probe_speed(self) -> ProbedSpeed:
        """Return the speed of the system, with the settings of the last point that was set up."""
        return self.require_probe(next(reversed(self.setups.values()), self.setup)).probe

    def require_probe(
        self, setup: ServingSetup, mode: Mode = Mode.PERFORMANCE, truth: Path | None = None
    ) -> ProbeResult:
        """Return the result of the probe of a system, which is made at the first call.

        Args:
            setup: of the system.
            mode: of the run that it is probed for.
            truth: empty folder that gets the ground truth; None: it is there, or not kept.
        """
        key = build_probe_key(setup, mode)
        if key not in self.probes or truth is not None:
            self.probes[key] = probe_serving_speed(setup, truth)
        return self.probes[key]

    def keep_probe(self, setup: ServingSetup, probe_result: ProbeResult) -> None:
        """Use a probe that was made before the study."""
        self.probes[build_probe_key(setup, Mode.PERFORMANCE)] = probe_result

    def settle_threads(self, earlier: int) -> None:
        """Use the CPU threads of an earlier command, or as many as there are now, and describe the
        machine.
        """
        settled = self.setup.add_description().settle_threads(earlier)
        if settled.threads != self.setup.threads:
            self.probes.clear()
            self.setups.clear()
        self.setup = settled

    def require_setup(self, planned: PlannedRun) -> ServingSetup:
        """Return the set-up of a run, with its engine and its settings; RequestError if they are
        not allowed, MissingError if this machine lacks what they need.
        """
        own = planned.system_settings
        if not own and not planned.engine:
            return self.setup
        key = SetupKey(
            engine=planned.engine,
            precision=planned.precision,
            mode=planned.mode,
            settings=tuple(own.items()),
        )
        if key not in self.setups:
            made = self.set_up_run(self.build_run_options(planned), planned.mode)
            if planned.engine:
                made.check_precision()
            self.setups[key] = replace(made, description=self.setup.description).copy_with_threads(
                self.setup.threads
            )
        return self.setups[key]

    def complete_ground_truth(self, truth: Path) -> None:
        """Write what the ground truth of accuracy runs needs besides what the workload writes:
        nothing.
        """

    def find_setup(self, planned: PlannedRun) -> ServingSetup | None:
        """Return the set-up of a run, so far as there is one without starting anything; None if it
        is refused now.
        """
        try:
            return self.require_setup(planned)
        except (RequestError, MissingError):
            return None

    def collect_planned_settings(self, planned: PlannedRun) -> Mapping[str, HyperValue]:
        """Return the settings that a run has."""
        return {**self.settings, **planned.settings}

    def explain_error(self, error: PodiumError) -> PodiumError:
        """Return why a run failed: as the error says."""
        return error

    def set_up_run(self, options: RunOptions, mode: Mode) -> ServingSetup:
        """Set up what a run measures."""
        checkpoint, site = self.study_options.checkpoint, self.study_options.site
        return set_up_serving(self.request_name, options, checkpoint, site)

    def build_run_options(self, planned: PlannedRun) -> RunOptions:
        """Return the options of a run: the command's, with its engine and its settings."""
        added = (f"{name}={json.dumps(value)}" for name, value in planned.system_settings.items())
        options = replace(self.options, assignments=(*self.options.assignments, *added))
        if not planned.engine:
            return options
        return replace(
            options,
            engine=planned.engine,
            precision=Precision(planned.precision),
            system=self.name_planned_system(planned),
        )


def build_probe_key(setup: ServingSetup, mode: Mode) -> ProbeKey:
    """Return what a probe depends on, of the set-ups of one study."""
    servers = setup.host.network.endpoints if setup.host.network else ()
    return setup.request.engine, setup.precision.value, servers, mode


def check_own_settings(
    kind: StudyKind[Any, Any, Any],
    options: RunOptions,
    values: Mapping[str, Any],
    *,
    is_remote: bool,
) -> None:
    """RequestError for a setting that the study decides itself."""
    own = kind.list_own_settings(values, is_remote=is_remote)
    for each in options.assignments:
        name = each.partition("=")[0]
        if name in own:
            raise RequestError(f"--set {name}: {own[name]} decides it")


def set_up_study_system(
    kind: StudyKind[Any, Any, Any],
    workload: str,
    options: RunOptions,
    study_options: StudyOptions,
) -> ServedSystem:
    """Resolve the system under test of a study; RequestError for what the study does not measure,
    before anything starts.
    """
    values, site = study_options.values, study_options.site
    check_own_settings(kind, options, values, is_remote=site.is_remote)
    streamed = site.stream_tokens(kind.name, options)
    setup = set_up_serving(workload, streamed, study_options.checkpoint, site)
    system = ServedSystem(
        request_name=workload, options=streamed, study_options=study_options, setup=setup
    )
    kind.check_request(values, system)
    if kind.is_single_process and setup.system.placement:
        raise RequestError(
            f"podium {kind.name} measures one process, or servers: name one --device"
        )
    if not kind.has_several_systems:
        setup.check_precision()
    return system


def describe_study_subject(kind: StudyKind[Any, Any, Any], system: ServedSystem) -> StudySubject:
    """Describe what is measured; of a study of several systems what they have in common."""
    record = build_system_record(system.setup, sample_count=0)
    origin = system.setup.checkpoint.record.origin
    if not kind.has_several_systems:
        return build_study_subject(record, origin)
    return replace(build_study_subject(record, origin, ""), system=system.machine_name)
