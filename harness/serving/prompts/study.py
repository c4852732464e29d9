"""Studies of servers with the user's own prompts."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.serving.loadgen.probe import ProbeResult
from harness.serving.prompts.setup import (
    PromptOptions,
    copy_with_in_flight,
    set_up_prompted_servers,
)
from harness.serving.prompts.speed_probe import probe_prompted_servers
from harness.serving.setup import ServingSetup
from harness.serving.studies.driver import measure_system
from harness.serving.studies.system import ServedSystem, StudyOptions, check_own_settings
from suite import registry
from suite.cli import RunOptions
from suite.studies.concurrency_curve import REMOTE_CONCURRENCY_SETTING
from suite.studies.kind import PlannedRun
from suite.studies.measured import MeasuredStudy
from suite.workload import Mode

USUAL_AT_ONCE: Final = 32
"""House rule: how many prompts are asked at once to learn how fast a system is whose requests in
flight nobody decides.
"""


@dataclass(slots=True, kw_only=True)
class PromptedServers(ServedSystem):
    """Servers, and the user's prompts: what differs between points is how much is in flight."""

    speeds: dict[int, ProbeResult]
    """By the requests in flight."""

    @property
    def is_bare(self) -> bool:
        """Return that there is neither training nor data of a workload."""
        return True

    @property
    def can_be_scored(self) -> bool:
        """Return that nobody knows the right answers."""
        return False

    def require_setup(self, planned: PlannedRun) -> ServingSetup:
        """Return the set-up with the requests in flight of a point."""
        number = planned.settings.get(REMOTE_CONCURRENCY_SETTING)
        if number is None:
            return self.setup
        return copy_with_in_flight(self.setup, int(str(number)))

    def require_probe(
        self, setup: ServingSetup, mode: Mode = Mode.PERFORMANCE, truth: Path | None = None
    ) -> ProbeResult:
        """Return how fast the servers answer so many requests at once; each number is asked
        once.
        """
        asked = setup.request.settings.get(REMOTE_CONCURRENCY_SETTING, USUAL_AT_ONCE)
        at_once = int(str(asked))
        if at_once not in self.speeds:
            self.speeds[at_once] = probe_prompted_servers(setup, at_once)
        return self.speeds[at_once]


def measure_prompted_study(
    name: str, options: RunOptions, asked: PromptOptions, study_options: StudyOptions
) -> MeasuredStudy:
    """Measure, print and save a study of servers with the user's prompts."""
    kind = registry.load_study_kind(name)
    check_own_settings(kind, options, study_options.values, is_remote=True)
    setup = set_up_prompted_servers(options, asked)
    system = PromptedServers(
        request_name=setup.request.name,
        options=options,
        study_options=study_options,
        setup=setup,
        speeds={},
    )
    kind.check_request(study_options.values, system)
    return measure_system(kind, system, study_options)[0]
