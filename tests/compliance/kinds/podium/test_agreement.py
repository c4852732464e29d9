"""Settings are told in system.json and run.json, in the measurements and beside the checkpoint:
what may differ, and what may not.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import making
import pytest
from examples import EXAMPLES
from making import LOADS, write_run
from spoiling import put, set_value
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.podium.rules.inference.run_record import is_echoed_setting
from compliance.kinds.podium.rules.training.hyperparameters import is_equal_setting
from suite.files.layout import DETAIL_LOG
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario

SERVER = Scenario.SERVER
MEASURED, SYSTEM, ACCURATE, TIMED = (
    "**/*_podium_*.json",
    "**/system.json",
    "**/accuracy/run.json",
    "**/performance/run_1/run.json",
)


def found(path: Path) -> dict[str, str]:
    """Rule -> what was found, of everything but the number of runs."""
    return {
        finding.rule: finding.found
        for finding in Judge().judge_path(str(path)).findings
        if finding.rule not in ("entry.runs", "entry.distinct")
    }


def change(tree: Path, pattern: str, **fields: Any) -> None:
    paths = sorted(tree.glob(pattern))
    assert paths, pattern
    for path in paths:
        (put_system if path.name == "system.json" else put)(**fields)(path)


def set_recorded(tree: Path, pattern: str, key: str, value: object) -> None:
    """Change a setting where a file has it: run.json has those that LoadGen was given."""
    table = "changed" if pattern.endswith("run.json") else "settings"
    change(tree, pattern, **{f"{table}__{key}": value})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A campaign that served Server."""
    return making.write_tree(tmp_path / "results", SERVER)


@pytest.mark.parametrize(
    ("pattern", "key", "value"),
    [
        (SYSTEM, "global_batch_size", 128),
        (SYSTEM, "data.shuffle_labels", True),
        (SYSTEM, "opt_name", "sgd"),
        (SYSTEM, "batching.max_batch", 8),
        (MEASURED, "model_bn_span", 16),
        (MEASURED, "batching.workers", 2),
        (MEASURED, "server.target_qps", 50.0),
        (MEASURED, "server.qps_share", 0.4),
        (MEASURED, "loadgen.min_queries", 460),
    ],
)
def test_a_setting_that_is_told_in_two_ways_is_found(
    tree: Path, pattern: str, key: str, value: object
) -> None:
    """Whoever repeats the run by one of the records would get another result."""
    set_recorded(tree, pattern, key, value)
    assert key in found(tree)["entry.agreement"]


@pytest.mark.parametrize(
    ("pattern", "key", "value"),
    [
        (MEASURED, "server.target_qps", 83.0),
        (MEASURED, "offline.expected_qps", 5.0),
        (MEASURED, "loadgen.min_queries", 459),
        (ACCURATE, "server.qps_share", 0.4),
        (ACCURATE, "multi_stream.expected_latency_us", 17),
    ],
)
def test_what_runs_may_tell_apart_is_accepted(
    tree: Path, pattern: str, key: str, value: object
) -> None:
    """A chosen rate stands in the measurements too; other scenarios' rates, and an accuracy run's,
    have no part in the result.
    """
    set_recorded(tree, pattern, key, value)
    assert found(tree) == {}


def test_an_accuracy_run_of_another_length_is_accepted(tree: Path) -> None:
    """`podium run --set loadgen.min_duration_ms=...` serves the performance runs anew, and keeps
    the accuracy runs.
    """
    change(tree, ACCURATE, **{"changed__loadgen.min_duration_ms": 9000})
    path = next(tree.glob(f"**/accuracy/{DETAIL_LOG}"))
    for key in (
        "requested_min_duration_ms",
        "effective_min_duration_ms",
        "effective_target_duration_ms",
    ):
        set_value(path, key, 9000)
    assert found(tree) == {}


def second(tree: Path, **settings: Any) -> None:
    """Add a performance run whose record has other settings; its detail log is left alone."""
    run = next(tree.glob("**/performance/run_1"))
    shutil.copytree(run, run.with_name("run_2"))
    put(**{f"changed__{key}": value for key, value in settings.items()})(
        run.with_name("run_2") / "run.json"
    )


RETRIED = [
    ("server.target_qps", 80.0, True),
    ("server.qps_share", 0.4, False),
    ("loadgen.min_duration_ms", 6000, False),
]


@pytest.mark.parametrize(("key", "value", "same"), RETRIED)
def test_a_run_that_was_done_once_more_changes_the_rate_alone(
    tree: Path, key: str, value: float, same: bool
) -> None:
    """What the advice names may differ from run to run, and is held against LoadGen's own echo."""
    change(tree, TIMED, **{"changed__server.qps_share": 0.5})
    second(tree, **{key: value})
    rules = found(tree)
    assert ("entry.agreement" not in rules) is same
    assert ("entry.settings" in rules) is (key != "server.qps_share")


@pytest.mark.parametrize(
    ("name", "setting", "told", "right"),
    [
        ("loadgen.min_queries", 270336, 270336.0, True),
        ("loadgen.min_queries", 270335, 270336.0, False),
        ("loadgen.min_queries", 270336.5, 270336.0, False),
        ("loadgen.min_duration_ms", 600001, 600000.0, False),
        ("loadgen.min_queries", None, 64.0, False),
        ("server.target_qps", 251.00827646953059, 251.008, True),
        ("server.target_qps", 251.02, 251.008, False),
        ("server.target_qps", True, 1.0, False),
        ("single_stream.expected_latency_us", 3651, 3651960.0, True),
        ("single_stream.expected_latency_us", 3652, 3651960.0, False),
        ("single_stream.expected_latency_us", 15256, 15257000.0, True),
        ("multi_stream.expected_latency_us", 42, 42081.0, True),
        ("multi_stream.expected_latency_us", 41, 42081.0, False),
        ("offline.expected_qps", "602", 602.0, False),
    ],
)
def test_loadgens_echo_of_a_setting(name: str, setting: object, told: float, right: bool) -> None:
    """Counts to the last one; rates to LoadGen's six digits; microseconds are what is left of
    nanoseconds, as six digits have them.
    """
    assert is_echoed_setting(name, setting, told) is right


PAIRS = [((1, 2), [1, 2], True), ([1, 2], [1, 3], False), (1, True, False), (0, False, False)]


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [*PAIRS, (1, 1.0, True), ("a", "a", True), (None, None, True), (None, 0, False)],
)
def test_settings_are_alike_whatever_list_they_stand_in(
    left: object, right: object, equal: bool
) -> None:
    """JSON has one kind of list, Python two; True is no 1."""
    assert is_equal_setting(left, right) is equal


# ---- the checkpoint's record ----

RECORD = "**/record.json"


CLAIMS = [
    ("settings__opt_name", "sgd", "checkpoint.record"),
    ("settings__more", 1, "checkpoint.record"),
    ("scores", {"top1": 0.99}, "checkpoint.record"),
    ("framework", "other", "facts.agree"),
    ("seed", 5, "facts.agree"),
    ("nonce", "ff" * 16, "facts.agree"),
    ("round", "podium-v0", "facts.agree"),
]


@pytest.mark.parametrize(("field", "value", "rule"), CLAIMS)
def test_a_checkpoint_is_described_as_its_log_has_it(
    tree: Path, field: str, value: object, rule: str
) -> None:
    """What cannot be packed is vouched for by its record: it must not tell another story than the
    log.
    """
    change(tree, RECORD, **{field: value})
    assert set(found(tree)) == {rule}


def test_two_runs_may_come_to_the_same_weights(tree: Path) -> None:
    """The same seed on another system: the record names its own log, and the other one is not held
    against it.
    """
    log = next(tree.glob("**/resnet/result_0.txt"))
    other = Path(str(log).replace("box-torch-bf16", "tower-torch-bf16"))
    other.parent.mkdir(parents=True)
    other.write_text(
        log.read_text()
        .replace("box-torch-bf16", "tower-torch-bf16")
        .replace('"seed", "value": 100', '"seed", "value": 101')
    )
    system = tree / "open" / "acme" / "systems" / "box-torch-bf16.json"
    text = system.read_text().replace("box-torch-bf16", "tower-torch-bf16")
    system.with_name("tower-torch-bf16.json").write_text(text)
    assert "facts.agree" not in found(tree)
    change(tree, RECORD, seed=101)
    assert found(tree)["facts.agree"] == "seed 101"


def test_logs_of_another_tree_are_not_held_against_a_checkpoint(tree: Path, tmp_path: Path) -> None:
    """`podium check A B`: two campaigns of one seed come to the same weights."""
    other = tmp_path / "other"
    shutil.copytree(tree, other)
    for path in other.rglob("*"):
        if path.is_file():
            path.write_text(
                path.read_text()
                .replace('"seed", "value": 100', '"seed", "value": 7')
                .replace('"seed": 100', '"seed": 7')
            )
    judge = Judge()
    for root in (tree, other, tree):
        assert [finding.found for finding in judge.judge_path(str(root)).findings] == []


# ---- the harness ceiling ----


def ceilings(tree: Path, **fields: Any) -> dict[str, str]:
    """Severity -> what entry.ceiling finds, with other values in the performance run's record."""
    change(tree, TIMED, **fields)
    return {
        str(finding.severity): finding.found
        for finding in Judge().judge_path(str(tree)).findings
        if finding.rule == "entry.ceiling"
    }


@pytest.mark.parametrize(
    ("ceiling", "severities"),
    [
        (90_000.0, set()),
        (411.8, set()),
        (401.0, {"warning"}),
        (None, {"warning"}),
        (0.0, {"error"}),
        (-1.0, {"error"}),
    ],
)
def test_a_result_is_held_against_the_ceiling(
    tree: Path, ceiling: float | None, severities: set[str]
) -> None:
    """80.376 samples/s are a fifth of 401.88; a ceiling that was taken out is told."""
    assert set(ceilings(tree, ceiling=ceiling)) == severities


def test_a_rate_above_the_ceilings_share_is_said_once(tree: Path) -> None:
    found = ceilings(tree, ceiling=401.0)["warning"]
    assert found.count("samples/s") == 1


@pytest.mark.parametrize("scenario", [Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM])
def test_a_latency_stands_for_a_rate(tmp_path: Path, scenario: Scenario) -> None:
    """One sample per 9.53 ms, or eight: the share counts samples, as the harness does."""
    tree = making.write_tree(tmp_path / "results", scenario)
    found = read_detail_log(next(tree.glob(TIMED)).parent).require_headline(scenario)
    rate = LOADS[scenario].samples_per_query * 1e9 / found.value
    assert ceilings(tree, ceiling=5 * rate * 1.001) == {}
    assert set(ceilings(tree, ceiling=5 * rate * 0.999)) == {"warning"}


@pytest.mark.parametrize(
    ("second_ceiling", "told"),
    [(90_000.0, False), (179_000.0, False), (181_000.0, True), (44_000.0, True)],
)
def test_ceilings_of_one_system_are_of_one_host(
    tree: Path, second_ceiling: float, told: bool
) -> None:
    """A ceiling that was raised in one record only shows beside the others."""
    second(tree)
    change(tree, "**/run_2/run.json", ceiling=second_ceiling)
    assert ("tree.ceiling" in found(tree)) is told


def test_ceilings_of_two_scenarios_say_nothing_of_one_another(tmp_path: Path) -> None:
    """Offline carries ten times as much as a stream."""
    tree = making.write_tree(tmp_path / "results", Scenario.OFFLINE, SERVER)
    change(tree, "**/Offline/performance/run_1/run.json", ceiling=900_000.0)
    assert found(tree) == {}


def test_examples_hold_settings_at_all() -> None:
    """Two empty tables agree about nothing."""
    (path,) = (EXAMPLES / "base" / "tree").glob("**/system.json")
    assert len(json.loads(path.read_text())["settings"]) > 10


@pytest.mark.parametrize("mode", ["accuracy", "performance"])
def test_a_run_outside_an_entry_needs_no_agreement(tmp_path: Path, mode: str) -> None:
    """There is nothing to compare it with."""
    folder = write_run(
        tmp_path / "Server" / ("accuracy" if mode == "accuracy" else "performance/run_1"),
        LOADS[SERVER],
        mode,
    )
    assert found(folder) == {}
