"""Check that a set of published runs since v1.0 needs as much training as the reference, allowing
for chance.
"""

from collections.abc import Iterator
from typing import Final

from compliance.documents.training.bypass import (
    POINTS_BYPASS_OPTION,
    SCALING_FILE,
    find_checker_bypass,
    read_filed_factor,
)
from compliance.documents.training.convergence import (
    Convergence,
    ConvergenceOutcome,
    judge_set_convergence,
)
from compliance.documents.training.log import PublishedSet
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

FILED_FACTOR_TOLERANCE: Final = 0.01
"""Points were revised after some rounds; a filed factor within one per cent is the set's own."""


@rule(
    "runs.convergence",
    PublishedSet,
    about=About.RULES,
    doubt="whether the runs trained as the reference does",
)
def convergence(group: PublishedSet) -> Iterator[Fault]:
    """A closed set needs at least as much training to reach the target as the reference at its
    batch size, allowing for chance.

    Source: training_rules.adoc, Reference Convergence Points; mlcommons/logging, rcp_checker.py;
    the points in suite/rounds/convergence.
    Advice: use the reference's model, data and optimizer; for a batch size without a point, submit
    one, or ask the committee for an exemption.
    """
    found = judge_set_convergence(group)
    if found is None or found.outcome is ConvergenceOutcome.PASS:
        return
    if found.outcome is ConvergenceOutcome.MISSING:
        yield group.build_fault(
            f"batch size {found.batch:g}",
            "a batch size with a reference convergence point in the round",
            severity=Severity.WARNING,
        )
    elif found.outcome is ConvergenceOutcome.INCOMPLETE:
        needed = f"{found.others_need:.6g} or more in each of the {found.missing} missing runs"
        yield group.build_fault(
            f"{len(group.logs)} runs so far",
            f"{needed}, for a mean of {found.least:.6g}: {describe_reference_point(found)}",
            severity=Severity.INFO,
        )
    elif found.outcome is ConvergenceOutcome.FACTOR:
        yield group.build_fault(
            f"a mean of {found.mean:.6g}",
            f"{describe_reference_point(found)}: the minutes are multiplied by {found.factor:.6g}",
            severity=Severity.INFO,
        )
    else:
        short = (
            f"; {-(found.spare or 0)} runs with one additional evaluation" if found.spare else ""
        )
        bypass = find_checker_bypass(group, POINTS_BYPASS_OPTION)
        let_pass = f" (ignored: {bypass})" if bypass else ""
        if is_scaled_as_filed(group, found):
            let_pass = f" (filed with the factor of {SCALING_FILE}, which makes up for it)"
        required = f"{found.least:.6g} or more: {describe_reference_point(found)}{short}{let_pass}"
        yield group.build_fault(
            f"a mean of {found.mean:.6g}",
            required,
            severity=Severity.WARNING if let_pass else None,
        )


def is_scaled_as_filed(group: PublishedSet, found: Convergence) -> bool:
    """Return whether a set was filed with the factor by which it trained less than the reference:
    its published time is then multiplied by it.
    """
    filed = read_filed_factor(group)
    if filed is None or found.point is None or not found.mean:
        return False
    return abs(filed * found.mean / found.point.mean - 1) <= FILED_FACTOR_TOLERANCE


def describe_reference_point(found: Convergence) -> str:
    """Describe the reference point that a set is compared with."""
    point = found.point
    return f"{point.name} has {point.mean:.6g} at batch size {point.batch}" if point else ""
