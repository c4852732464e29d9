"""What may be done to a compliance test's files, and that the judge sees it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import EXAMPLES
from kinds.audits import BASES, TESTS, audited
from spoiling import put, setting, swap
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.podium.audited import RULES_REPLACED_BY_SETTING, collect_replaced_rules
from compliance.rules import load_rules
from compliance.verdict import Severity, Verdict, compute_verdict
from suite.audits.names import AuditTest
from suite.files.layout import (
    AUDIT_CONFIG,
    AUDIT_RECORD,
    DETAIL_LOG,
    RUN_RECORD,
    SYSTEM_RECORD,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
)

NETWORKED = EXAMPLES / "base/networked"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with TEST04 of two turns."""
    BASES["audited"](tmp_path)
    return tmp_path


def test(root: Path) -> Path:
    (found,) = root.glob("open/acme/compliance/*/*/Offline/TEST0*")
    return found


test.__test__ = False  # type: ignore[attr-defined]


def errors(root: Path) -> set[str]:
    return {
        finding.rule
        for finding in Judge().judge_path(str(root)).findings
        if finding.severity == "error"
    }


def test_settings_that_a_file_claims_switch_no_rule_off(tree: Path) -> None:
    """Who writes a seed into audit.config would else have the rules about seeds passed over."""
    config = test(tree) / AUDIT_CONFIG
    config.write_text(config.read_text() + "*.*.qsl_rng_seed = 1\n")
    for run in test(tree).glob("performance/run_*"):
        setting("effective_qsl_rng_seed", 1)(run / DETAIL_LOG)
    assert "audit.settings" in errors(tree)


@pytest.mark.parametrize(
    "more", [{"passed": True}, {"ratio": 1.0}, {"settings": {}}, {"scenario": "Offline"}]
)
def test_a_record_that_states_an_outcome_is_refused(tree: Path, more: dict[str, object]) -> None:
    """The runs alone give it: a figure beside them could say anything."""
    put(**more)(test(tree) / AUDIT_RECORD)
    assert "file.shape" in errors(tree)


def test_a_system_of_this_machine_is_no_audit_of_a_remote_one(tree: Path) -> None:
    """Neither is a remote one an audit of a system of this machine."""
    between = json.loads(next(NETWORKED.rglob("run.json")).read_text())["network"]
    assert "audit.result" not in errors(tree)
    for run in test(tree).glob("performance/run_*"):
        put(network=between)(run / RUN_RECORD)
    assert "audit.result" in errors(tree)


def test_words_of_success_are_not_believed(tmp_path: Path) -> None:
    """MLCommons' checker looks for TEST PASS alone."""
    audited(AuditTest.TEST04, faster=4.0)(tmp_path)
    (test(tmp_path) / VERIFY_PERFORMANCE).write_text("TEST PASS\n")
    assert "audit.told" in errors(tmp_path)


def test_a_failed_test_is_a_finding_and_the_result_keeps_its_verdict(tmp_path: Path) -> None:
    """An audit on a busy machine destroyed a valid result."""
    audited(AuditTest.TEST04, faster=4.0)(tmp_path)
    judged = Judge().judge_path(str(tmp_path / "open" / "acme"))
    found = {each.rule: each for each in judged.findings if each.rule.startswith("audit.")}
    assert found.keys() == {"audit.failed", "audit.speed"}
    others = [each for each in judged.findings if each.rule != "loadgen.duration"]
    assert compute_verdict(others) is Verdict.VALID  # such fast runs end too early
    assert {each.severity for each in found.values()} == {Severity.WARNING}
    assert found["audit.failed"].found == "Offline TEST04 failed"
    assert found["audit.speed"].found == (
        "16 samples/s against 4 samples/s in the reference runs, 4.00 times the speed"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TEST FAIL", "TEST PASS"),
        (r"ratio = [0-9.]+", "ratio = 1.0"),
        (r"test score = [0-9.]+", "test score = 4.0"),
        (r"reference score = [0-9.]+", "reference score = 9.0"),
        ("2 runs", "5 runs"),
        ("samples_per_second", "latency_ns"),
    ],
)
def test_an_edited_text_of_a_failed_test_is_broken(tmp_path: Path, old: str, new: str) -> None:
    """What the runs came to is not for its reader to choose."""
    audited(AuditTest.TEST04, faster=4.0)(tmp_path)
    swap(old, new)(test(tmp_path) / VERIFY_PERFORMANCE)
    assert "audit.told" in errors(tmp_path)


@pytest.mark.parametrize(
    ("base", "old", "new"),
    [
        ("audited-answers", r"entries = \d+", "entries = 1"),
        ("audited-answers", r"mismatch = 0", "mismatch = 1"),
        ("audited-answers", "TEST PASS", "TEST FAIL"),
        ("audited-tokens", "EOS check pass: True", "EOS check pass: Skipped"),
        ("audited-tokens", "complete", "failed"),
    ],
)
def test_an_edited_text_about_answers_is_broken(
    tmp_path: Path, base: str, old: str, new: str
) -> None:
    BASES[base](tmp_path)
    assert "audit.told" not in errors(tmp_path)
    swap(old, new)(test(tmp_path) / VERIFY_ACCURACY)
    assert "audit.told" in errors(tmp_path)


def test_a_run_that_was_invalid_fails_the_test(tree: Path) -> None:
    """A test that passed had only VALID runs: the words of success say more than its logs."""
    for run in test(tree).glob("reference/run_2"):
        setting("result_validity", "INVALID")(run / DETAIL_LOG)
    assert "audit.told" in errors(tree)


def test_a_run_without_its_figure_is_not_passed_over(tmp_path: Path) -> None:
    """Who deletes the figure of one run would else have none compared."""
    audited(AuditTest.TEST04, faster=4.0)(tmp_path)
    log = test(tmp_path) / "performance" / "run_1" / DETAIL_LOG
    log.write_text(
        "".join(
            line
            for line in log.read_text().splitlines(True)
            if "result_samples_per_second" not in line
        )
    )
    assert "audit.speed" in errors(tmp_path)


def test_a_run_with_other_settings_than_the_results_is_refused(tree: Path) -> None:
    """Another system was audited."""
    put_system(**{"settings__batching.max_batch": 7})(test(tree) / SYSTEM_RECORD)
    assert "audit.result" in errors(tree)


def test_a_run_of_another_system_than_the_tests_is_refused(tree: Path) -> None:
    """The record of the test's system says nothing of that run."""
    put(system_sha256="7b" * 32)(next(test(tree).glob("performance/run_*")) / RUN_RECORD)
    assert "audit.result" in errors(tree)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("system_sha256", "ab" * 32),
        ("rules", "v9.9"),
    ],
)
def test_a_record_of_another_result_is_refused(tree: Path, field: str, value: str) -> None:
    """An audit of one checkpoint says nothing of another."""
    put(**{field: value})(test(tree) / AUDIT_RECORD)
    assert errors(tree) & {"audit.result", "audit.settings"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("nonce", "ff" * 16), ("checkpoint_sha256", "ab" * 32), ("workload", "x"), ("threads", 7)],
)
def test_a_test_of_another_system_is_refused(tree: Path, field: str, value: object) -> None:
    """With its own runs in agreement, it still is not of this result."""
    put_system(**{field: value})(test(tree) / SYSTEM_RECORD)
    assert errors(tree) & {"audit.result", "audit.settings", "tree.installed"}


def test_a_run_at_another_rate_than_the_results_is_refused(tree: Path) -> None:
    """A slower Server has shorter latencies in every run."""
    setting("requested_min_query_count", 7)(test(tree) / "performance" / "run_2" / DETAIL_LOG)
    assert "audit.result" in errors(tree)


def test_answers_to_other_samples_than_the_one_that_is_issued_are_seen(tree: Path) -> None:
    """The run issued something else than its settings say."""
    for run in test(tree).glob("performance/run_*"):
        setting("effective_performance_issue_same_index", 4)(run / DETAIL_LOG)
    assert "audit.settings" in errors(tree)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.rename(path.with_name("TEST02")),
        lambda path: path.rename(path.with_name("TEST05")),
        lambda path: (path / AUDIT_RECORD).unlink(),
        lambda path: (path / AUDIT_CONFIG).unlink(),
    ],
)
def test_a_test_that_lacks_its_name_or_its_files_is_refused(
    tree: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(test(tree))
    assert errors(tree)


def test_a_test_without_its_result_is_refused(tree: Path) -> None:
    """A folder that belongs to nothing would be packed unread."""
    (found,) = tree.glob(TESTS)
    found.rename(found.with_name("Server"))
    assert "audit.result" in errors(tree)


def test_a_test_is_judged_wherever_it_is_pointed_at(tree: Path) -> None:
    """A path inside a test means the result that it is about."""
    for path in (test(tree), test(tree) / AUDIT_RECORD, test(tree).parent, tree / "open" / "acme"):
        assert Judge().judge_path(str(path)).verdict is Verdict.VALID
    swap("TEST PASS", "TEST FAIL")(test(tree) / VERIFY_PERFORMANCE)
    assert Judge().judge_path(str(test(tree))).verdict is Verdict.BROKEN


def test_only_rules_that_are_there_are_replaced() -> None:
    """A rule that was renamed would hold for tests again, and refuse all of them."""
    assert (
        collect_replaced_rules(dict.fromkeys(RULES_REPLACED_BY_SETTING))
        <= load_rules("podium").keys()
    )
