"""Check the provisioned power of a curve's system, and the throughput per kilowatt."""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints_curve.documents.curve import (
    EndpointsCurve,
    find_system_cooling,
    list_node_types,
    list_used_nodes,
)
from compliance.kinds.endpoints_curve.documents.point import SYSTEM_FILE, EndpointsPoint
from compliance.kinds.endpoints_curve.documents.power import (
    NodeSetPower,
    SystemPower,
    find_cooling,
    find_count,
    find_quantity,
)
from compliance.kinds.endpoints_curve.rules.figures import is_near, list_stated_figures
from compliance.rules import rule
from compliance.rules.file_integrity import is_content_lost
from compliance.verdict import About, Fault, Severity
from suite.units import W_PER_KW

MIN_DECLARED_SHARE: Final = 0.5
"""A declared value is measured or specified for the whole system, which may well be below the sum
of its components' rated power.
"""
POWER_TOLERANCE_KW: Final = 0.01
"""The checker rounds to two decimals."""
MAX_ROUNDING: Final = 0.0501
"""How far a figure of one decimal may be from the one that was rounded to it."""


@rule("endpoints.power", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def power(curve: EndpointsCurve) -> Iterator[Fault]:
    """A system's description of power yields a total, and states this total. A part that only
    MLCommons can decide is a warning. So is any defect in a division that need not state power.

    Source: Endpoints rules, 4.5.2 and appendix E.
    Advice: state count, rated power and source of each component, and the cooling.
    """
    found = curve.power
    optional = curve.is_power_optional
    if found.values is None:
        if not optional and not is_content_lost(found.source):
            yield found.build_fault(
                f"no {found.source.path.name} that can be read",
                "the provisioned power of the system",
            )
        return
    for problem in found.problems:
        yield found.build_fault(
            problem, "power that can be added up", severity=Severity.WARNING if optional else None
        )
    for name in found.missing:
        yield found.build_fault(
            f"no {name}",
            "a public value: MLCommons has no estimate of it",
            severity=Severity.WARNING,
        )
    for name, watts in found.estimates.items():
        yield found.build_fault(
            f"no {name}",
            f"a public value; MLCommons estimates {watts:g} W",
            severity=Severity.WARNING,
        )
    for doubt in found.doubts:
        yield found.build_fault(doubt, "the network between the nodes", severity=Severity.WARNING)
    stated = find_quantity(found.values, "provisioned_power_kw")
    total = None
    if found.watts is not None:
        total = found.watts / W_PER_KW
    if stated is not None and total is not None and abs(stated - total) > POWER_TOLERANCE_KW:
        yield found.build_fault(
            f"provisioned_power_kw {stated}",
            f"{total:.6g}, from its components",
            severity=Severity.WARNING if optional else None,
        )
    yield from check_stated_sums(curve.power)
    yield from check_overhead(curve)
    yield from check_provisioned_nodes(curve)
    yield from check_cooling(curve)


def check_stated_sums(found: SystemPower) -> Iterator[Fault]:
    """Yield a computed total that is not that of the components, and a declared one below it."""
    computed = (found.values or {}).get("computed")
    stated = None
    if isinstance(computed, dict):
        stated = find_quantity(computed, "total_system_power_w")
    if (
        stated is not None
        and found.watts is not None
        and abs(stated - found.watts) > POWER_TOLERANCE_KW * W_PER_KW
    ):
        yield found.build_fault(
            f"computed.total_system_power_w {stated}", f"{found.watts:.6g}, from its components"
        )
    if None not in (found.watts, found.summed_watts) and (
        (found.watts or 0) < MIN_DECLARED_SHARE * (found.summed_watts or 0)
    ):
        yield found.build_fault(
            f"{found.watts:.6g} W declared",
            f"about {found.summed_watts:.6g} W, the sum of the components",
            severity=Severity.WARNING,
        )


def check_overhead(curve: EndpointsCurve) -> Iterator[Fault]:
    """Yield stated overheads that are not that of the cooling."""
    values = curve.power.values or {}
    cooling, computed = values.get("cooling"), values.get("computed")
    stated = find_quantity(values, "overhead_fraction")
    if stated is None and isinstance(computed, dict):
        stated = find_quantity(computed, "overhead_fraction")
    implied = curve.round.power.overhead.get(
        find_cooling(cooling if isinstance(cooling, str) else None) or ""
    )
    if None not in (stated, implied) and stated != implied:
        yield curve.power.build_fault(
            f"overhead_fraction {stated}", f"{implied}, of {cooling} cooling"
        )


def check_provisioned_nodes(curve: EndpointsCurve) -> Iterator[Fault]:
    """Yield the first set of nodes with another number than a system's description gives it."""
    provisioned = {each.ensemble: each for each in curve.power.sets}
    for point in curve.points:
        problems = [
            problem
            for ensemble, nodes, accelerators in list_described_nodes(point)
            if ensemble in provisioned
            for problem in compare_node_set(provisioned[ensemble], nodes, accelerators)
        ]
        if problems:
            found, wanted = problems[0]
            yield curve.power.build_fault(
                found, f"{wanted}, as {point.folder.name} describes the system"
            )
            return


def compare_node_set(
    found: NodeSetPower, nodes: float | None, accelerators: float | None
) -> Iterator[tuple[str, str]]:
    """Yield numbers of a set of nodes that are not those of its description: what was found, and
    what is required.
    """
    for name, number, described in (
        ("nodes", found.nodes, nodes),
        ("accelerators per node", found.accelerators_per_node, accelerators),
    ):
        if None not in (number, described) and number != described:
            yield f"{number:g} {name} in set {found.ensemble}", f"{described:g}"


def list_described_nodes(point: EndpointsPoint) -> list[tuple[int, float | None, float | None]]:
    """Return each set of nodes in a system's description: its number, its nodes, and the
    accelerators of one; None for what it does not state.
    """
    found = []
    for each in list_node_types(point):
        ensemble = find_count(each, "system_node_ensemble_id")
        if ensemble is None:
            continue
        accelerators = count_accelerators(each.get("accelerator_info"))
        found.append((int(ensemble), find_count(each, "number_of_nodes"), accelerators))
    return found


def count_accelerators(kinds: object) -> float | None:
    """Return the accelerators of one node, added up over their kinds; None if any is unknown."""
    if not isinstance(kinds, list) or not kinds:
        return None
    counts = [
        find_count(kind, "accelerators_per_node") if isinstance(kind, dict) else None
        for kind in kinds
    ]
    if None in counts:
        return None
    return sum(count or 0 for count in counts)


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
    """A point that uses fewer nodes than the system has names sets of nodes that exist, at most as
    many nodes as they have, and enough for its replicas of the model.

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
                    f"{nodes} nodes of set {ensemble}",
                    f"between 1 and {'all of them' if most is None else f'{most:g}'}",
                )
            seen.add(ensemble)
        yield from check_used_accelerators(curve, point)


def check_used_accelerators(curve: EndpointsCurve, point: EndpointsPoint) -> Iterator[Fault]:
    """Yield nodes in use that have fewer accelerators than the point's replicas take. Where only
    the system's description says how many a node has, that is a warning.
    """
    used = {ensemble: nodes for ensemble, nodes in list_used_nodes(point) if nodes is not None}
    replica, replicas = compute_replica_size(point), find_parallelism(point, "data_parallel")
    described = {ensemble: count for ensemble, _, count in list_described_nodes(point)}
    stated = [each.accelerators_per_node for each in curve.power.sets]
    counts = list(stated)
    for place, each in enumerate(curve.power.sets):
        if stated[place] is None:
            counts[place] = described.get(-1 if each.ensemble is None else each.ensemble)
    if not used or not counts or replica is None or replicas is None or None in counts:
        return
    engaged = sum(
        used.get(each.ensemble, each.nodes) * (count or 0)
        for each, count in zip(curve.power.sets, counts, strict=True)
    )
    if engaged < replica * replicas:
        if None in stated:
            severity: Severity | None = Severity.WARNING
        else:
            severity = find_excess_severity(point, replicas, engaged)
        yield point.build_fault(
            f"nodes_used with {engaged:g} accelerators",
            f"{replica * replicas:g}, of {replicas:g} replicas with {replica:g} each",
            severity=severity,
        )


@rule("endpoints.engagement", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def engagement(curve: EndpointsCurve) -> Iterator[Fault]:
    """A point runs as many replicas of the model as the system's accelerators have room for, or
    states the lower number in dp_shortfall, which is a warning where it is not lower. It never
    engages more accelerators than the system has.

    Source: Endpoints rules, 4.5.3; checker, Maximal engagement: a replica takes tensor_parallel x
    pipeline_parallel x expert_parallel accelerators, unless prefill and decoding are disaggregated.
    Where experts may share the accelerators of the other dimensions, too many are a warning.
    Advice: correct the parallelism in system_desc.json, or declare dp_shortfall in point.yaml.
    """
    counts = [each.accelerators_per_node for each in curve.power.sets]
    if not counts or None in counts:
        return
    provisioned = sum(each.nodes * (each.accelerators_per_node or 0) for each in curve.power.sets)
    for point in curve.points:
        replica, replicas = compute_replica_size(point), find_parallelism(point, "data_parallel")
        if replica is None or replicas is None:
            continue
        most = 0
        if replica >= 1:
            most = int(provisioned // replica)
        file = point.folder / SYSTEM_FILE
        declared = [
            point.find_integer("dp_shortfall", name) for name in ("dp_actual", "dp_formula")
        ]
        if not 1 <= replicas <= most:
            yield point.build_fault(
                f"{replicas:g} replicas of {replica:g} accelerators",
                f"between 1 and {most} on {provisioned:g} accelerators",
                file=file,
                severity=find_excess_severity(point, replicas, provisioned),
            )
        elif replicas < most and declared != [replicas, most]:
            yield point.build_fault(
                f"{replicas:g} replicas of {replica:g} accelerators",
                f"{most} on {provisioned:g} accelerators, or dp_shortfall with both numbers",
                file=file,
            )
        elif replicas == most and point.find_value("dp_shortfall") is not None:
            yield point.build_fault(
                f"dp_shortfall with {replicas:g} replicas",
                f"none, since {most} are all that there is room for",
                severity=Severity.WARNING,
            )


def find_excess_severity(
    point: EndpointsPoint, replicas: float, accelerators: float
) -> Severity | None:
    """Return a warning for replicas that fit if their experts share the accelerators of the other
    dimensions, data_parallel among them, which system_desc.json does not say; else the rule's own
    severity.
    """
    names = ("tensor_parallel", "pipeline_parallel")
    dense = replicas * math.prod(find_parallelism(point, name) or 0 for name in names)
    widest = max(dense, find_parallelism(point, "expert_parallel") or 0)
    if dense >= 1 and widest <= accelerators:
        return Severity.WARNING
    return None


def compute_replica_size(point: EndpointsPoint) -> float | None:
    """Return the accelerators of one replica of a point's model; None if they are not stated, or
    prefill and decoding have accelerators of their own.
    """
    system = point.system or {}
    names = ("tensor_parallel", "pipeline_parallel", "expert_parallel")
    if system.get("disaggregated") or not any(name in system for name in names):
        return None
    sizes = [find_parallelism(point, name) for name in names]
    if None in sizes:
        return None
    return math.prod(each or 0 for each in sizes)


def find_parallelism(point: EndpointsPoint, name: str) -> float | None:
    """Return one degree of parallelism, 1 if it is not stated; None if it is no number."""
    system = point.system or {}
    if system.get(name) is not None:
        return find_count(system, name)
    return 1.0


@rule("endpoints.per_kw", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def per_kw(curve: EndpointsCurve) -> Iterator[Fault]:
    """A stated system_tps_per_kw is the point's system_tps divided by the provisioned power of the
    nodes that it uses. If the description of power yields no total, the point states no such
    figure.

    Source: Endpoints rules, 4.5.3.
    Advice: compute it from the run and the description that are submitted.
    """
    if is_content_lost(curve.power.source):
        return
    for point in curve.points:
        rate, kilowatts = point.compute_figures().system_tps, curve.compute_point_kw(point)
        for where, stated in list_stated_figures(point, "system_tps_per_kw"):
            wanted = None
            if not kilowatts:
                wanted = f"none: {describe_power_gaps(curve.power)}"
            elif rate is not None and not is_rounded_ratio(point, stated, rate, kilowatts):
                wanted = f"{rate / kilowatts:.6g}, from the run and the provisioned power"
            if wanted:
                yield point.build_fault(
                    f"system_tps_per_kw {stated}", wanted, file=point.folder / where
                )


def is_rounded_ratio(point: EndpointsPoint, stated: float, rate: float, kilowatts: float) -> bool:
    """Return whether a stated figure per kilowatt is the recomputed one, within the round's
    tolerance or rounded as the rules and the checker do: kilowatts to two decimals, the figure to
    one.

    Source: Endpoints rules, 4.5.2; endpoints-submission-cli 1.5, power_summary.py.
    """
    ratios = [rate / each for each in (kilowatts, round(kilowatts, 2)) if each]
    rounded = stated == round(stated, 1)
    return any(
        is_near(point, stated, each) or (rounded and abs(stated - each) <= MAX_ROUNDING)
        for each in ratios
    )


def describe_power_gaps(found: SystemPower) -> str:
    """Describe why a description of power yields no total."""
    name = found.source.path.name
    if found.values is None:
        return f"there is no {name}"
    gaps = "; ".join([*found.problems, *(f"no {each}" for each in found.missing)])
    return f"{name} yields no power: {gaps or 'its parts have none'}"
