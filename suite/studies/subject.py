"""What was measured, on what: computed from the record of a run's system, which states it, or says
that nobody did.
"""

from dataclasses import dataclass, replace
from typing import Final

from suite.files.layout import SYSTEM_RECORD, convert_to_slug
from suite.records import SystemUnderTest
from suite.served_identity import ServedIdentity, Speaker, state_all
from suite.studies.own_prompts import describe_own_prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySubject:
    """What all runs of a study have in common. Of a study of several systems engine, precision and
    framework are empty, and `system` is the name that the names of its systems begin with; device
    and threads are those of systems in LoadGen's process.
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

    def copy_without_process(self) -> "StudySubject":
        """Return what servers have in common with systems in LoadGen's process."""
        return replace(self, device="", threads=0)

    def describe_system(self) -> str:
        """Name what was measured: workload, profile, engine and number format, of servers with who
        states them; of several systems their machine.
        """
        if self == UNMEASURED_SUBJECT:
            return "nothing measured"
        what = f"{self.workload} ({self.profile})"
        if self.prompts:
            return f"{self.workload}, {self.identity.describe_engine()}, {self.prompts}"
        if not self.system:
            return what
        if not self.engine and not self.device:
            return f"{what} on {self.system}"
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
    system: SystemUnderTest, origin: str, own_name: str | None = None
) -> StudySubject:
    """Return what a study measures, given the system of one of its runs.

    Args:
        system: the system.
        origin: where weights come from that were not trained here.
        own_name: in a study of several systems, what stands behind the machine's in the name of
            this one (suite.studies.kind, PlannedRun.own_name); None in others.
    """
    if own_name is not None:
        return build_common_subject(system, origin, own_name)
    return StudySubject(
        workload=system.workload,
        profile=system.profile,
        checkpoint_sha256=system.checkpoint_sha256,
        origin=origin,
        engine=system.engine,
        precision=system.precision,
        framework=system.framework,
        device=system.device,
        threads=system.threads,
        system=system.name,
        version=system.version,
        prompts=describe_own_prompts(system),
        served=system.served,
    )


def build_common_subject(system: SystemUnderTest, origin: str, own_name: str) -> StudySubject:
    """Return what a system has in common with the other ones of its study: a server neither device
    nor threads.
    """
    is_here = system.served is None
    return StudySubject(
        workload=system.workload,
        profile=system.profile,
        checkpoint_sha256=system.checkpoint_sha256,
        origin=origin,
        engine="",
        precision="",
        framework="",
        device=system.device if is_here else "",
        threads=system.threads if is_here else 0,
        system=system.name.removesuffix("-" + convert_to_slug(own_name)),
        version=system.version,
    )


def omit_side(subject: StudySubject) -> StudySubject:
    """Return what both sides of a study have in common, given the subject of one of them."""
    return replace(
        subject, checkpoint_sha256="", device="", threads=0, system="", version="", served=None
    )
