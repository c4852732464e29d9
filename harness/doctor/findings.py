"""Findings of `podium doctor` on workloads, engines and precisions, before and after a trial."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.doctor.dtype_trials import Attempt, Ending, Half, Result, tried


class State(StrEnum):
    """State of a combination."""

    READY = "ready"
    MISSING = "missing"
    """An extra would provide it."""
    CANNOT = "cannot run here"
    UNTRIED = "not tried"
    """It should run, but there is nothing to try it with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Attempt):
    """The finding on one workload in one precision, before or after its trial."""

    state: State
    why: str = ""
    caution: str = ""
    """A warning to read before trusting results."""


def proved(findings: Sequence[Finding], device: str) -> list[Finding]:
    """Try the combinations that should be ready; drop precisions that a workload's training does
    not support.
    """
    results = tried([finding for finding in findings if finding.state is State.READY], device)
    told = [
        told_by(finding, results[finding]) if finding in results else finding
        for finding in findings
    ]
    return [finding for finding in told if finding is not None]


def told_by(finding: Finding, result: Result) -> Finding | None:
    """Update a finding with the result of its trial."""
    match result.ending:
        case Ending.RAN:
            return finding
        case Ending.UNTRIED:
            return replace(finding, state=State.UNTRIED, why=result.why)
        case Ending.REFUSED if finding.half is Half.TRAINING:
            return None
        case _:
            return replace(finding, state=State.CANNOT, why=result.why)
