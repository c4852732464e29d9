"""A session of the MLPerf Power workflow beside the run that it measured."""

from collections.abc import Iterator
from dataclasses import dataclass

from compliance.verdict import Fault, Severity
from suite.measurement.mlperf_power.checks import Check, guarded
from suite.measurement.mlperf_power.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSession:
    """An imported session."""

    session: Session

    def faults(self, check: Check) -> Iterator[Fault]:
        """Yield what does not hold by one of the session's checks; what is only odd as a
        warning.
        """
        for problem in guarded(check, self.session):
            severity = Severity.WARNING if problem.odd else None
            yield Fault(
                file=self.session.path(problem.file),
                found=problem.found,
                required=problem.required,
                severity=severity,
            )
