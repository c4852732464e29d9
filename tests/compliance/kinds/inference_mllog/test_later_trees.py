"""Trees of published inference rounds since v1.0 in which something is missing or told twice:
nothing judged is not valid.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from kinds.served import HASH, LANGUAGE, since

from compliance.judge import Judge
from compliance.rules.known_round import format_round_ranges
from compliance.verdict import Finding, Severity, Verdict
from suite import registry
from suite.files.layout import ACCURACY_TEXT

ROUND = "inference-v5.1"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An organisation with a benchmark in two scenarios."""
    since()(tmp_path / "inference_v5.1")
    return tmp_path / "inference_v5.1"


def renamed(tree: Path) -> None:
    """Hide runs in folders that are no scenario's."""
    for folder in (tree / "closed" / "acme" / "results" / "box" / "retinanet").iterdir():
        folder.rename(folder.with_name(f"{folder.name}_1"))


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: shutil.rmtree(tree / "closed" / "acme" / "results" / "box"),
        lambda tree: shutil.rmtree(tree / "closed" / "acme" / "results" / "box" / "retinanet"),
        renamed,
    ],
    ids=["no system", "no benchmark", "no scenario"],
)
@pytest.mark.parametrize("below", [".", "closed/acme"])
def test_a_tree_without_a_result_is_not_valid(
    tree: Path, change: Callable[[Path], None], below: str
) -> None:
    """It was, without a word: a broken result could be hidden by renaming its folder."""
    assert Judge().judge_path(str(tree / below)).verdict is Verdict.VALID
    change(tree)
    assert Judge(ROUND).judge_path(str(tree / below)).verdict is not Verdict.VALID


def test_of_two_organisations_one_without_results_is_told(tree: Path) -> None:
    """An organisation may have withdrawn what it had."""
    shutil.copytree(tree / "closed" / "acme", tree / "closed" / "other")
    shutil.rmtree(tree / "closed" / "other" / "results" / "box")
    found = [
        finding
        for finding in Judge(ROUND).judge_path(str(tree)).findings
        if finding.found == "no scenario folder"
    ]
    assert [(finding.severity, "/other/" in finding.file) for finding in found] == [
        (Severity.WARNING, True)
    ]


def test_runs_in_a_folder_that_is_no_scenario_are_told(tree: Path) -> None:
    """Beside others that are."""
    box = tree / "closed" / "acme" / "results" / "box" / "retinanet"
    shutil.copytree(box / "Offline", box / "Ofline")
    (found,) = [
        finding
        for finding in Judge(ROUND).judge_path(str(tree)).findings
        if "runs in a folder called Ofline" in finding.found
    ]
    assert found.severity is Severity.WARNING and "Offline" in found.required


def findings(folder: Path, rule: str) -> list[Finding]:
    return [
        finding for finding in Judge(ROUND).judge_path(str(folder)).findings if finding.rule == rule
    ]


@pytest.mark.parametrize(
    ("rate", "severity"),
    [
        (47_600.0, None),
        (54_000.0, Severity.WARNING),
        (95_000.0, Severity.ERROR),
        (20_000.0, Severity.ERROR),
    ],
)
def test_tokens_of_a_sample_are_those_of_the_accuracy_run(
    tmp_path: Path, rate: float, severity: Severity | None
) -> None:
    """The published figure counts tokens: ten times as many were called valid."""
    since(
        model=LANGUAGE,
        result_completed_tokens_per_second=rate,
        result_token_throughput_with_loadgen_overhead=rate,
    )(tmp_path)
    assert [finding.severity for finding in findings(tmp_path, "inference-mllog.token_rate")] == (
        [] if severity is None else [severity]
    )


@pytest.mark.parametrize(
    ("old", "new", "rule", "found"),
    [
        (HASH, "00", "inference-mllog.hash", "hash=00"),
        ("mAP=37.500%", "mAP=99.000%\nmAP=37.500%", "inference-mllog.accuracy", "mAP 99, 37.5"),
    ],
)
def test_what_accuracy_txt_tells_in_an_odd_way_is_a_warning(
    tree: Path, old: str, new: str, rule: str, found: str
) -> None:
    """A hash that is none; two scores, of which the last one counts."""
    path = next(tree.rglob(f"Server/accuracy/{ACCURACY_TEXT}"))
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    (finding,) = findings(tree, rule)
    assert finding.severity is Severity.WARNING and finding.found == found


def test_known_rounds_are_told_as_ranges() -> None:
    """A list of thirty names was cut in the middle of one."""
    told = list(format_round_ranges(registry.list_round_names()))
    assert told[:2] == ["endpoints", "endpoints-v1.0"]
    assert told[2].startswith("inference-v0.5 to v")
    assert told[3:] == ["podium-v1", "training-v0.6 to v6.1"]
