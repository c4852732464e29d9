"""What was measured of a system with the Endpoints client: a run and, if there is one, the accuracy
run beside it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from compliance.documents.base import Document
from compliance.kinds.endpoints.documents.accuracy import EndpointsAccuracy
from compliance.kinds.endpoints.documents.run import EndpointsRun


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EndpointsMeasurement(Document):
    """A performance run and the accuracy run of the same system and benchmark."""

    document_name: ClassVar[str] = "a run and an accuracy run of the Endpoints client"

    run: EndpointsRun
    accuracy: EndpointsAccuracy | None
    """None if there are no accuracy results."""
    most_tokens: int | None
    """Tokens that the benchmark allows an answer to have; None if no text says it."""
    concurrency_factor: float
    """How many times the requests that the run had in flight the system may have: its accuracy run
    may be faster by that factor.
    """

    @property
    def path(self) -> Path:
        """Return the file that faults are about if they name no other."""
        return self.run.path
