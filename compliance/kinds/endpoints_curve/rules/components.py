"""Check the components of a system's power against its description and known rated power."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compliance.kinds.endpoints.documents.settings_table import select_tables
from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve, list_node_types
from compliance.kinds.endpoints_curve.documents.power import (
    find_count,
    find_quantity,
    find_sourced_watts,
)
from compliance.kinds.endpoints_curve.documents.power_defaults import estimate_accelerator_watts
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

MIN_RATED_SHARE: Final = 0.5
"""Smallest share of its rated power to which evidence may show that a part is limited."""
MODEL_NUMBER_PATTERN: Final = re.compile(r"[a-z]*[0-9][a-z0-9]*")
SOURCED_PARTS: Final = {
    "cpu": "tdp_per_unit",
    "accelerator": "tdp_per_unit",
    "scale_up_network": "tdp_per_switch",
}


@rule("endpoints.power_parts", EndpointsCurve, About.SCORE, doubt="the throughput per kilowatt")
def power_parts(curve: EndpointsCurve) -> Iterator[Fault]:
    """The parts whose power is added up are those of the system's description: as many processors,
    and the same accelerators. Rated power has a source. An accelerator's power below MLCommons'
    figure is a warning, since evidence may show less, and an error below half of it.

    Source: Endpoints rules, 4.5.2, 8.2 and appendix D.3.
    Advice: state number, model, rated power and source of each part of the system as described.
    """
    nodes = collect_described_nodes(curve)
    for node_set in select_tables((curve.power.values or {}).get("node_sets")):
        components = node_set.get("components")
        if node_set.get("power_method") != "component_sum" or not isinstance(components, dict):
            continue
        number = find_quantity(node_set, "system_node_ensemble_id")
        ensemble = -1 if number is None else int(number)
        where = ""
        if number is not None:
            where = f" in set {ensemble}"
        place, node = nodes.get(ensemble, ("", {}))
        yield from check_processors(curve, components, node, where, place)
        yield from check_accelerator(curve, components, node, where, place)
        for name, key in SOURCED_PARTS.items():
            stated = get_table(get_table(components, name), key)
            if find_sourced_watts(stated) is not None and not stated.get("source"):
                yield curve.power.build_fault(
                    f"{name}.{key}{where} without a source",
                    "a public source",
                    severity=Severity.WARNING,
                )


def collect_described_nodes(curve: EndpointsCurve) -> dict[int, tuple[str, Mapping[str, Any]]]:
    """Return each set of nodes by its number, with the first point that describes it."""
    found: dict[int, tuple[str, Mapping[str, Any]]] = {}
    for point in curve.points:
        for node in list_node_types(point):
            ensemble = find_count(node, "system_node_ensemble_id")
            if ensemble is not None:
                found.setdefault(int(ensemble), (point.folder.name, node))
    return found


def check_processors(
    curve: EndpointsCurve,
    components: Mapping[str, Any],
    node: Mapping[str, Any],
    where: str,
    place: str,
) -> Iterator[Fault]:
    """Yield another number of processors than a node has, and none where the description names
    one. Their power may be stated together with the accelerators'.
    """
    found = find_quantity(get_table(components, "cpu"), "count_per_node")
    if found is None or components.get("combined_cpu_accelerator") is not None:
        return
    described = find_count(node, "host_processors_per_node")
    if described and found != described:
        yield curve.power.build_fault(
            f"{found:g} processors per node{where}",
            f"{described:g}, as {place} describes the system",
        )
    elif not described and not found and node.get("host_processor_model_name"):
        yield curve.power.build_fault(
            f"no processor in a node{where}",
            f"{node['host_processor_model_name']}, as {place} describes the system",
        )


def check_accelerator(
    curve: EndpointsCurve,
    components: Mapping[str, Any],
    node: Mapping[str, Any],
    where: str,
    place: str,
) -> Iterator[Fault]:
    """Yield an accelerator that is not the described one, and a power below its rated power."""
    part = get_table(components, "accelerator")
    named, stated = part.get("model"), find_sourced_watts(part.get("tdp_per_unit"))
    kinds = select_tables(node.get("accelerator_info"))
    described = [each.get("accelerator_model_name") for each in kinds]
    if len(described) == 1 and have_other_numbers(named, described[0]):
        yield curve.power.build_fault(
            f"accelerator {named}{where}",
            f"{described[0]}, as {place} describes the system",
            severity=Severity.WARNING,
        )
    models = [named]
    if len(described) == 1:
        models.append(described[0])
    rated = max(estimate_accelerator_watts(curve.round.power, each) or 0.0 for each in models)
    if stated is not None and stated < rated:
        yield curve.power.build_fault(
            f"accelerator.tdp_per_unit{where} {stated:g} W",
            f"{rated:g} W, its rated power, or evidence of a limit",
            severity=None if stated < MIN_RATED_SHARE * rated else Severity.WARNING,
        )


def have_other_numbers(first: object, other: object) -> bool:
    """Return whether two names of a part have model numbers, and none in common."""
    if not isinstance(first, str) or not isinstance(other, str):
        return False
    one, two = (set(MODEL_NUMBER_PATTERN.findall(each.casefold())) for each in (first, other))
    return bool(one) and bool(two) and one.isdisjoint(two)


def get_table(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a table of a table; an empty one for anything else."""
    found = values.get(name)
    if isinstance(found, dict):
        return found
    return {}
