"""Check the drafters of speculative decoding."""

from collections.abc import Iterator

from compliance.kinds.endpoints_curve.documents.point import EndpointsPoint
from compliance.kinds.endpoints_curve.rules.point import (
    COHORT_PATTERN,
    MAX_QUOTED_CHARACTERS,
    count_cohorts,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

STRICT_DIVISION = "Standardized"


@rule("endpoints.drafter", EndpointsPoint, About.RULES, doubt="which models gave the answers")
def drafter(point: EndpointsPoint) -> Iterator[Fault]:
    """A point with speculative decoding has a drafter that is approved for its benchmark, by the
    checksum of its weights, since at least two cohorts. A benchmark without approved drafters
    allows none. Outside of the Standardized division it is a warning.

    Source: Endpoints rules, 2.9.4 and 9.1; checker, approved_drafters.yaml, which the official
    checker refuses others by. No curve is published.
    Advice: use an approved drafter, and state its weight_checksum as the list has it.
    """
    declared = point.find_value("speculative_decoding")
    if not declared or point.model is None:
        return
    severity = None
    if point.find_text("division") != STRICT_DIVISION:
        severity = Severity.WARNING
    checksum = declared.get("weight_checksum") if isinstance(declared, dict) else None
    approved = point.model.drafters.get(str(checksum))
    if approved is None:
        required = "no speculative decoding: no drafter is approved"
        if point.model.drafters:
            required = f"an approved one: {', '.join(point.model.drafters)}"
        yield point.build_fault(
            f"a drafter with the checksum {checksum}"[:MAX_QUOTED_CHARACTERS],
            required,
            severity=severity,
        )
        return
    begin = COHORT_PATTERN.fullmatch(approved)
    cohort = COHORT_PATTERN.fullmatch(point.find_text("target_cohort") or "")
    least = point.round.rules.drafter_lead_cohorts
    if begin and cohort and count_cohorts(cohort) - count_cohorts(begin) < least:
        yield point.build_fault(
            f"a drafter that was approved in {approved}, in cohort {cohort[0]}",
            f"at least {least} cohorts after its approval",
            severity=severity,
        )
