"""Compute the provisioned power of a system from `system_power.json`.

Source: Endpoints rules, 4.5.2 (groups of components, or a rack) and appendix E (sets of nodes).
Values that a description leaves to MLCommons' estimates are named, and not guessed.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from compliance.documents.base import FileDocument
from compliance.kinds.endpoints_curve.documents.power_defaults import (
    estimate_accelerator_watts,
    estimate_cpu_watts,
    estimate_switch_watts,
)
from compliance.logs.source_file import ParseErrorKind, SourceFile, read_json_document
from compliance.verdict import About, Severity
from suite.rounds.endpoints_curve import PowerRules
from suite.units import W_PER_KW

POWER_FILE: Final = "system_power.json"
POWER_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
BITS_PER_BYTE: Final = 8.0
COOLING_WORDS: Final = {"liquid": ("liquid", "water", "immersion"), "air": ("air",)}
"""Kind of cooling -> words for it; liquid comes first, since its power supplies may use air."""
DENIED_COOLING: Final = re.compile(r"\b(?:no|not|non|without)[\s-]+(?:any\s+)?\w+")
"""A kind of cooling that a text says it is not."""
MAX_COUNT_DIGITS: Final = 18
GROUP_COUNTS: Final = ("count", "num_cpu", "num_accelerator", "num_switches")
GROUP_POWERS: Final = ("tdp_per_unit", "tdp_per_cpu", "tdp_per_accelerator", "tdp_per_switch")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetPower:
    """Power of one set of equal nodes."""

    ensemble: int | None
    """`system_node_ensemble_id`, which a point's `nodes_used` names."""
    nodes: float
    watts: float
    accelerators_per_node: float | None = None
    """None if the power is a published one of a whole node."""


@dataclass(slots=True)
class PowerSum:
    """A description's power while it is added up."""

    rules: PowerRules
    cores: Mapping[int, float]
    """Set of nodes -> cores of one of its processors, as the system's description says."""
    missing: list[str] = field(default_factory=list)
    """Values that neither the description has nor MLCommons' tables."""
    estimates: dict[str, float] = field(default_factory=dict)
    """Value that the description lacks -> MLCommons' estimate in watts."""
    problems: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def choose_watts(self, name: str, stated: float | None, estimate: float | None) -> float:
        """Return a stated power, or else MLCommons' estimate of it; 0 if there is neither."""
        if stated is not None:
            return stated
        if estimate is None:
            self.missing.append(name)
            return 0.0
        self.estimates[name] = estimate
        return estimate

    def estimate_watts(self, kind: str, part: object, ensemble: int | None) -> float | None:
        """Return MLCommons' estimate of a processor's or an accelerator's power, by its name; None
        if there is none.
        """
        model = None
        if isinstance(part, dict):
            model = part.get("model")
        if kind == "cpu":
            return estimate_cpu_watts(self.rules, model, self.cores.get(ensemble or 0))
        if kind == "accelerator":
            return estimate_accelerator_watts(self.rules, model)
        return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SystemPower(FileDocument):
    """The provisioned power of a system."""

    document_name: ClassVar[str] = "the provisioned power of a system"

    values: Mapping[str, Any] | None
    watts: float | None
    """The whole system; None if the description does not say it."""
    summed_watts: float | None = None
    """The sum of the components, which a declared value replaces; None if it cannot be added up."""
    sets: Sequence[NodeSetPower] = ()
    """Empty if only the total is known."""
    shared_watts: float = 0.0
    """Power of the switches between nodes."""
    missing: Sequence[str] = ()
    """Values without which there is no total ..."""
    problems: Sequence[str] = ()
    """... and other reasons why there is none."""
    estimates: Mapping[str, float] = field(default_factory=dict)
    """Value that the description lacks -> MLCommons' estimate in watts, which is in the total."""
    doubts: Sequence[str] = ()
    """What the description may leave out."""

    def compute_point_kw(self, used: Mapping[int, float]) -> float | None:
        """Return the power of a point that uses some of the nodes, by their set; the whole system's
        if it names none.

        Source: Endpoints rules, 4.5.3.
        """
        if self.watts is None or self.watts <= 0:
            return None
        shares = {
            place: used.get(each.ensemble if each.ensemble is not None else -1, each.nodes)
            / each.nodes
            for place, each in enumerate(self.sets)
            if each.nodes > 0
        }
        if not shares or all(share == 1 for share in shares.values()):
            return self.watts / W_PER_KW
        known = sum(each.watts for each in self.sets) + self.shared_watts
        if not math.isclose(known, self.watts):
            return self.watts * max(shares.values()) / W_PER_KW
        nodes = sum(each.nodes for each in self.sets)
        engaged = sum(self.sets[place].nodes * share for place, share in shares.items())
        watts = sum(self.sets[place].watts * share for place, share in shares.items())
        return (watts + self.shared_watts * engaged / nodes) / W_PER_KW


def read_system_power(
    path: Path,
    cooling: str | None,
    rules: PowerRules,
    *,
    required: bool,
    cores: Mapping[int, float] | None = None,
) -> SystemPower:
    """Read a description of power; every problem becomes a parse error of the file, and a missing
    one is a warning where none is required. `cooling` is what the system's description says,
    `cores` those of a processor in each set of nodes.
    """
    if not required:
        leniency = {ParseErrorKind.MISSING: Severity.WARNING}
    else:
        leniency = {}
    source = SourceFile(path, about=About.SCORE, leniency=leniency)
    values = read_json_document(source, POWER_DECODER)
    if values is None:
        return SystemPower(source=source, values=None, watts=None)
    total = PowerSum(rules=rules, cores=cores or {})
    if isinstance(values.get("node_sets"), list):
        return sum_node_sets(source, values, total)
    watts = find_quantity(values, "provisioned_power_w")
    if watts is None:
        watts = compute_rack_share(values)
    if watts is None:
        watts = sum_component_groups(values, total, find_overhead(values, cooling, rules))
    return SystemPower(
        source=source,
        values=values,
        watts=watts,
        missing=total.missing,
        problems=total.problems,
        estimates=total.estimates,
    )


def compute_rack_share(values: Mapping[str, Any]) -> float | None:
    """Return the share that the submitted nodes have of a rack's published power; None if the
    description has none.
    """
    rack, nodes, submitted = (
        find_quantity(values, name) for name in ("rack_power_w", "rack_nodes", "submitted_nodes")
    )
    if rack is None or not nodes or submitted is None:
        return None
    return rack * submitted / nodes


def sum_component_groups(
    values: Mapping[str, Any], total: PowerSum, overhead: float | None
) -> float | None:
    """Add up the groups of components: CPUs and accelerators, or both as one, and the network
    between accelerators.
    """
    names = ("compute",) if isinstance(values.get("compute"), dict) else ("cpu", "accelerator")
    major = 0.0
    for name in (*names, "scale_up_network"):
        group = values.get(name)
        count, power = (find_group_number(group, keys) for keys in (GROUP_COUNTS, GROUP_POWERS))
        if count is None:
            total.missing.append(name)
        elif count:
            estimate = total.estimate_watts(name, group, None)
            major += count * total.choose_watts(name, power, estimate)
    if overhead is None:
        total.problems.append("no cooling that says the overhead")
    if total.missing or total.problems or overhead is None:
        return None
    return major * (1 + overhead)


def find_group_number(group: object, names: Sequence[str]) -> float | None:
    """Return the first number of a group under one of these names."""
    if not isinstance(group, dict):
        return None
    found = (find_quantity(group, name) for name in names)
    return next((each for each in found if each is not None), None)


def find_overhead(
    values: Mapping[str, Any], cooling: str | None, rules: PowerRules
) -> float | None:
    """Return the overhead that the cooling implies; that of an unknown cooling is what the
    description states.
    """
    stated = find_quantity(values, "overhead_fraction")
    own = values.get("cooling")
    kind = find_cooling(own if isinstance(own, str) else cooling)
    return rules.overhead.get(kind or "", stated)


def find_cooling(text: str | None) -> str | None:
    """Return the kind of cooling that a text names; None if it names none."""
    folded = DENIED_COOLING.sub("", (text or "").casefold())
    return next(
        (kind for kind, words in COOLING_WORDS.items() if any(each in folded for each in words)),
        None,
    )


def sum_node_sets(source: SourceFile, values: Mapping[str, Any], total: PowerSum) -> SystemPower:
    """Add up the sets of nodes and the switches between them; a declared total counts instead."""
    overhead = find_overhead(values, None, total.rules)
    if overhead is None:
        total.problems.append("no cooling that says the overhead")
    declared = find_sourced_watts(values.get("declared_provisioned_power"))
    check_scale_out(values, total)
    fabric = values.get("scale_out")
    if not isinstance(fabric, dict) or not fabric.get("present"):
        fabric = {}
    nics = sum_nics(fabric, total)
    sets = [
        each
        for node_set in values["node_sets"]
        if (each := sum_node_set(node_set, fabric, nics, total, overhead or 0.0)) is not None
    ]
    switches = sum_switches(fabric, total)
    numbers = [each.ensemble for each in sets if each.ensemble is not None]
    if len(set(numbers)) < len(numbers):
        total.problems.append("one system_node_ensemble_id at several sets of nodes")
    known = not total.problems and not total.missing
    whole = None
    if known:
        whole = sum(each.watts for each in sets) + switches
    return SystemPower(
        source=source,
        values=values,
        watts=whole if declared is None else declared,
        summed_watts=whole,
        sets=sets,
        shared_watts=switches,
        missing=[] if declared is not None else total.missing,
        problems=[] if declared is not None else total.problems,
        estimates={} if declared is not None else total.estimates,
        doubts=[] if declared is not None else total.doubts,
    )


def check_scale_out(values: Mapping[str, Any], total: PowerSum) -> None:
    """Note what a description leaves out of the network between nodes. Several nodes without one
    may be joined by the network between accelerators, or by what a published power covers.

    Source: Endpoints rules, appendix E.4.
    """
    fabric = values.get("scale_out")
    node_sets = [each for each in values["node_sets"] if isinstance(each, dict)]
    by_formula = [each for each in node_sets if each.get("power_method") == "component_sum"]
    nodes = sum(find_quantity(each, "nodes_provisioned") or 0.0 for each in node_sets)
    if isinstance(fabric, dict) and fabric.get("present"):
        nics = fabric.get("nics")
        if not isinstance(nics, dict):
            total.missing.append("scale_out.nics")
        elif by_formula and nics.get("counted") is not True:
            total.problems.append("scale_out.nics that are not counted beside component_sum")
        if not isinstance(fabric.get("switches"), list):
            total.missing.append("scale_out.switches")
        return
    if nodes <= 1:
        return
    if not isinstance(fabric, dict):
        total.missing.append("scale_out")
        return
    found = f"{nodes:g} nodes with scale_out.present false"
    apart = len(by_formula) == len(node_sets) and not any(map(has_scale_up_network, node_sets))
    (total.problems if apart else total.doubts).append(found)


def has_scale_up_network(node_set: Mapping[str, Any]) -> bool:
    """Return whether a network between accelerators may join the nodes of a set."""
    components = node_set.get("components")
    network = None
    if isinstance(components, dict):
        network = components.get("scale_up_network")
    return isinstance(network, dict) and network.get("method") != "none"


def sum_node_set(
    node_set: object, fabric: Mapping[str, Any], nics: float, total: PowerSum, overhead: float
) -> NodeSetPower | None:
    """Add up one set of nodes, each with the power of its network adapters; None, with a problem,
    if it says no number of nodes.
    """
    if not isinstance(node_set, dict) or not (
        nodes := find_quantity(node_set, "nodes_provisioned")
    ):
        total.problems.append("a set of nodes without nodes_provisioned")
        return None
    method, number = (
        node_set.get("power_method"),
        find_quantity(node_set, "system_node_ensemble_id"),
    )
    ensemble = None if number is None else int(number)
    if method == "component_sum":
        watts = nodes * (sum_components(node_set.get("components"), ensemble, total) + nics)
        watts *= 1 + overhead
        accelerators = find_accelerators(node_set.get("components"))
    else:
        accelerators = None
        published = find_sourced_watts(node_set.get("published_power"))
        rack = find_quantity(node_set, "nodes_in_published_rack")
        if published is None or (method == "node_scaling" and not rack):
            total.problems.append(f"a set of nodes by {method} without published power")
        per_node = (published or 0.0) / rack if method == "node_scaling" and rack else published
        watts = nodes * (per_node or 0.0)
        if is_nic_power_separate(fabric):
            watts += nodes * nics * (1 + overhead)
    return NodeSetPower(
        ensemble=ensemble, nodes=nodes, watts=watts, accelerators_per_node=accelerators
    )


def find_accelerators(components: object) -> float | None:
    """Return the accelerators of a node; None if its components do not say."""
    group = None
    if isinstance(components, dict):
        group = components.get("accelerator")
    if isinstance(group, dict):
        return find_quantity(group, "count_per_node")
    return None


def sum_components(components: object, ensemble: int | None, total: PowerSum) -> float:
    """Return the power of one node's CPUs, accelerators and the network between accelerators."""
    where = ""
    if ensemble is not None:
        where = f" in set {ensemble}"
    if not isinstance(components, dict):
        total.problems.append("a set of nodes by component_sum without components")
        return 0.0
    watts = sum_scale_up_network(components.get("scale_up_network"), where, total)
    combined = components.get("combined_cpu_accelerator")
    if combined is not None:
        parts = [components.get(name) for name in ("cpu", "accelerator")]
        if any(isinstance(each, dict) and each.get("tdp_per_unit") for each in parts):
            total.problems.append("combined_cpu_accelerator beside cpu or accelerator")
        found = find_sourced_watts(combined)
        if found is None:
            total.problems.append("combined_cpu_accelerator without power")
        return watts + (found or 0.0)
    for name in ("cpu", "accelerator"):
        group = components.get(name)
        if not isinstance(group, dict):
            group = {}
        count = find_quantity(group, "count_per_node")
        if count is None:
            total.missing.append(f"{name}.count_per_node{where}")
        elif count:
            stated = find_sourced_watts(group.get("tdp_per_unit"))
            estimate = total.estimate_watts(name, group, ensemble)
            watts += count * total.choose_watts(f"{name}.tdp_per_unit{where}", stated, estimate)
    return watts


def sum_scale_up_network(network: object, where: str, total: PowerSum) -> float:
    """Return the power of the network between one node's accelerators: of its switches, or by the
    energy of a bit.
    """
    if not isinstance(network, dict):
        network = {}
    match network.get("method"):
        case "none":
            return 0.0
        case "declared_tdp":
            count, each = (
                find_quantity(network, "switch_count"),
                find_sourced_watts(network.get("tdp_per_switch")),
            )
        case _:
            count = find_quantity(network, "aggregate_bandwidth_tbps")
            energy = network.get("energy_per_bit_pj")
            per_bit = None
            if isinstance(energy, dict):
                per_bit = find_quantity(energy, "value_pj")
            each = None
            if per_bit is not None:
                each = per_bit * BITS_PER_BYTE
    if count is None or each is None:
        total.missing.append(f"scale_up_network{where}")
    return (count or 0.0) * (each or 0.0)


def sum_nics(fabric: Mapping[str, Any], total: PowerSum) -> float:
    """Return the power of one node's network adapters, if they are counted."""
    nics = fabric.get("nics")
    if not isinstance(nics, dict) or nics.get("counted") is not True:
        return 0.0
    count = find_quantity(nics, "count_per_node")
    if count is None:
        total.missing.append("scale_out.nics.count_per_node")
    if not count:
        return 0.0
    stated = find_sourced_watts(nics.get("tdp_per_nic"))
    return count * total.choose_watts("scale_out.nics.tdp_per_nic", stated, total.rules.nic_watts)


def is_nic_power_separate(fabric: Mapping[str, Any]) -> bool:
    """Return whether the published power of nodes is shown to leave out the network adapters.

    Source: Endpoints rules, 4.5.2.
    """
    nics = fabric.get("nics")
    return isinstance(nics, dict) and bool(nics.get("excluded_from_published_power"))


def sum_switches(fabric: Mapping[str, Any], total: PowerSum) -> float:
    """Return the power of the switches between nodes."""
    watts, switches = 0.0, fabric.get("switches")
    if isinstance(switches, list):
        for switch in switches:
            count = None
            if isinstance(switch, dict):
                count = find_quantity(switch, "count")
            if count is None:
                total.missing.append("scale_out.switches.count")
                continue
            stated = find_sourced_watts(switch.get("power_per_switch"))
            estimate = estimate_switch_watts(
                total.rules, switch.get("model"), fabric.get("cabling")
            )
            watts += count * total.choose_watts(
                "scale_out.switches.power_per_switch", stated, estimate
            )
    return watts


def find_sourced_watts(value: object) -> float | None:
    """Return a value with its source in watts: `value_w`, or `value_kw`."""
    if not isinstance(value, dict):
        return None
    watts, kilowatts = find_quantity(value, "value_w"), find_quantity(value, "value_kw")
    if watts is not None or kilowatts is None:
        return watts
    return kilowatts * W_PER_KW


def find_quantity(values: Mapping[str, Any], name: str) -> float | None:
    """Return a number of a table that is finite and at least 0; None if there is none."""
    found = values.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    if math.isfinite(found) and found >= 0:
        return float(found)
    return None


def find_count(values: Mapping[str, Any], name: str) -> float | None:
    """Return a number of a table that may stand there as text; None if there is none."""
    found = values.get(name)
    if isinstance(found, str) and found.strip().isascii() and found.strip().isdigit():
        return float(found[:MAX_COUNT_DIGITS])
    return find_quantity(values, name)
