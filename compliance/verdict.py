"""What the judge says: findings, and the verdict that they add up to."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class Severity(StrEnum):
    """How much a finding weighs."""

    ERROR = "error"
    """The result does not count as it stands."""
    WARNING = "warning"
    """Accepted, but somebody should look."""
    INFO = "info"
    """Said for completeness: what could not be recomputed, what was left out."""


class Verdict(StrEnum):
    """What a result is; the order is from good to bad."""

    VALID = "valid"
    NOT_CONVERGED = "not-converged"
    """A legal training run, or set, that missed its target."""
    UNKNOWN = "unknown"
    """Of a round whose rules are not known here, or of a workload that is not installed, so that nothing is said of it."""
    BROKEN = "broken"
    """Breaks a rule, or cannot be read."""


INSTALLED: Final = "tree.installed"
"""The rule that says that nobody here knows a result's workload."""
UNKNOWN: Final = "unknown"
"""What stands in a round's place where it is none of those known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a rule yields: one place that does not hold; the rule adds its id, severity and source."""

    file: Path
    found: str
    required: str
    line: int | None = None
    advice: str | None = None
    """Where it differs from the rule's own."""
    severity: Severity | None = None
    """Where it differs from the rule's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know about a result, with all that is needed to act on it."""

    rule: str
    severity: Severity
    file: str
    line: int | None
    """Counted from 1 in the file as it lies on the disk; None if no single line is meant."""
    found: str
    required: str
    source: str
    """Where the rule stands."""
    advice: str
    """What to do."""
    weight: Verdict = Verdict.BROKEN
    """The verdict that an error of this rule leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The judgement of one PATH."""

    path: str
    """As given."""
    round: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst that any error leads to."""
        return verdict(self.findings)

    @property
    def lacks_workload(self) -> bool:
        """It cannot be judged here, for nothing but a workload's package that is not installed."""
        return self.verdict is Verdict.UNKNOWN and any(finding.rule == INSTALLED for finding in self.findings)


def verdict(findings: Iterable[Finding]) -> Verdict:
    """Add up findings: only errors weigh."""
    weights = [finding.weight for finding in findings if finding.severity is Severity.ERROR]
    return max(weights, key=list(Verdict).index) if weights else Verdict.VALID
