"""What once escaped the judge of published results, each beside what accepted results do."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kinds.training import tree
from making_inference import LOADS, MULTI, OFF, SYSTEM, write_entry
from making_training import describe
from spoiling import put

from compliance.judge import Judge
from compliance.verdict import Severity
from suite.files.layout import ACCURACY_TEXT, DETAIL_LOG


def severities(path: Path, rule: str) -> list[str]:
    return [
        finding.severity.value
        for finding in Judge().judge_path(str(path)).findings
        if finding.rule == rule
    ]


def closed(root: Path) -> Path:
    """An entry of the closed division."""
    return write_entry(root, replace(LOADS[OFF], samples=3003, loaded=3_903_900), division="closed")


@pytest.mark.parametrize(
    ("seed", "expected"), [("3133965575612453542", ["error"]), ("196", ["warning"]), ("195", [])]
)
def test_test05_tests_nothing_with_the_seeds_of_the_result(
    tmp_path: Path, seed: str, expected: list[str]
) -> None:
    entry = write_entry(tmp_path, LOADS[OFF])
    log = next((entry.parents[3] / "audit").rglob(f"TEST05/**/{DETAIL_LOG}"))
    log.write_text(log.read_text().replace("qsl_rng_seed : 195", f"qsl_rng_seed : {seed}"))
    assert severities(entry, "inference-text.audit_settings") == expected


@pytest.mark.parametrize("name", ["ajar", "closd", "network"])
def test_a_folder_that_is_no_division_is_told(tmp_path: Path, name: str) -> None:
    """What lies elsewhere was judged as if it had no division, and valid."""
    entry = write_entry(tmp_path, LOADS[OFF])
    (tmp_path / "open").rename(tmp_path / name)
    assert severities(
        tmp_path / name / entry.relative_to(tmp_path / "open"), "inference-text.division"
    ) == ["error"]
    assert severities(tmp_path / name / "acme", "inference-text.division") == ["error"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("number_of_nodes", -1, ["error"]),
        ("number_of_nodes", "0", ["error"]),
        ("number_of_nodes", "-1", ["error"]),
        ("number_of_nodes", "two", ["warning"]),
        ("number_of_nodes", "1", []),
        ("number_of_nodes", 1.0, []),
        ("host_processors_per_node", 0, ["error"]),
        ("host_processor_core_count", "0", ["error"]),
        ("host_processor_core_count", "-", ["warning"]),
        ("host_processor_core_count", "0.5 of 8", ["warning"]),
        ("accelerators_per_node", 0, []),
        ("accelerators_per_node", "-", []),
        ("accelerators_per_node", -1, ["error"]),
    ],
)
def test_counts_of_a_served_system_are_above_zero(
    tmp_path: Path, field: str, value: object, expected: list[str]
) -> None:
    entry = write_entry(tmp_path, LOADS[OFF])
    path = entry.parents[3] / "systems" / f"{SYSTEM}.json"
    put(**{field: value})(path)
    assert severities(path, "inference-text.system_fields") == expected


@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [("X1", "0", ["warning"]), ("X1", "8", []), ("N/A", 0, []), ("-", "0", []), ("X1", "-", [])],
)
def test_a_named_accelerator_is_counted(
    tmp_path: Path, name: str, count: object, expected: list[str]
) -> None:
    """0 of them gave an entry of eight accelerators nothing to be compared with."""
    fields = {"accelerator_model_name": name, "accelerators_per_node": count}
    entry = write_entry(tmp_path / "served", LOADS[OFF])
    path = entry.parents[3] / "systems" / f"{SYSTEM}.json"
    put(**fields)(path)
    assert severities(path, "inference-text.system_fields") == expected
    tree(lambda home: describe(home, **fields))(tmp_path / "trained")
    assert severities(tmp_path / "trained" / "acme", "org.counts") == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"number_of_nodes": "-1"}, ["error"]),
        ({"number_of_nodes": 0}, ["error"]),
        ({"host_processors_per_node": "0"}, ["error"]),
        ({"accelerators_per_node": "-8"}, ["error"]),
        (
            {
                "accelerators_per_node": "0",
                "accelerator_model_name": "N/A",
                "host_processor_core_count": "-",
                "host_processor_vcpu_count": "0",
            },
            [],
        ),
        ({"host_processor_core_count": "TODO"}, []),
    ],
)
def test_counts_of_a_training_system_are_above_zero(
    tmp_path: Path, fields: dict[str, Any], expected: list[str]
) -> None:
    """Accepted descriptions have 0 virtual processors, and dashes."""
    tree(lambda home: describe(home, **fields))(tmp_path)
    assert severities(tmp_path / "acme", "org.counts") == expected


@pytest.mark.parametrize(
    ("place", "name", "expected"),
    [
        ("performance/run_1", "second_try.txt", ["warning"]),
        ("performance/run_1", "mlperf_log_trace.json", []),
        ("performance/run_1", ".gitkeep", []),
        ("accuracy", "predictions.json", ["warning"]),
    ],
)
def test_another_file_in_a_run(tmp_path: Path, place: str, name: str, expected: list[str]) -> None:
    entry = write_entry(tmp_path, LOADS[OFF])
    (entry / place / name).write_text("{}\n")
    assert severities(entry, "inference-text.strays") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gnmt.Offline.target_qps = 400", []),
        ("*.Offline.target_qps = 900", ["warning"]),
        ("*.Offline.target_qps = 900\ngnmt.Offline.target_qps = 400.0", []),
        ("*.Server.target_qps = 900", []),
        ("*.*.min_duration = 70000", ["warning"]),
        ("*.Offline.target_qps = fast", []),
    ],
)
def test_user_conf_is_that_of_the_runs(tmp_path: Path, line: str, expected: list[str]) -> None:
    entry = closed(tmp_path)
    next((entry.parents[3] / "measurements").rglob("user.conf")).write_text(line + "\n")
    assert severities(entry, "inference-text.used") == expected


def test_in_the_open_division_a_user_conf_of_other_runs_is_a_warning(tmp_path: Path) -> None:
    """Accepted open entries have one that asks for other queries."""
    entry = write_entry(tmp_path, LOADS[MULTI])
    next((entry.parents[3] / "measurements").rglob("user.conf")).write_text(
        "*.MultiStream.samples_per_query = 18\n"
    )
    assert severities(entry, "inference-text.used") == ["warning"]


@pytest.mark.parametrize(
    ("change", "model", "expected"),
    [
        (lambda text: text.replace("23.8", "2380"), "gnmt", ["error"]),
        (lambda text: text.replace("23.8", "0.238"), "gnmt", ["error"]),
        (lambda text: text.replace("23.8", "12.1"), "gnmt", []),
        (lambda text: "mAP=0.20%\n", "ssd-large", ["error"]),
        (lambda text: "mAP=2010%\n", "ssd-large", ["error"]),
    ],
)
def test_a_score_in_the_wrong_unit_is_told_in_either_division(
    tmp_path: Path, change: Callable[[str], str], model: str, expected: list[str]
) -> None:
    """Open results have no threshold, so that a score off by a factor of 100 was valid."""
    entry = write_entry(
        tmp_path, LOADS[OFF], model=model, claim="mAP=20.1%" if model != "gnmt" else "BLEU: 23.8"
    )
    path = entry / "accuracy" / ACCURACY_TEXT
    path.write_text(change(path.read_text()))
    assert severities(entry, "inference-text.score") == expected


def test_an_unknown_field_of_a_description_is_a_warning(tmp_path: Path) -> None:
    """Later rounds have more of them, and no text forbids one."""
    entry = closed(tmp_path)
    put(cooling_fans=3)(entry.parents[3] / "systems" / f"{SYSTEM}.json")
    told = [
        finding
        for finding in Judge().judge_path(str(entry)).findings
        if finding.rule == "inference-text.system_fields"
    ]
    assert [finding.severity for finding in told] == [Severity.WARNING]
