"""Check that a set of published runs since v1.0 needs as much training as the reference, allowing
for chance.
"""

from collections.abc import Iterator

from compliance.kinds.training.documents.bypass import (
    POINTS_BYPASS_OPTION,
    find_checker_bypass,
)
from compliance.kinds.training.documents.convergence import (
    Convergence,
    ConvergenceOutcome,
    judge_set_convergence,
)
from compliance.kinds.training.documents.log import PublishedSet
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity


@rule(
    "runs.convergence",
    PublishedSet,
    About.RULES,
    doubt="whether the runs trained as the reference does",
)
def convergence(group: PublishedSet) -> Iterator[Fault]:
    """A closed set needs at least as much training to reach the target as the reference at its
    batch size, allowing for chance.

    Source: training_rules.adoc, Reference Convergence Points; mlcommons/logging, rcp_checker.py;
    the points in compliance/kinds/training/rounds/convergence.
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
        short = ""
        if found.filed:
            short = f"; {found.least:.6g} or more without a filed factor"
        yield group.build_fault(
            f"a mean of {found.mean:.6g}",
            f"{describe_reference_point(found)}: the minutes are multiplied by"
            f" {found.factor:.6g}{short}",
            severity=Severity.WARNING if found.filed else Severity.INFO,
        )
    else:
        short = ""
        if found.spare:
            short = f"; {-(found.spare or 0)} runs with one additional evaluation"
        bypass = find_checker_bypass(group, POINTS_BYPASS_OPTION)
        let_pass = ""
        if bypass:
            let_pass = f" (ignored: {bypass})"
        required = f"{found.least:.6g} or more: {describe_reference_point(found)}{short}{let_pass}"
        yield group.build_fault(
            f"a mean of {found.mean:.6g}",
            required,
            severity=Severity.WARNING if bypass else None,
        )


def describe_reference_point(found: Convergence) -> str:
    """Describe the reference point that a set is compared with."""
    point = found.point
    if not point:
        return ""
    return f"{point.name} has {point.mean:.6g} at batch size {point.batch}"
