"""Submissions of curves to MLPerf Endpoints: honest ones are valid, one edit of a number or a file
makes each of them broken, and every part of one can be judged.
"""

import json
import shutil
from pathlib import Path

import pytest
from kinds.curve_edits import (
    CURVE,
    EDITS,
    HARMLESS,
    ROUNDED,
    Edit,
    change_summary,
)
from kinds.endpoints_curves import (
    DATA_SET,
    SUMMARY,
    copy_organisation,
    edit_point,
    quote_watts,
    state_more,
    submission,
)

from compliance.judge import Judge
from compliance.kinds.endpoints_curve.documents.power import SystemPower, read_system_power
from compliance.verdict import PathJudgement, Severity, Verdict
from suite import registry

ROUND = "endpoints-v1.0"


def submit(folder: Path, edit: Edit | None = None, curve: str = "elected") -> Path:
    submission(edit, curve)(folder)
    return folder / "acme" / "s1"


def judge(path: Path) -> PathJudgement:
    return Judge().judge_path(str(path))


def list_rules(result: PathJudgement, severity: Severity = Severity.ERROR) -> set[str]:
    found = {each.rule for each in result.findings if each.severity is severity}
    return {each.removeprefix("endpoints.") for each in found}


@pytest.mark.parametrize("curve", ["elected", "dedicated", "agentic"])
def test_an_honest_submission_raises_no_alarm(tmp_path: Path, curve: str) -> None:
    result = judge(submit(tmp_path, curve=curve))
    assert (result.round, result.findings) == (ROUND, ())
    assert {str(each.kind) for each in result.results} == {"point", "curve"}


@pytest.mark.parametrize("curve", ["elected", "dedicated", "agentic"])
def test_stated_figures_of_an_honest_submission_raise_no_alarm(tmp_path: Path, curve: str) -> None:
    assert judge(submit(tmp_path, state_more, curve)).findings == ()


def test_every_part_of_a_submission_is_judged(tmp_path: Path) -> None:
    root = submit(tmp_path, edit_point(30, "seed_set", value="B"))
    broken = (
        root.parent.parent,
        root.parent,
        root,
        root / "results",
        root / "results" / "box",
        root / CURVE,
        root / CURVE / "r30",
        root / CURVE / "r30" / SUMMARY,
    )
    for path in broken:
        result = judge(path)
        assert (result.round, result.verdict) == (ROUND, Verdict.BROKEN), path
        assert "seed_set" in list_rules(result)
    assert judge(root / CURVE / "r64").verdict is Verdict.VALID
    assert judge(root / CURVE / "r64" / "point.yaml").verdict is Verdict.VALID


def test_a_tree_of_version_0_7_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "acme" / "systems").mkdir(parents=True)
    (tmp_path / "acme" / "systems" / "box.json").write_text("{}")
    points = tmp_path / "acme" / "pareto" / "box" / "deepseek-r1" / "points"
    points.mkdir(parents=True)
    (points / "point_8.yaml").write_text("concurrency: 8\n")
    assert judge(tmp_path).verdict is Verdict.UNKNOWN


def test_a_curve_without_disclosures_does_not_disappear(tmp_path: Path) -> None:
    """Beside a whole one it was passed over, and the submission was valid."""
    root = submit(tmp_path)
    shutil.copytree(root / "results" / "box", root / "results" / "other")
    for each in (root / "results" / "other").rglob("point.yaml"):
        each.unlink()
    result = judge(root)
    assert result.verdict is Verdict.BROKEN
    assert any(
        "/other/" in str(each.file) for each in result.findings if each.rule == "file.present"
    )


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found(tmp_path: Path, name: str) -> None:
    edit, rule = EDITS[name]
    result = judge(submit(tmp_path, edit))
    assert result.verdict is Verdict.BROKEN
    assert rule in list_rules(result)


def test_briefer_answers_at_one_point_are_a_warning(tmp_path: Path) -> None:
    """The same prompts, and half of the tokens in half of the time."""
    result = judge(submit(tmp_path, curve="brief"))
    (found,) = result.findings
    assert (found.rule, found.severity) == ("endpoints.output_lengths", Severity.WARNING)
    assert found.file.endswith(f"r64/{SUMMARY}")


@pytest.mark.parametrize("name", HARMLESS)
def test_what_the_rules_leave_open_is_a_warning(tmp_path: Path, name: str) -> None:
    edit, rule = HARMLESS[name]
    result = judge(submit(tmp_path, edit))
    assert result.verdict is Verdict.VALID
    assert list_rules(result, Severity.WARNING) == {rule}


@pytest.mark.parametrize("name", ROUNDED)
def test_other_ways_to_write_the_same_raise_no_alarm(tmp_path: Path, name: str) -> None:
    assert judge(submit(tmp_path, ROUNDED[name])).findings == ()


DAMAGE = {
    "empty": b"",
    "cut": b'{"a": 1',
    "a list": b"[1]",
    "NaN": b'{"concurrency": NaN, "duration_ns": NaN}',
    "beyond 64 bits": b'{"concurrency": 18446744073709551617, "n_samples_issued": 1}',
    "deep": b"[" * 100_000,
    "an alias": b"a: &a [1]\nb: *a\n",
    "a tag": b"a: !!python/object:os.system [x]\n",
    "a key twice": b'{"score": 1, "score": 2}',
    "bytes": b"\xff\xfe\x00",
}
FILES = ("point.yaml", SUMMARY, "system_desc.json", "accuracy_results.json")


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_found(tmp_path: Path, name: str, damage: str) -> None:
    root = submit(tmp_path)
    (root / CURVE / "r30" / name).write_bytes(DAMAGE[damage])
    assert judge(root).verdict is Verdict.BROKEN


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_power_is_found(tmp_path: Path, damage: str) -> None:
    root = submit(tmp_path)
    (root / "results" / "box" / "system_power.json").write_bytes(DAMAGE[damage])
    result = judge(root)
    assert result.findings and result.verdict in (Verdict.BROKEN, Verdict.VALID)


def test_links_are_found_and_not_followed(tmp_path: Path) -> None:
    root, other = submit(tmp_path), tmp_path / "secret"
    other.write_text("{}")
    path = root / CURVE / "r30" / "server.log"
    path.symlink_to(other)
    (found,) = judge(root).findings
    assert (found.rule, found.file) == ("endpoints.links", str(path))


def read_power(folder: Path, **values: object) -> SystemPower:
    path = folder / "system_power.json"
    path.write_text(json.dumps(values))
    rules = registry.load_endpoints_round(ROUND).power
    return read_system_power(path, "liquid to the rack, air in it", rules, required=True)


def test_power_is_added_up_from_components(tmp_path: Path) -> None:
    """The example of the documentation: (700 + 5600 + 3500) W and 30 % for liquid cooling."""
    found = read_power(
        tmp_path,
        cpu={"num_cpu": 2, "tdp_per_cpu": 350},
        accelerator={"num_accelerator": 8, "tdp_per_accelerator": 700},
        scale_up_network={"num_switches": 1, "tdp_per_switch": 3500},
    )
    assert found.watts == pytest.approx(12_740)
    assert found.compute_point_kw({}) == pytest.approx(12.74)


def test_power_is_added_up_from_sets_of_nodes(tmp_path: Path) -> None:
    """Two built from components, of which a point uses one, four published, switches for both."""
    node = {
        "cpu": {"count_per_node": 2, "tdp_per_unit": quote_watts(350)},
        "accelerator": {"count_per_node": 8, "tdp_per_unit": quote_watts(700)},
        "scale_up_network": {
            "method": "bandwidth_estimate",
            "aggregate_bandwidth_tbps": 14.4,
            "energy_per_bit_pj": {"value_pj": 5.0},
        },
    }
    found = read_power(
        tmp_path,
        cooling="air",
        node_sets=[
            {
                "system_node_ensemble_id": 0,
                "nodes_provisioned": 2,
                "power_method": "component_sum",
                "components": node,
            },
            {
                "system_node_ensemble_id": 1,
                "nodes_provisioned": 4,
                "power_method": "node_scaling",
                "published_power": {"value_kw": 16},
                "nodes_in_published_rack": 8,
            },
        ],
        scale_out={
            "present": True,
            "nics": {"counted": True, "count_per_node": 2, "tdp_per_nic": quote_watts(75)},
            "switches": [{"count": 2, "power_per_switch": quote_watts(900)}],
        },
    )
    of_set = 1.5 * (700 + 5600 + 576 + 150)
    assert found.watts == pytest.approx(2 * of_set + 8000 + 1800)
    assert found.compute_point_kw({0: 1.0}) == pytest.approx((of_set + 8000 + 1800 * 5 / 6) / 1000)


def test_a_declared_power_counts_alone(tmp_path: Path) -> None:
    rack = read_power(tmp_path, rack_power_w=140_000, rack_nodes=18, submitted_nodes=9)
    assert rack.watts == pytest.approx(70_000)
    assert read_power(tmp_path, provisioned_power_w=5000, cpu={}).watts == 5000
    missing = read_power(tmp_path, cpu={"num_cpu": 2}, accelerator={"num_accelerator": 0})
    assert missing.watts is None and list(missing.missing) == ["cpu", "scale_up_network"]


def test_regions_are_those_of_the_rules() -> None:
    round = registry.load_endpoints_round(ROUND)
    for c_min, c_max, ends in ((32, 8192, (52, 437)), (1, 256, (7, 41)), (10, 1000, (20, 109))):
        found = round.compute_regions(c_min, c_max)
        assert found is not None and (found.low_end, found.medium_end) == ends
    assert round.compute_regions(33, 64) is None and round.compute_regions(1, 32) is None


@pytest.mark.parametrize(
    ("c_max", "end"), [(100, 111), (110, 122), (250, 275), (256, 282), (1000, 1100)]
)
def test_the_margin_ends_where_the_rules_code_ends_it(c_max: int, end: int) -> None:
    """In floating point 1.10 * 100 is above 110."""
    found = registry.load_endpoints_round(ROUND).compute_regions(1, c_max)
    assert found is not None and found.margin_end == end
    assert (found.find_region(end), found.find_region(end + 1)) == ("margin", None)


def set_offline_concurrency(root: Path) -> None:
    home = root / CURVE / f"r{DATA_SET}"
    path = home.rename(home.with_name("r512")) / "point.yaml"
    path.write_text(path.read_text().replace(f"concurrency: {DATA_SET}", "concurrency: 512"))


def test_the_offline_run_has_the_concurrency_of_its_data_set(tmp_path: Path) -> None:
    """It is no value to choose, although the checker asks for no more than C_max."""
    result = judge(submit(tmp_path, set_offline_concurrency, "dedicated"))
    assert result.verdict is Verdict.BROKEN
    assert [each.rule for each in result.findings] == ["endpoints.whole_passes"]


def test_each_open_question_names_a_rule() -> None:
    from compliance.rules import load_rules

    known = load_rules(registry.load_round_kind(ROUND).name)
    asked = registry.load_endpoints_round(ROUND).open
    assert asked and all(each.rule in known for each in asked.values())


def test_two_submissions_are_judged_apart(tmp_path: Path) -> None:
    root = submit(tmp_path)
    other = Path(shutil.copytree(root, root.parent / "s2"))
    edit_point(64, "seed_set", value="B")(other)
    result = judge(root.parent)
    assert {each.file.split("/")[-6] for each in result.findings} == {"s2"}


def test_a_run_of_another_organisation_is_found_at_both(tmp_path: Path) -> None:
    """Each alone is valid; together, nothing shows whose the runs are."""
    root = submit(tmp_path, copy_organisation)
    assert judge(root).verdict is judge(tmp_path / "zcorp").verdict is Verdict.VALID
    result = judge(tmp_path)
    assert (result.verdict, list_rules(result)) == (Verdict.BROKEN, {"copied_run"})
    assert {each.file.split("/")[-7] for each in result.findings} == {"acme", "zcorp"}
    assert len(result.findings) == 2 * 7


def test_an_edit_does_not_hide_a_copied_run(tmp_path: Path) -> None:
    """Totals tell a run whose summary has other bytes."""
    submit(tmp_path, copy_organisation)
    other = tmp_path / "zcorp" / "s1"
    change_summary("version", value="0.1.1")(other)
    shutil.rmtree(tmp_path / "acme" / "s1" / CURVE / "r30")
    found = {each.file.split("/")[-2] for each in judge(tmp_path).findings if "copied" in each.rule}
    assert found == {"r1", "r6", "r16", "r64", "r128", "r256"}


def test_a_run_that_an_organisation_submits_again_is_a_warning(tmp_path: Path) -> None:
    root = submit(tmp_path)
    shutil.copytree(root, root.parent / "s2")
    result = judge(root.parent)
    assert (result.verdict, list_rules(result, Severity.WARNING)) == (Verdict.VALID, {"copied_run"})
    assert {each.file.split("/")[-6] for each in result.findings} == {"s2"}
