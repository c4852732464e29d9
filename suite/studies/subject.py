"""What was measured, on what: computed from the record of a run's system, which states it, or says
that nobody did.
"""

from dataclasses import dataclass
from typing import Final

from suite.files.layout import SYSTEM_RECORD, convert_to_slug
from suite.records import SystemUnderTest
from suite.served_identity import ServedIdentity, Speaker, state_all
from suite.studies.own_prompts import describe_own_prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySubject:
    """What all runs of a study have in common. Of a study of several systems engine, precision and
    framework are empty, and `system` is the name that the names of its systems begin with.
    """

    workload: str
    profile: str
    checkpoint_sha256: str
    origin: str
    """Where weights come from that were not trained here; empty for a trained checkpoint."""
    engine: str
    precision: str
    framework: str
    device: str
    threads: int
    system: str
    version: str
    """Version of podium."""
    prompts: str = ""
    """The user's own prompts, and how they were asked; empty of a workload's."""
    served: ServedIdentity | None = None
    """What servers behind a network run, and who said it; None of a system in LoadGen's process."""

    @property
    def identity(self) -> ServedIdentity:
        """Return what serves, and who says so."""
        if self.served is not None:
            return self.served
        return state_all(
            Speaker.PODIUM,
            SYSTEM_RECORD,
            engine=self.engine,
            precision=self.precision,
            device=self.device,
        )

    def describe_system(self) -> str:
        """Name what was measured: workload, profile, engine and number format, of servers with who
        states them; of several systems their machine.
        """
        if self == UNMEASURED_SUBJECT:
            return "nothing measured"
        what = f"{self.workload} ({self.profile})"
        if self.prompts:
            return f"{self.workload}, {self.identity.describe_engine()}, {self.prompts}"
        if not self.engine:
            threads = f"{self.threads} thread{'s' * (self.threads != 1)}"
            return f"{what} on {self.system}, {self.device}, {threads}"
        return f"{what}, {self.identity.describe_engine()}"


UNMEASURED_SUBJECT: Final = StudySubject(
    workload="",
    profile="",
    checkpoint_sha256="",
    origin="",
    engine="",
    precision="",
    framework="",
    device="",
    threads=0,
    system="",
    version="",
)
"""Of a study without a run."""


def build_study_subject(
    system: SystemUnderTest, origin: str, has_several_systems: bool
) -> StudySubject:
    """Return what a study measures, given the system of one of its runs."""
    own = ("", "", "", extract_machine_name(system))
    if not has_several_systems:
        own = (system.engine, system.precision, system.framework, system.name)
    engine, precision, framework, name = own
    return StudySubject(
        workload=system.workload,
        profile=system.profile,
        checkpoint_sha256=system.checkpoint_sha256,
        origin=origin,
        engine=engine,
        precision=precision,
        framework=framework,
        device=system.device,
        threads=system.threads,
        system=name,
        version=system.version,
        prompts=describe_own_prompts(system),
        served=system.served,
    )


def extract_machine_name(system: SystemUnderTest) -> str:
    """Return what comes before engine and precision in the name of a system."""
    return system.name.removesuffix("-" + convert_to_slug(f"{system.engine}-{system.precision}"))
