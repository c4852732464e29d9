"""How likely the systems of a comparison find their answers, beside what PyTorch finds: figures,
cells of the table, and sentences.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from suite import registry
from suite.loadgen.logprob_record import select_common_rows
from suite.measurement.logprob_causes import (
    LogprobDifferences,
    compare_said_tokens,
    measure_absolute_differences,
)
from suite.studies.run_facts import RunFacts

PYTORCH_FP32: Final = "PyTorch in fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidClasses:
    """How likely a system finds each class of its pictures; two with the same digest are equal."""

    digest: str
    table: Any = field(compare=False, repr=False)
    """Rows of SAID_FIELDS."""


def has_generated_answers(run: RunFacts) -> bool:
    """Return whether a run's answers are tokens."""
    system = run.record.system
    return bool(registry.list_end_tokens(system.workload, system.profile))


def compare_run_with_reference(run: RunFacts) -> LogprobDifferences | None:
    """Compare what a system said of its tokens with what PyTorch says of them; None without one of
    both.
    """
    if run.said is None or run.reference is None or not has_generated_answers(run):
        return None
    said, reference = select_common_rows(run.said, run.reference)
    return compare_said_tokens(said, reference, run.record.stated_system.precision)


def build_said_classes(run: RunFacts) -> SaidClasses | None:
    """Return what a system said of the classes of its pictures; None without it."""
    if run.said is None or has_generated_answers(run):
        return None
    return SaidClasses(digest=hashlib.sha256(run.said.tobytes()).hexdigest(), table=run.said)


def compare_said_classes(one: SaidClasses, other: SaidClasses) -> LogprobDifferences | None:
    """Compare what two systems said of the classes of the same pictures."""
    mine, its = select_common_rows(one.table, other.table)
    return measure_absolute_differences(mine["said"], its["said"])


def list_likelihood_cells(found: LogprobDifferences | None) -> tuple[str, ...]:
    """Return the differences for programs, with all digits."""
    if found is None:
        return ()
    return tuple(f"{name}={getattr(found, name)}" for name in ("mean", "p99", "largest"))


def tell_likelihoods(found: LogprobDifferences | None) -> str:
    """Format the differences: mean, 99th percentile and largest."""
    if found is None:
        return ""
    return f"{found.mean:.1e}, p99 {found.p99:.1e}, at most {found.largest:.1e}"


def tell_evidence(found: LogprobDifferences | None) -> str:
    """Say in some words what the differences show of a system; "" if they show nothing."""
    if found is None:
        return ""
    return found.finding or (f"as {found.number_format}" if found.number_format else "")


def iterate_likelihood_sentences(
    likelihoods: Mapping[str, LogprobDifferences], reference: str, weights: Mapping[str, str]
) -> Iterator[str]:
    """Say of each system how its log-probabilities differ, and what that shows. `weights`: what is
    stated of those of servers, and by whom.
    """
    for name, found in likelihoods.items():
        other = PYTORCH_FP32 if found.by_place else reference
        sentence = f"{name} to {other}: {found.values:,} log-probabilities, differences"
        sentence += f" {tell_likelihoods(found)}"
        if found.by_place:
            means = ", ".join(f"{each:.1e}" for each in found.by_place)
            sentence += f"; means at tokens 1, 2 to 3, 4 to 7 and on: {means}"
        shown = tell_evidence(found)
        if found.evidence:
            shown = f"{shown} ({found.evidence})" if shown else found.evidence
        if name in weights:
            shown = f"{shown}; weights: {weights[name]}"
        yield f"{sentence}: {shown}" if shown else sentence
