"""Findings of `podium doctor` on workloads, engines and precisions, before and after a trial."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.doctor.dtype_trials import (
    PrecisionTrial,
    TrialEnding,
    TrialResult,
    WorkloadHalf,
    run_precision_trials,
)


class ReadinessState(StrEnum):
    """State of a combination."""

    READY = "ready"
    MISSING = "missing"
    """An extra would provide it."""
    CANNOT = "cannot run here"
    UNTRIED = "not tried"
    """It should run, but there is nothing to try it with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessFinding(PrecisionTrial):
    """The finding on one workload in one precision, before or after its trial."""

    state: ReadinessState
    why: str = ""
    caution: str = ""
    """A warning to read before trusting results."""
    emulated: bool = False
    """The processor has no instructions for the precision: it runs, slower than fp32."""


def confirm_findings(findings: Sequence[ReadinessFinding], device: str) -> list[ReadinessFinding]:
    """Try the combinations that should be ready; drop precisions that a workload's training does
    not support.
    """
    results = run_precision_trials(
        [finding for finding in findings if finding.state is ReadinessState.READY], device
    )
    confirmed = [
        apply_trial_result(finding, results[finding]) if finding in results else finding
        for finding in findings
    ]
    return [finding for finding in confirmed if finding is not None]


def apply_trial_result(finding: ReadinessFinding, result: TrialResult) -> ReadinessFinding | None:
    """Update a finding with the result of its trial."""
    match result.ending:
        case TrialEnding.RAN:
            return finding
        case TrialEnding.UNTRIED:
            return replace(finding, state=ReadinessState.UNTRIED, why=result.why)
        case TrialEnding.REFUSED if finding.half is WorkloadHalf.TRAINING:
            return None
        case _:
            return replace(finding, state=ReadinessState.CANNOT, why=result.why)
