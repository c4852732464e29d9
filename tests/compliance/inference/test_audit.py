"""Compliance tests of published rounds: a test that failed on bit-exactness may be accepted on accuracy, and what can be recomputed is."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from making_inference import LOADS, OFF, write_entry

from compliance.judge import Judge
from suite.files.layout import ACCURACY

FAILED = "num_perf_log_entries = 100\nnum_perf_log_qsl_idx_match = 100\nnum_perf_log_data_mismatch = 7\nnum_missing_qsl_idxs = 0\nTEST FAIL\n"
TRACEBACK = "Verifying accuracy. This might take a while...\nTraceback (most recent call last):\n"
LOG = '[\n{ "seq_id" : 0, "qsl_idx" : 4, "data" : "4A61" }\n]\n'


def outcome(root: Path, text: str, files: Mapping[str, str], model: str = "gnmt-of-ours", claim: str = "BLEU: 23.8", truth: Path | None = None) -> list[str]:
    """Judge an entry whose TEST01 says so, with these files in its accuracy/."""
    entry = write_entry(root, LOADS[OFF], model=model, claim=claim)
    test = entry.parents[3].joinpath("audit", *entry.parts[-3:], "TEST01")
    test.mkdir(parents=True)
    (test / "verify_accuracy.txt").write_text(text)
    for name, content in files.items():
        (test / "accuracy").mkdir(exist_ok=True)
        (test / "accuracy" / name).write_text(content)
    findings = Judge(truth=truth).result(str(entry)).findings
    return [finding.severity.value for finding in findings if finding.rule == "filed.audit_passed"]


@pytest.mark.parametrize(
    ("text", "files", "expected"),
    [
        (FAILED, {ACCURACY: LOG}, ["warning"]),
        (FAILED, {"accuracy.txt": "mAP=20.1%\n"}, ["warning"]),
        (FAILED, {"accuracy.txt": "mAP=12.1%\n"}, ["error"]),
        (FAILED, {"accuracy.txt": "hash=0123456789abcdef0123456789abcdef\n"}, ["warning"]),
        (FAILED, {"baseline_accuracy.txt": "mAP=15.0%\n", "compliance_accuracy.txt": "mAP=14.9%\n"}, ["warning"]),
        (FAILED, {"baseline_accuracy.txt": "mAP=15.0%\n", "compliance_accuracy.txt": "mAP=14.0%\n"}, ["error"]),
        (TRACEBACK, {"accuracy.txt": "mAP=20.1%\n"}, ["warning"]),
        (FAILED, {}, ["error"]),
        (TRACEBACK, {}, ["error"]),
        (FAILED.replace("mismatch = 7", "mismatch = 0"), {"accuracy.txt": "mAP=20.1%\n"}, ["error"]),
        (FAILED.replace("mismatch = 7", "mismatch = 0").replace("FAIL", "PASS"), {}, []),
    ],
    ids=[
        "the log alone", "a score", "a poor score", "a hash", "as the accuracy run", "worse than the accuracy run", "a script that died", "nothing",
        "a script that died, and nothing", "a failure without a difference", "passed",
    ],
)  # fmt: skip
def test_a_test_that_failed_is_accepted_on_the_quality_that_was_filed(tmp_path: Path, text: str, files: Mapping[str, str], expected: list[str]) -> None:
    """Answers of two runs may differ: then the rules ask for their score."""
    assert outcome(tmp_path, text, files, model="ssd-large", claim="mAP=20.0%") == expected


@pytest.mark.parametrize(("right", "expected"), [(80, ["warning"]), (20, ["error"])])
def test_the_quality_is_counted_again_where_labels_are_given(tmp_path: Path, right: int, expected: list[str]) -> None:
    """The answers of the test's own log; a score that was typed beside it does not help."""
    labels = tmp_path / "labels" / "imagenet"
    labels.mkdir(parents=True)
    (labels / "val_map.txt").write_text("".join(f"{sample}.jpg 42\n" for sample in range(100)))
    rows = [f'{{ "seq_id" : {sample}, "qsl_idx" : {sample}, "data" : "{"2A" if sample < right else "07"}000000" }}' for sample in range(100)]
    files = {ACCURACY: "[\n" + ",\n".join(rows) + "\n]\n", "accuracy.txt": "accuracy=76.100%, good=76, total=100\n"}
    assert outcome(tmp_path / "round", FAILED, files, model="resnet", claim="accuracy=76.1%", truth=tmp_path / "labels") == expected
