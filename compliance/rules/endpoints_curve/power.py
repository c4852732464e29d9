"""Check the provisioned power of a curve's system, and the throughput per kilowatt."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.documents.endpoints.curve import (
    EndpointsCurve,
    find_system_cooling,
    list_used_nodes,
)
from compliance.documents.endpoints.point import EndpointsPoint
from compliance.documents.endpoints.power import W_PER_KW, find_cooling, find_quantity
from compliance.rules import rule
from compliance.rules.endpoints_curve.point import is_near, list_stated_figures
from compliance.rules.file_integrity import is_content_lost
from compliance.verdict import About, Fault, Severity

POWER_TOLERANCE_KW: Final = 0.01
"""The checker rounds to two decimals."""


@rule("endpoints.power", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def power(curve: EndpointsCurve) -> Iterator[Fault]:
    """A system's description of power yields a total, and states the one that it yields. What it
    leaves to MLCommons' estimates is a warning; so is any defect where the division need not state
    power.

    Source: Endpoints rules, 4.5.2 and appendix E.
    Advice: state count, rated power and source of each component, and the cooling.
    """
    found = curve.power
    optional = is_power_optional(curve)
    if found.values is None:
        if not is_content_lost(found.source):
            yield found.build_fault(
                f"no {found.source.path.name} that can be read",
                "the provisioned power of the system",
                Severity.WARNING if optional else None,
            )
        return
    for problem in found.problems:
        yield found.build_fault(
            problem, "power that can be added up", Severity.WARNING if optional else None
        )
    for name in found.missing:
        yield found.build_fault(
            f"no rated power of {name}", "a public value, or MLCommons' estimate", Severity.WARNING
        )
    stated = find_quantity(found.values, "provisioned_power_kw")
    total = None if found.watts is None else found.watts / W_PER_KW
    if stated is not None and total is not None and abs(stated - total) > POWER_TOLERANCE_KW:
        yield found.build_fault(
            f"provisioned_power_kw {stated}",
            f"{total:.6g}, from its components",
            Severity.WARNING if optional else None,
        )
    yield from check_cooling(curve)


def is_power_optional(curve: EndpointsCurve) -> bool:
    """Return whether the curve's division need not state power."""
    divisions = {each.find_value("division") for each in curve.points}
    return bool(divisions) and divisions <= {*curve.round.power.optional_divisions}


def check_cooling(curve: EndpointsCurve) -> Iterator[Fault]:
    """Yield a cooling that is not that of the system's description."""
    own = (curve.power.values or {}).get("cooling")
    described = next((each for point in curve.points if (each := find_system_cooling(point))), None)
    kinds = find_cooling(own if isinstance(own, str) else None), find_cooling(described)
    if None not in kinds and kinds[0] != kinds[1]:
        yield curve.power.build_fault(
            f"cooling {own}", f"{described}, as in the system's description"
        )


@rule("endpoints.nodes_used", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def nodes_used(curve: EndpointsCurve) -> Iterator[Fault]:
    """A point that uses fewer nodes than the system has names sets of nodes that exist, and at most
    as many nodes as they have.

    Source: Endpoints rules, 4.5.3 and 8.3.
    Advice: name each set once, with the nodes that the point's parallelism needs.
    """
    provisioned = {each.ensemble: each.nodes for each in curve.power.sets}
    for point in curve.points:
        seen = set[int | None]()
        for ensemble, nodes in list_used_nodes(point):
            most = provisioned.get(ensemble)
            if ensemble in seen or ensemble is None or (provisioned and most is None):
                yield point.build_fault(
                    f"nodes_used of set {ensemble}", "each set of nodes of the system once"
                )
            elif nodes is None or not 1 <= nodes <= (nodes if most is None else most):
                yield point.build_fault(
                    f"{nodes} nodes of set {ensemble}", f"between 1 and {most or 'all of them'}"
                )
            seen.add(ensemble)


@rule("endpoints.per_kw", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def per_kw(curve: EndpointsCurve) -> Iterator[Fault]:
    """A stated system_tps_per_kw is the point's system_tps divided by the provisioned power of the
    nodes that it uses.

    Source: Endpoints rules, 4.5.3.
    Advice: compute it from the run and the description that are submitted.
    """
    for point in curve.points:
        rate, kilowatts = point.compute_figures().system_tps, curve.compute_point_kw(point)
        if rate is None or not kilowatts:
            continue
        yield from check_stated_ratio(point, rate / kilowatts)


def check_stated_ratio(point: EndpointsPoint, found: float) -> Iterator[Fault]:
    """Yield a throughput per kilowatt that is not the recomputed one."""
    for where, stated in list_stated_figures(point, "system_tps_per_kw"):
        if math.isfinite(found) and not is_near(point, stated, found):
            yield point.build_fault(
                f"system_tps_per_kw {stated}",
                f"{found:.6g}, from the run and the provisioned power",
                file=point.folder / where,
            )
