"""A session of the MLPerf Power workflow beside the run that it measured."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from compliance.verdict import Fault, Severity
from suite.measurement.mlperf_power.checks import SessionCheck, run_session_check
from suite.measurement.mlperf_power.session import PowerSession


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSession:
    """An imported session."""

    document_name: ClassVar[str] = "an MLPerf Power session beside a LoadGen run"

    session: PowerSession

    def find_faults(self, check: SessionCheck) -> Iterator[Fault]:
        """Yield violations found by one of the session's checks; unusual but valid values as
        warnings.
        """
        for problem in run_session_check(check, self.session):
            severity = Severity.WARNING if problem.odd else None
            yield Fault(
                file=self.session.locate_file(problem.file),
                found=problem.found,
                required=problem.required,
                severity=severity,
            )
