"""The published results of MLPerf Inference v0.5: read, and judged as a reader of the rules
would.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from corpus import CORPUS

from compliance.judge import Judge
from compliance.kinds.inference_text.documents.entry import read_entry_headline
from compliance.kinds.inference_text.documents.top1 import (
    count_correct_answers,
    read_validation_labels,
)
from compliance.logs.loadgen import accuracy_counts
from compliance.logs.source_file import SourceFile
from compliance.verdict import Finding, PathJudgement, Severity, Verdict
from suite.files.layout import ACCURACY_LOG

ROOT = CORPUS / "inference_v0.5"
EXPECTED = CORPUS / "expected"


def rows(path: Path) -> list[Mapping[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


OFFICIAL = {
    "/".join(
        (row["division"], row["org"], "results", row["system"], row["model"], row["scenario"])
    ): row
    for row in rows(EXPECTED / "inference_v0.5_official_verdicts.csv")
}
TOP1 = {row["path"]: row for row in rows(EXPECTED / "inference_v0.5_recomputed_top1.csv")}
LEFT_OUT = {row["path below inference_v0.5"] for row in rows(CORPUS / "left_out.csv")}


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(truth=CORPUS)


def upheld(result: PathJudgement) -> list[Finding]:
    """Errors about files that are there: what is left out of the corpus need not be the submitter's
    fault.
    """
    return [
        finding
        for finding in result.findings
        if finding.severity is Severity.ERROR
        and not (
            finding.rule == "file.present" and any(finding.file.endswith(name) for name in LEFT_OUT)
        )
    ]


@pytest.mark.parametrize("name", OFFICIAL)
def test_no_accepted_entry_is_called_broken(judge: Judge, name: str) -> None:
    """The official checker calls some of these bad: a description that counts virtual processors,
    which the rules allow.
    """
    result = judge.judge_path(str(ROOT / name))
    assert result.round == "inference-v0.5"
    assert upheld(result) == []


@pytest.mark.parametrize("name", OFFICIAL)
def test_the_result_is_the_official_one(name: str) -> None:
    found = read_entry_headline(ROOT / name)
    assert found is not None
    assert found.value == float(OFFICIAL[name]["result"])


@pytest.mark.parametrize("name", TOP1)
def test_top1_is_counted_to_the_picture(name: str) -> None:
    top1 = count_correct_answers(
        accuracy_counts.count_accuracy_answers(SourceFile(ROOT / name / "accuracy" / ACCURACY_LOG)),
        read_validation_labels(CORPUS / "imagenet" / "val_map.txt"),
    )
    row = TOP1[name]
    assert top1 is not None
    assert (top1.samples, top1.good, top1.size) == (
        int(row["n"]),
        int(row["good"]),
        int(row["bytes_per_pred"]),
    )
    assert (top1.format, top1.offset, round(top1.percent, 3)) == (
        row["fmt"],
        int(row["offset"]),
        float(row["top1"]),
    )


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*/*/systems/*.json")), ids=lambda path: path.stem
)
def test_systems_are_described_as_the_rules_want(judge: Judge, path: Path) -> None:
    assert judge.judge_path(str(path)).verdict is Verdict.VALID


@pytest.mark.slow
@pytest.mark.usefixtures("counted_once")
@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("*/*")), ids=lambda path: "-".join(path.parts[-2:])
)
def test_organisations_are_judged_whole(judge: Judge, path: Path) -> None:
    assert upheld(judge.judge_path(str(path))) == []


@pytest.mark.slow
@pytest.mark.usefixtures("counted_once")
def test_the_whole_submission_is_judged(judge: Judge) -> None:
    assert upheld(judge.judge_path(str(ROOT))) == []


def inside() -> Iterator[Path]:
    """One of each kind of path within an entry."""
    entry = ROOT / "closed" / "Habana" / "results" / "Goya_1" / "resnet" / "Offline"
    if entry.is_dir():
        yield from (entry / "accuracy", entry / "performance", entry / "performance" / "run_1")
        home = entry.parents[3]
        yield from (
            home / "audit" / "Goya_1" / "resnet" / "Offline",
            *sorted((home / "measurements" / "Goya_1" / "resnet" / "Offline").iterdir()),
        )


@pytest.mark.parametrize("path", list(inside()), ids=lambda path: path.name)
def test_any_path_is_judged_in_its_place(judge: Judge, path: Path) -> None:
    result = judge.judge_path(str(path))
    assert (result.round, upheld(result)) == ("inference-v0.5", [])
