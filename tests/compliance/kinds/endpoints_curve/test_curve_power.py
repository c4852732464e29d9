"""Provisioned power of a curve's system: what is missing, MLCommons' estimates, the nodes that a
point uses, and throughput per kilowatt that cannot be derived.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinds.endpoints import edited
from kinds.endpoints_curves import edit_point, quote_watts, remove, state_more, submission

from compliance.judge import Judge
from compliance.kinds.endpoints_curve.documents.power import SystemPower, read_system_power
from compliance.verdict import Finding, Severity
from suite import registry

Edit = Callable[[Path], object]
HOME = Path("results/box")
POWER_FILE = "system_power.json"
RULES = registry.load_endpoints_round("endpoints-v1.0").power


def judge(folder: Path, *edits: Edit, curve: str = "elected") -> tuple[Finding, ...]:
    def change(root: Path) -> None:
        for edit in edits:
            edit(root)

    submission(change, curve)(folder)
    return Judge().judge_path(str(folder / "acme" / "s1")).findings


def list_rules(found: tuple[Finding, ...], severity: Severity) -> set[str]:
    return {each.rule for each in found if each.severity is severity}


def edit_power(*path: str | int, value: Any) -> Edit:
    return lambda root: edited(POWER_FILE, *path, value=value)(root / HOME)


def edit_part(*path: str, value: Any) -> Edit:
    return edit_power("node_sets", 0, "components", *path, value=value)


def edit_systems(change: Callable[[dict[str, Any]], object]) -> Edit:
    """Change the system's description at each point."""

    def edit(root: Path) -> None:
        for path in sorted(root.glob("results/*/*/r*/system_desc.json")):
            system = json.loads(path.read_text())
            change(system)
            path.write_text(json.dumps(system))

    return edit


def provision_nodes(nodes: int, replicas: int, present: bool = True) -> list[Edit]:
    """Describe a system of several nodes, each with a replica, joined by a network."""

    def describe(system: dict[str, Any]) -> None:
        system["node_types"][0]["number_of_nodes"] = nodes
        system["data_parallel"] = replicas

    fabric = {
        "present": True,
        "cabling": "passive",
        "required_bandwidth_tbps": 0.4 * nodes,
        "nics": {
            "count_per_node": 1,
            "bandwidth_per_nic_gbps": 400,
            "counted": True,
            "tdp_per_nic": quote_watts(75),
        },
        "switches": [
            {
                "model": "Some switch",
                "count": 1,
                "bandwidth_tbps": 51.2,
                "power_per_switch": quote_watts(900),
            }
        ],
    }
    return [
        edit_power("node_sets", 0, "nodes_provisioned", value=nodes),
        edit_power("scale_out", value=fabric if present else {"present": False}),
        edit_systems(describe),
    ]


GAPS: dict[str, tuple[Edit, str]] = {
    "an accelerator": (edit_part("accelerator", "tdp_per_unit", value=None), "accelerator"),
    "a processor": (edit_part("cpu", "tdp_per_unit", value=None), "cpu"),
    "a processor's number": (edit_part("cpu", "count_per_node", value=None), "cpu"),
    "the network between accelerators": (
        edit_part("scale_up_network", value={"method": "declared_tdp", "switch_count": 2}),
        "scale_up_network",
    ),
}


@pytest.mark.parametrize("name", GAPS)
def test_a_missing_part_is_named_once(tmp_path: Path, name: str) -> None:
    edit, part = GAPS[name]
    (found,) = judge(tmp_path, edit)
    assert (found.rule, found.severity) == ("endpoints.power", Severity.WARNING)
    assert part in found.found and "set 0" in found.found


@pytest.mark.parametrize("name", GAPS)
def test_a_figure_per_kw_from_missing_parts_does_not_count(tmp_path: Path, name: str) -> None:
    edit, part = GAPS[name]
    found = judge(tmp_path, state_more, edit)
    assert list_rules(found, Severity.ERROR) == {"endpoints.per_kw"}
    claims = [each for each in found if each.rule == "endpoints.per_kw"]
    assert len(claims) == 7 and all(part in each.required for each in claims)


def test_a_figure_per_kw_without_a_description_does_not_count(tmp_path: Path) -> None:
    """Where the division need not state power, a figure that rests on it is still a claim."""

    def declare_division(root: Path) -> None:
        for path in sorted(root.glob("results/*/*/r*/point.yaml")):
            path.write_text(path.read_text().replace("Standardized", "RDI"))
        edit_systems(lambda system: system.update(division="RDI"))(root)

    edits = declare_division, remove(*HOME.parts, POWER_FILE)
    assert list_rules(judge(tmp_path / "without", *edits), Severity.ERROR) == set()
    found = judge(tmp_path / "with", state_more, *edits)
    assert list_rules(found, Severity.ERROR) == {"endpoints.per_kw"}
    assert all("no system_power.json" in each.required for each in found if "kw" in each.rule)


def test_a_lost_description_of_power_is_one_finding(tmp_path: Path) -> None:
    found = judge(tmp_path, state_more, lambda root: (root / HOME / POWER_FILE).write_text("{"))
    assert [each.rule for each in found] == ["file.record"]


def name_parts(root: Path) -> None:
    """Parts that MLCommons has estimates of: 2 x 500 W and 8 x 1,000 W, with 30 % more."""
    for part, model in (("cpu", "AMD EPYC 9755"), ("accelerator", "NVIDIA B200-SXM")):
        edit_part(part, value=lambda each, model=model: {**each, "model": model})(root)
        edit_part(part, "tdp_per_unit", value=None)(root)
    edit_systems(lambda system: system["node_types"][0].update(host_processor_core_count=128))(root)


def state_estimates(root: Path) -> None:
    state_more(root)
    for path in sorted(root.glob("results/*/*/r*/result_summary.json")):
        summary = json.loads(path.read_text())
        summary["system_tps_per_kw"] = round(summary["tps"] / 11.7, 1)
        path.write_text(json.dumps(summary))


def test_estimates_of_mlcommons_are_warnings(tmp_path: Path) -> None:
    """A figure per kilowatt from them is honest, and one from other values is not."""
    found = judge(tmp_path / "estimated", name_parts, state_estimates)
    assert list_rules(found, Severity.ERROR) == set()
    assert [each.required for each in found] == [
        "a public value; MLCommons estimates 500 W",
        "a public value; MLCommons estimates 1000 W",
    ]
    found = judge(tmp_path / "stated", state_more, name_parts)
    assert list_rules(found, Severity.ERROR) == {"endpoints.per_kw"}


def read_power(folder: Path, cores: dict[int, float] | None = None, **values: Any) -> SystemPower:
    path = folder / POWER_FILE
    path.write_text(json.dumps({"cooling": "air", **values}))
    return read_system_power(path, None, RULES, required=True, cores=cores)


@pytest.mark.parametrize(
    ("part", "model", "cores", "watts"),
    [
        ("cpu", "Intel Xeon 6972P", 64, 350),
        ("cpu", "Intel Xeon 6972P", 65, 500),
        ("cpu", "NVIDIA Grace", 72, 300),
        ("cpu", "AMD Venice 256-core", None, 500),
        ("cpu", "AMD EPYC", None, None),
        ("cpu", "Some ARM", 192, None),
        ("cpu", "Some CPU", 64, None),
        ("accelerator", "NVIDIA GB300", None, 1400),
        ("accelerator", "NVIDIA B300", None, 1100),
        ("accelerator", "AMD Instinct MI355X", None, 1400),
        ("accelerator", "H100", None, None),
    ],
)
def test_estimates_are_those_of_appendix_d(
    tmp_path: Path, part: str, model: str, cores: int | None, watts: float | None
) -> None:
    components = {
        name: {"count_per_node": int(name == part), "model": model}
        for name in ("cpu", "accelerator")
    }
    components["scale_up_network"] = {"method": "none"}
    node_set = {
        "system_node_ensemble_id": 3,
        "nodes_provisioned": 1,
        "power_method": "component_sum",
        "components": components,
    }
    found = read_power(
        tmp_path,
        None if cores is None else {3: float(cores)},
        node_sets=[node_set],
        scale_out={"present": False},
    )
    assert found.watts == (None if watts is None else pytest.approx(1.5 * watts))
    assert [*found.estimates.values()] == ([] if watts is None else [watts])


def test_network_parts_without_power_are_estimated_or_missing(tmp_path: Path) -> None:
    node_set = {
        "system_node_ensemble_id": 0,
        "nodes_provisioned": 2,
        "power_method": "published_system",
        "published_power": {"value_kw": 10},
    }
    nics = {"counted": True, "count_per_node": 4, "excluded_from_published_power": "https://a.b"}
    fabric = {"present": True, "cabling": "active_optical", "nics": nics}
    for model, watts in (("SN5610", 20_000 + 2 * 4 * 75 * 1.5 + 2080), ("SN5400", None)):
        fabric["switches"] = [{"model": model, "count": 1}]
        found = read_power(tmp_path, node_sets=[node_set], scale_out=fabric)
        assert found.watts == (None if watts is None else pytest.approx(watts))
        assert "scale_out.nics.tdp_per_nic" in found.estimates
    assert [*found.missing] == ["scale_out.switches.power_per_switch"]


def combine_parts(components: dict[str, Any]) -> dict[str, Any]:
    """State processors and accelerators as one power of a node, beside their numbers."""
    for name in ("cpu", "accelerator"):
        del components[name]["tdp_per_unit"]
    return components | {"combined_cpu_accelerator": quote_watts(6300)}


def test_a_combined_power_beside_numbers_of_parts_raises_no_alarm(tmp_path: Path) -> None:
    combine = edit_power("node_sets", 0, "components", value=combine_parts)
    assert judge(tmp_path / "numbers", state_more, combine) == ()
    stated = edit_part("cpu", "tdp_per_unit", value=quote_watts(350))
    found = judge(tmp_path / "twice", combine, stated)
    assert list_rules(found, Severity.ERROR) == {"endpoints.power"}


def test_an_honest_system_of_several_nodes_raises_no_alarm(tmp_path: Path) -> None:
    assert judge(tmp_path, *provision_nodes(4, 4)) == ()


def test_a_network_without_rated_adapters_is_named(tmp_path: Path) -> None:
    edit = edit_power("scale_out", "nics", "tdp_per_nic", value=None)
    (found,) = judge(tmp_path, *provision_nodes(4, 4), edit)
    assert (found.severity, found.found) == (Severity.WARNING, "no scale_out.nics.tdp_per_nic")


FABRICS: dict[str, tuple[list[Edit], Severity]] = {
    "nodes that nothing joins": (provision_nodes(2, 2, present=False), Severity.ERROR),
    "nodes that the accelerators' network may join": (
        [
            *provision_nodes(2, 2, present=False),
            edit_part(
                "scale_up_network",
                value={
                    "method": "declared_tdp",
                    "switch_count": 1,
                    "tdp_per_switch": quote_watts(800),
                },
            ),
        ],
        Severity.WARNING,
    ),
    "adapters that are not counted": (
        [*provision_nodes(2, 2), edit_power("scale_out", "nics", "counted", value=False)],
        Severity.ERROR,
    ),
    "no switches": (
        [*provision_nodes(2, 2), edit_power("scale_out", "switches", value=None)],
        Severity.WARNING,
    ),
}


@pytest.mark.parametrize("name", FABRICS)
def test_a_network_that_is_left_out_is_found(tmp_path: Path, name: str) -> None:
    edits, severity = FABRICS[name]
    (found,) = judge(tmp_path, *edits)
    assert (found.rule, found.severity) == ("endpoints.power", severity)


def use_nodes(concurrency: int, nodes: int) -> Edit:
    used = [{"system_node_ensemble_id": 0, "nodes": nodes}]
    return edit_point(concurrency, "nodes_used", value=used)


def run_replicas(root: Path, replicas: int = 2) -> None:
    """Run fewer replicas than there is room for at one point, and say so."""
    path = root / HOME / "deepseek-r1" / "r64" / "system_desc.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data_parallel": replicas}))
    shortfall = {"dp_actual": replicas, "dp_formula": 4, "reason": "invented"}
    edit_point(64, "dp_shortfall", value=shortfall)(root)


@pytest.mark.parametrize(("nodes", "broken"), [(1, True), (2, False), (4, False)])
def test_nodes_in_use_hold_all_replicas(tmp_path: Path, nodes: int, broken: bool) -> None:
    """Fewer nodes would double the figure per kilowatt."""
    found = judge(tmp_path, *provision_nodes(4, 4), run_replicas, use_nodes(64, nodes))
    assert [each.rule for each in found] == ["endpoints.nodes_used"] * broken
    assert all(each.severity is Severity.ERROR for each in found)


def test_described_accelerators_of_published_nodes_are_a_warning(tmp_path: Path) -> None:
    publish = edit_power(
        "node_sets",
        0,
        value=lambda each: {
            **{name: value for name, value in each.items() if name != "components"},
            "power_method": "published_system",
            "published_power": quote_watts(8190),
        },
    )
    (found,) = judge(tmp_path, *provision_nodes(4, 4), publish, use_nodes(64, 3))
    assert (found.rule, found.severity) == ("endpoints.nodes_used", Severity.WARNING)
