"""Comparisons: what stands beside what, how many times as fast, and why two results may not be
compared.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compliance.verdict import Finding
from submissions.commands.compare import compare
from submissions.pack.bundle import pack_results
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario

pytestmark = pytest.mark.usefixtures("objections")

SET = Path("open", "acme", "results", "host-torch-bf16", "resnet")
SERVED = Path("open", "acme", "results", "host-torch-fp32", "resnet50")


BETA = "beta" * 8
"""The nonce of another campaign."""


def compared(*paths: Path) -> dict[str, Any]:
    result = CliRunner().invoke(compare, [*map(str, paths), "--format", "json"])
    return {row["scenario"] or "training": row for row in json.loads(result.stdout)["comparisons"]}


def reasons(*paths: Path, what: str = "Offline") -> str:
    return "; ".join(compared(*paths)[what]["results"][-1]["reasons"])


@pytest.fixture
def other(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    """A second campaign, alike."""
    return make_tree(tmp_path / "other", org="beta", nonce=BETA)


def test_higher_throughput_and_lower_latency_and_fewer_minutes_are_all_faster(
    results: Path, other: Path, make_log: Callable[..., None]
) -> None:
    for path in other.rglob("performance/run_1/mlperf_log_detail.txt"):
        path.write_text(
            path.read_text()
            .replace("202.5", "405")
            .replace("101.25", "50.625")
            .replace("1600000", "800000")
        )
    make_log(
        other / "open" / "beta" / "results" / "host-torch-bf16" / "resnet" / "result_0.txt",
        minutes=4.0,
        campaign_nonce=BETA,
    )
    found = compared(results, other)
    assert {what: row["results"][1]["ratio"] for what, row in found.items()} == {
        "training": 0.5,
        "Offline": 2.0,
        "Server": None,
        "SingleStream": 2.0,
        "MultiStream": 1.0,
    }
    assert all(row["comparable"] and row["results"][0]["ratio"] == 1.0 for row in found.values())


def test_rates_that_were_asked_for_have_no_ratio(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Server's rate is a setting; twice the rate is not twice the system."""
    rates: dict[str, Any] = {"server.target_qps": 41.0, "data.picture_size": 32}
    other = make_tree(tmp_path / "other", org="beta", nonce=BETA, settings=rates)
    _, row = compared(results, other)["Server"]["results"]
    assert row["ratio"] is None and row["verdict"] == "not tested" and row["reasons"] == []
    assert row["why"] == (
        "run at requested rates, a share of a probe's rate and 41 samples/s; neither was "
        "searched for"
    )


def test_a_bundle_stands_beside_a_folder(results: Path, other: Path, tmp_path: Path) -> None:
    bundle = pack_results(other, tmp_path / "x.tar.zst")
    assert [result["path"] for result in compared(results, bundle)["Server"]["results"]] == [
        str(results),
        str(bundle),
    ]


@pytest.mark.parametrize(("field", "value"), [("profile", "quick"), ("round", "inference-v0.7")])
def test_rounds_and_profiles_are_never_compared(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path], field: str, value: str
) -> None:
    other = make_tree(tmp_path / "other", scenarios=(Scenario.OFFLINE,), **{field: value})
    assert f"{field}: {'smoke' if field == 'profile' else 'podium-v1'} and {value}" in reasons(
        results, other
    )
    assert compared(results, other)["Offline"]["results"][1]["ratio"] is None


def test_divisions_are_not_compared(results: Path, other: Path) -> None:
    (other / "open").rename(other / "closed")
    assert "division: open and closed" in reasons(results, other)


def test_other_data_is_not_compared(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    other = make_tree(
        tmp_path / "other", settings={"data.picture_size": 64, "batching.max_batch": 8}
    )
    assert reasons(results, other) == "data.picture_size: 32 and 64"


def test_another_target_is_not_compared(
    results: Path, other: Path, make_log: Callable[..., None]
) -> None:
    make_log(
        other / "open" / "beta" / "results" / "host-torch-bf16" / "resnet" / "result_0.txt",
        quality_target={"top1": 0.5},
    )
    assert "target" in reasons(results, other, what="training")


def test_a_checkpoint_below_the_target_is_not_compared(results: Path, other: Path) -> None:
    for path in other.rglob("*_podium_Offline.json"):
        path.write_text(path.read_text().replace("0.8", "0.5"))
    assert "checkpoint with top1 0.5000, below the target of 0.7590" in reasons(results, other)


def test_a_missing_scenario_is_said(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    other = make_tree(tmp_path / "other", scenarios=(Scenario.OFFLINE,))
    found = compared(results, other)
    assert found["Server"]["results"][1]["notes"] == ["has no result of this kind"]
    assert found["Server"]["results"][1]["reasons"] == []
    assert not found["Server"]["comparable"], "one alone is compared with nothing"
    assert found["Offline"]["comparable"]


def test_precision_engine_and_checkpoint_may_differ_and_are_said(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    other = make_tree(tmp_path / "other", precision="bf16", engine="onnxruntime")
    for path in other.rglob("*_podium_Offline.json"):
        path.write_text(path.read_text().replace("0.8", "0.9"))
    _, row = compared(results, other)["Offline"]["results"]
    assert row["notes"] == [
        "precision: fp32 and bf16",
        "engine: torch and onnxruntime",
        "checkpoint quality: top1 0.8000 and top1 0.9000",
    ]
    assert row["ratio"] == 1.0


def test_what_the_judge_refuses_is_compared_with_nothing(
    results: Path, other: Path, objections: list[Finding], objection: Finding
) -> None:
    objections.append(objection)
    assert "the first is not compliant; this is not compliant" in reasons(results, other)
    with pytest.raises(JudgedError, match="is not compliant"):
        CliRunner().invoke(compare, [str(results), str(other)], catch_exceptions=False)


def test_a_set_without_a_mean_is_compared_with_nothing(
    results: Path, other: Path, make_log: Callable[..., None]
) -> None:
    make_log(
        other / "open" / "beta" / "results" / "host-torch-bf16" / "resnet" / "result_0.txt",
        status="aborted",
    )
    assert "no mean" in reasons(results, other, what="training")


def test_the_table_says_why(results: Path, tmp_path: Path, make_tree: Callable[..., Path]) -> None:
    other = make_tree(tmp_path / "other", profile="quick")
    text = (
        CliRunner()
        .invoke(compare, [str(results), str(other)], catch_exceptions=False, env={"COLUMNS": "220"})
        .stdout
    )
    assert "profile: smoke and quick" in text
    assert "1.60 ms" in text


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\x28\xb5\x2f\xfdmore"])
def test_a_path_that_is_no_result_is_told_and_the_rest_is_shown(
    results: Path, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "x.tar.zst"
    if content is not None:
        path.write_bytes(content)
    outcome = CliRunner().invoke(compare, [str(results), str(path), "--format", "json"])
    assert isinstance(outcome.exception, JudgedError)
    assert len(json.loads(outcome.stdout)["comparisons"]) == 5


@pytest.mark.parametrize("victim", ["result_0.txt", "run.json", "mlperf_log_detail.txt"])
def test_garbage_in_place_of_a_log_is_told(results: Path, other: Path, victim: str) -> None:
    for path in other.rglob(victim):
        path.write_bytes(b"\xff\0{")
    outcome = CliRunner().invoke(compare, [str(results), str(other)])
    assert isinstance(outcome.exception, JudgedError)
    assert outcome.stdout


def test_one_campaign_under_two_names_is_not_compared(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Another organisation's campaign, renamed; or the same one, with a figure that was edited."""
    other = make_tree(tmp_path / "other", org="beta")
    assert "one campaign under two organisations: acme and beta" in reasons(results, other)
    edited = make_tree(tmp_path / "edited")
    for path in edited.rglob("performance/run_1/mlperf_log_detail.txt"):
        path.write_text(path.read_text().replace("202.5", "405"))
    assert "one campaign with two results" in reasons(results, edited)


def test_a_bundle_that_was_changed_after_it_was_sealed_is_not_compliant(
    results: Path, other: Path, tmp_path: Path
) -> None:
    """Who scores or compares need not have verified."""
    bundle = pack_results(other, tmp_path / "x.tar.zst")
    bundle.write_bytes(bundle.read_bytes()[:-1] + b"\0")
    assert "this is not compliant" in reasons(results, bundle)


def test_what_a_result_ran_on_is_noted(
    results: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Two threads beside 64 are no ratio of engines."""
    other = make_tree(tmp_path / "other", nonce=BETA, threads=64, device="cuda:0")
    _, row = compared(results, other)["Offline"]["results"]
    assert (
        row["notes"][:2] == ["device: cpu and cuda:0", "threads: 2 and 64"] and row["ratio"] == 1.0
    )
