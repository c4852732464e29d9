"""What `podium doctor` says of workloads, engines and number formats, and how a trial changes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.doctor.dtype_trials import Attempt, Ending, Half, Result, tried


class State(StrEnum):
    """What doctor says of a combination."""

    READY = "ready"
    MISSING = "missing"
    """An extra would bring it."""
    CANNOT = "cannot run here"
    UNTRIED = "not tried"
    """It should run, and there is nothing to try it with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Attempt):
    """What is said of one workload in one number format, before it is tried or after."""

    state: State
    why: str = ""
    caution: str = ""
    """What must be known before results are trusted."""


def proved(findings: Sequence[Finding], device: str) -> list[Finding]:
    """Try what should be ready; number formats that a workload's training does not know are nothing to tell of."""
    results = tried([finding for finding in findings if finding.state is State.READY], device)
    told = [told_by(finding, results[finding]) if finding in results else finding for finding in findings]
    return [finding for finding in told if finding is not None]


def told_by(finding: Finding, result: Result) -> Finding | None:
    """Put what came of an attempt into a finding."""
    match result.ending:
        case Ending.RAN:
            return finding
        case Ending.UNTRIED:
            return replace(finding, state=State.UNTRIED, why=result.why)
        case Ending.REFUSED if finding.half is Half.TRAINING:
            return None
        case _:
            return replace(finding, state=State.CANNOT, why=result.why)
