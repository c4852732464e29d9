"""MLPerf Inference v0.7: what its accepted entries do that those of v0.5 do not, and what stays an error."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import CORPUS, needs_corpus
from examples_inference import inferred, later
from making_inference import IMPLEMENTATION, LOADS, OFF, SINGLE, SRV, SYSTEM, write_entry
from spoiling import put

from compliance.documents.inference.entry import Headline, headline
from compliance.judge import Judge
from compliance.logs.loadgen import legacy_detail
from compliance.logs.source_file import SourceFile
from compliance.verdict import Finding, Severity, Verdict
from suite import registry
from suite.files.layout import DETAIL

V07 = "inference-v0.7"
DICE = "Accuracy: mean = 0.85300"


def found(path: Path, rule: str) -> list[Finding]:
    result = Judge().result(str(path))
    assert result.round == V07
    return [finding for finding in result.findings if finding.rule == rule]


def severities(path: Path, rule: str) -> list[Severity]:
    return [finding.severity for finding in found(path, rule)]


def filed(root: Path, model: str = "3d-unet-99", claim: str = DICE, division: str = "closed") -> Path:
    return write_entry(root, replace(later(LOADS[SINGLE]), samples=67), division=division, model=model, claim=claim, hashed=True)


@pytest.mark.parametrize(
    ("folder", "benchmark"),
    [
        ("resnet50", "resnet"),
        ("mobilenet", "resnet"),
        ("ssd-resnet34", "ssd-large"),
        ("ssd-mobilenet", "ssd-small"),
        ("ssd-mobilenet-non-quantized", "ssd-small"),
        ("rcnn-nas-coco", "ssd-small"),
        ("bert-99", "bert-99"),
        ("bert", None),
        ("translator", None),
    ],
)
def test_closed_folders_are_named_as_the_official_mapping_has_them(folder: str, benchmark: str | None) -> None:
    """resnet50, as nearly all accepted entries have it, was no benchmark of the round."""
    assert registry.published_inference(V07).benchmark_of(folder, "closed") == benchmark


def test_v05_has_no_other_names_in_the_closed_division() -> None:
    assert registry.published_inference("inference-v0.5").benchmark_of("resnet50", "closed") is None


def test_threads_may_be_registered_before_the_logs_clock_is_set(tmp_path: Path) -> None:
    """Their stamps are negative, and in no order; a time behind one that was counted is none of theirs."""
    entry = filed(tmp_path)
    log = entry / "performance" / "run_1" / DETAIL
    threads = ((0, 90), (1, 80), (2, 85))
    early = "".join(f'"pid": 7, "tid": {thread}, "ts": -{nanoseconds}ns : Registered IssueQueryThread[{thread}].\n' for thread, nanoseconds in threads)
    log.write_text(early + log.read_text())
    assert Judge().result(str(entry)).verdict is Verdict.VALID
    log.write_text(log.read_text().replace('"ts": 20000ns', '"ts": -20000ns', 1))
    assert legacy_detail.read(SourceFile(log)).backwards


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda code: (shutil.rmtree(code / "3d-unet-99"), (code / "3d-unet-99").write_text("unet\n"), (code / "unet").mkdir()), []),
        (lambda code: (code / "3d-unet-99" / IMPLEMENTATION).rename(code / "3d-unet-99" / "another"), []),
        (lambda code: shutil.rmtree(code / "3d-unet-99"), ["warning"]),
        (lambda code: (shutil.rmtree(code / "3d-unet-99"), (code / "3d-unet-99").write_text("../systems\n")), ["warning"]),
        (lambda code: (shutil.rmtree(code / "3d-unet-99"), (code / "3d-unet-99").write_bytes(b"\xff" * 5000)), ["warning"]),
    ],
    ids=["a file that names a folder", "another implementation", "none", "a file that names another place", "a file of garbage"],
)
def test_code_may_be_a_file_of_one_line_that_names_a_folder(tmp_path: Path, change: Callable[[Path], object], expected: list[str]) -> None:
    entry = filed(tmp_path)
    change(entry.parents[3] / "code")
    assert severities(entry, "filed.code") == expected


def test_results_of_edge_systems_may_be_inferred_from_single_stream(tmp_path: Path) -> None:
    """22 of 82 entries: SingleStream's logs in Offline's place broke all that is asked of Offline."""
    inferred()(tmp_path)
    result = Judge().result(str(tmp_path))
    assert result.verdict is Verdict.VALID, [finding for finding in result.findings if finding.severity is Severity.ERROR]
    offline = next(tmp_path.glob("closed/*/results/*/*/Offline"))
    assert severities(offline, "filed.inferred") == ["info"]
    assert headline(offline, registry.published_inference(V07)) == Headline("Samples per second", 21.65, "samples/s", (21.65,))
    put(system_type="datacenter")(next(tmp_path.glob("closed/*/systems/*.json")))
    assert "error" in severities(offline, "filed.inferred")


def test_an_inferred_multi_stream_result_is_what_fits_its_interval(tmp_path: Path) -> None:
    entry = filed(tmp_path, "ssd-mobilenet", "mAP=22.0%")
    entry.rename(entry.with_name("MultiStream"))
    assert headline(entry.with_name("MultiStream"), registry.published_inference(V07)) == Headline("Samples per query", 1, "samples/query", (1,))


def test_runs_may_have_been_made_with_two_revisions(tmp_path: Path) -> None:
    """Accepted entries have them; in v0.5, whose revisions are known, they are an error."""
    entry = filed(tmp_path)
    log = entry / "accuracy" / DETAIL
    log.write_text(log.read_text().replace("0123456789", "9876543210"))
    assert severities(entry, "filed.version") == ["warning"]


def test_one_run_of_server_is_what_the_text_asks_for_and_five_the_checker(tmp_path: Path) -> None:
    entry = write_entry(tmp_path, later(LOADS[SRV]), model="bert-99", claim='{"exact_match": 83.6, "f1": 90.8}', hashed=True)
    shutil.rmtree(entry / "performance" / "run_4")
    assert severities(entry, "filed.runs") == ["warning"]
    shutil.rmtree(entry / "performance")
    assert severities(entry, "filed.runs") == ["error"]


def test_compliance_tests_lie_in_compliance(tmp_path: Path) -> None:
    entry = filed(tmp_path)
    home = entry.parents[3]
    assert found(entry, "filed.audit") == []
    assert found(home / "compliance" / SYSTEM / "3d-unet-99" / "SingleStream" / "TEST05", "filed.audit_settings") == []
    (home / "compliance").rename(home / "audit")
    assert severities(entry, "filed.audit") == ["warning"]


def test_the_mapping_leaves_the_open_division_its_own_names(tmp_path: Path) -> None:
    entry = write_entry(tmp_path, later(LOADS[OFF]), model="bert-of-ours", claim='{"exact_match": 83.6, "f1": 90.8}', hashed=True)
    assert Judge().result(str(entry)).verdict is Verdict.VALID


@needs_corpus
@pytest.mark.corpus
@pytest.mark.parametrize("path", sorted((CORPUS / "inference_v0.7").glob("*/*")), ids=lambda path: "-".join(path.parts[-2:]))
def test_accepted_entries_are_valid_by_their_own_round(path: Path) -> None:
    """The round was written without a log: 34 of 37 accepted closed entries were broken."""
    for each in (path, *path.glob("results/*/*/*"), *path.glob("compliance/*/*/*"), *path.glob("systems/*.json")):
        result = Judge().result(str(each))
        errors = [finding for finding in result.findings if finding.severity is Severity.ERROR]
        assert (result.round, result.verdict, errors) == (V07, Verdict.VALID, []), each
