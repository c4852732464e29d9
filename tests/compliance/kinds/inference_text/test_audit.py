"""Compliance tests of published rounds: a test that failed on bit-exactness may be accepted on
accuracy, and what can be recomputed is.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from making_inference import LOADS, OFF, Load, write_entry, write_run

from compliance.judge import Judge
from suite.audits.filed import recompute_audit_comparison
from suite.files.layout import ACCURACY_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario

FAILED = (
    "num_perf_log_entries = 100\nnum_perf_log_qsl_idx_match = 100\nnum_perf_log_data_mismatch ="
    " 7\nnum_missing_qsl_idxs = 0\nTEST FAIL\n"
)
TRACEBACK = "Verifying accuracy. This might take a while...\nTraceback (most recent call last):\n"
LOG = '[\n{ "seq_id" : 0, "qsl_idx" : 4, "data" : "4A61" }\n]\n'


def outcome(
    root: Path,
    text: str,
    files: Mapping[str, str],
    model: str = "gnmt-of-ours",
    claim: str = "BLEU: 23.8",
    truth: Path | None = None,
) -> list[str]:
    """Judge an entry whose TEST01 says so, with these files in its accuracy/."""
    entry = write_entry(root, LOADS[OFF], model=model, claim=claim)
    test = entry.parents[3].joinpath("audit", *entry.parts[-3:], "TEST01")
    test.mkdir(parents=True)
    (test / "verify_accuracy.txt").write_text(text)
    for name, content in files.items():
        (test / "accuracy").mkdir(exist_ok=True)
        (test / "accuracy" / name).write_text(content)
    findings = Judge(truth=truth).judge_path(str(entry)).findings
    return [
        finding.severity.value
        for finding in findings
        if finding.rule == "inference-text.audit_passed"
    ]


@pytest.mark.parametrize(
    ("text", "files", "expected"),
    [
        (FAILED, {ACCURACY_LOG: LOG}, ["warning"]),
        (FAILED, {"accuracy.txt": "mAP=20.1%\n"}, ["warning"]),
        (FAILED, {"accuracy.txt": "mAP=12.1%\n"}, ["error"]),
        (FAILED, {"accuracy.txt": "hash=0123456789abcdef0123456789abcdef\n"}, ["warning"]),
        (
            FAILED,
            {"baseline_accuracy.txt": "mAP=15.0%\n", "compliance_accuracy.txt": "mAP=14.9%\n"},
            ["warning"],
        ),
        (
            FAILED,
            {"baseline_accuracy.txt": "mAP=15.0%\n", "compliance_accuracy.txt": "mAP=14.0%\n"},
            ["error"],
        ),
        (TRACEBACK, {"accuracy.txt": "mAP=20.1%\n"}, ["warning"]),
        (FAILED, {}, ["error"]),
        (TRACEBACK, {}, ["error"]),
        (
            FAILED.replace("mismatch = 7", "mismatch = 0"),
            {"accuracy.txt": "mAP=20.1%\n"},
            ["error"],
        ),
        (FAILED.replace("mismatch = 7", "mismatch = 0").replace("FAIL", "PASS"), {}, []),
    ],
    ids=[
        "the log alone",
        "a score",
        "a poor score",
        "a hash",
        "as the accuracy run",
        "worse than the accuracy run",
        "a script that died",
        "nothing",
        "a script that died, and nothing",
        "a failure without a difference",
        "passed",
    ],
)
def test_a_test_that_failed_is_accepted_on_the_quality_that_was_filed(
    tmp_path: Path, text: str, files: Mapping[str, str], expected: list[str]
) -> None:
    """Answers of two runs may differ: then the rules ask for their score."""
    assert outcome(tmp_path, text, files, model="ssd-large", claim="mAP=20.0%") == expected


@pytest.mark.parametrize(("right", "expected"), [(80, ["warning"]), (20, ["error"])])
def test_the_quality_is_counted_again_where_labels_are_given(
    tmp_path: Path, right: int, expected: list[str]
) -> None:
    """The answers of the test's own log; a score that was typed beside it does not help."""
    labels = tmp_path / "labels" / "imagenet"
    labels.mkdir(parents=True)
    (labels / "val_map.txt").write_text("".join(f"{sample}.jpg 42\n" for sample in range(100)))
    rows = [
        f'{{ "seq_id" : {sample}, "qsl_idx" : {sample}, "data" :'
        f' "{"2A" if sample < right else "07"}000000" }}'
        for sample in range(100)
    ]
    files = {
        ACCURACY_LOG: "[\n" + ",\n".join(rows) + "\n]\n",
        "accuracy.txt": "accuracy=76.100%, good=76, total=100\n",
    }
    assert (
        outcome(
            tmp_path / "round",
            FAILED,
            files,
            model="resnet",
            claim="accuracy=76.1%",
            truth=tmp_path / "labels",
        )
        == expected
    )


def speeds(
    root: Path, test: str, summary_of: Mapping[str, str], load: Load = LOADS[OFF]
) -> list[str]:
    """Judge an entry with runs of compliance tests; each summary has a text changed."""
    entry = write_entry(root, load)
    tests = entry.parents[3].joinpath("audit", *entry.parts[-3:])
    for name, change in summary_of.items():
        shutil.rmtree(tests / name, ignore_errors=True)
        path = write_run(tests / name / "performance" / "run_1", load) / SUMMARY_LOG
        old, _, new = change.partition(" -> ")
        path.write_text(path.read_text().replace(old, new))
    found = [
        finding
        for finding in Judge().judge_path(str(entry)).findings
        if finding.rule == "inference-text.audit_speed"
    ]
    assert all(f"/{test}/" in finding.file for finding in found)
    return [finding.found for finding in found]


OFFLINE_SCORE = "Samples per second: 400"


@pytest.mark.parametrize(
    ("test", "changes", "alarms"),
    [
        ("TEST01", {"TEST01": f"{OFFLINE_SCORE} -> Samples per second: 361"}, 0),
        ("TEST01", {"TEST01": f"{OFFLINE_SCORE} -> Samples per second: 359"}, 1),
        ("TEST03", {"TEST03": f"{OFFLINE_SCORE} -> Samples per second: 300"}, 1),
        ("TEST05", {"TEST05": f"{OFFLINE_SCORE} -> Samples per second: 450"}, 1),
        (
            "TEST04-B",
            {
                "TEST04-A": f"{OFFLINE_SCORE} -> Samples per second: 200",
                "TEST04-B": f"{OFFLINE_SCORE} -> Samples per second: 210",
            },
            0,
        ),
        ("TEST04-B", {"TEST04-A": f"{OFFLINE_SCORE} -> Samples per second: 200"}, 0),
        (
            "TEST04-B",
            {
                "TEST04-A": f"{OFFLINE_SCORE} -> Samples per second: 200",
                "TEST04-B": f"{OFFLINE_SCORE} -> Samples per second: 230",
            },
            1,
        ),
        (
            "TEST04-B",
            {
                "TEST04-A": f"{OFFLINE_SCORE} -> Samples per second: 500",
                "TEST04-B": f"{OFFLINE_SCORE} -> Samples per second: 300",
            },
            0,
        ),
    ],
)
def test_speeds_of_tests_are_held_against_the_run_they_belong_to(
    tmp_path: Path, test: str, changes: Mapping[str, str], alarms: int
) -> None:
    """Nothing but the logs is read: what a script printed is not there. One sample again and again
    may be slower than different ones.
    """
    assert len(speeds(tmp_path, test, changes)) == alarms


@pytest.mark.parametrize(
    ("latency_ns", "passed"),
    [(91_000_000, True), (109_900_000, True), (89_000_000, False), (110_100_000, False)],
)
def test_limits_of_latencies_are_those_of_the_scripts(latency_ns: int, passed: bool) -> None:
    """A latency of 1.1 times the other passes where a rate of 0.9 times does: not the same share of
    speed.
    """
    found = recompute_audit_comparison(
        "inference-v0.5", "TEST01", Scenario.SINGLE_STREAM, "latency_ns", 100_000_000, latency_ns
    )
    assert found is not None and found.passed is passed


@pytest.mark.parametrize(
    ("name", "test", "highest"),
    [
        ("inference-v0.5", "TEST04-B", 1.1),
        ("inference-v2.0", "TEST04-B", 1.1),
        ("inference-v5.1", "TEST04", 1.1),
        ("inference-v6.1", "TEST06", None),
    ],
)
def test_each_round_has_the_limits_of_its_tests(
    name: str, test: str, highest: float | None
) -> None:
    """TEST06 compares no speeds."""
    found = recompute_audit_comparison(
        name, test, Scenario.OFFLINE, "samples_per_second", 100.0, 100.0
    )
    assert (found and found.highest) == highest


def test_answers_with_another_tail_are_found_where_the_script_saw_none(tmp_path: Path) -> None:
    """The first byte is the accuracy run's, and all that TEST01's script compares of a number that
    is told as bytes.
    """
    entry = write_entry(tmp_path, LOADS[OFF])
    test = entry.parents[3].joinpath("audit", *entry.parts[-3:], "TEST01")
    write_run(test / "performance" / "run_1", LOADS[OFF])
    rows = [
        '{ "seq_id" : 0, "qsl_idx" : 0, "data" : "4A61" }',
        '{ "seq_id" : 1, "qsl_idx" : 17, "data" : "4A62" }',
        '{ "seq_id" : 2, "qsl_idx" : 0, "data" : "4A63" }',
    ]
    (test / "performance" / "run_1" / ACCURACY_LOG).write_text("[\n" + ",\n".join(rows) + "\n]\n")
    (test / "verify_accuracy.txt").write_text(
        FAILED.replace("mismatch = 7", "mismatch = 0").replace("FAIL", "PASS")
    )
    (finding,) = [
        each
        for each in Judge().judge_path(str(entry)).findings
        if each.rule == "inference-text.audit_answers"
    ]
    assert (
        finding.found == "different answers to 2 of 2 samples: 17, 0"
        and finding.severity.value == "warning"
    )
