"""A PATH is recognised by where it lies and what is in it, and judged with the context of its
tree.
"""

import shutil
from pathlib import Path

import pytest
from examples import EXAMPLES
from making import training_events, write_log
from spoiling import put

from compliance.bundle.archive import unpack_bundle
from compliance.bundle.seal import SEAL_BYTES
from compliance.judge import Judge
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.verdict import UNKNOWN_ROUND, Verdict
from suite.loadgen.scenario import Scenario
from suite.terms import Division

TREE = EXAMPLES / "base" / "tree"
HOME = "open/acme"
ENTRY = f"{HOME}/results/box-torch-fp32/resnet50/SingleStream"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("", PathKind.TREE),
        ("open", PathKind.TREE),
        (HOME, PathKind.ORGANISATION),
        (f"{HOME}/results", PathKind.ORGANISATION),
        (f"{HOME}/results/box-torch-fp32", PathKind.SYSTEM),
        (f"{HOME}/results/box-torch-bf16/resnet", PathKind.BENCHMARK),
        (f"{HOME}/results/box-torch-bf16/resnet/result_0.txt", PathKind.LOG),
        (ENTRY, PathKind.ENTRY),
        (f"{ENTRY}/accuracy", PathKind.RUN),
        (f"{ENTRY}/performance/run_1", PathKind.RUN),
        (f"{ENTRY}/performance/run_1/mlperf_log_detail.txt", PathKind.RUN),
        (f"{HOME}/systems/box-torch-fp32.json", PathKind.SYSTEM_FILE),
    ],
)
def test_each_level_of_a_tree_is_recognised_and_valid(path: str, kind: PathKind) -> None:
    target = recognise_path(TREE / path)
    assert target.kind is kind
    assert Judge().judge_path(str(TREE / path)).verdict is Verdict.VALID


def test_the_place_is_read_from_the_folders() -> None:
    place = recognise_path(TREE / ENTRY).position
    assert place is not None
    assert (place.org, place.system, place.benchmark) == ("acme", "box-torch-fp32", "resnet50")
    assert (place.scenario, place.division) == (Scenario.SINGLE_STREAM, Division.OPEN)


def test_a_results_folder_that_is_called_results_is_a_tree(tmp_path: Path) -> None:
    """`results/open/acme/results/...`: the outer folder is no organisation's."""
    shutil.copytree(TREE, tmp_path / "results")
    assert recognise_path(tmp_path / "results").kind is PathKind.TREE
    assert Judge().judge_path(str(tmp_path / "results")).verdict is Verdict.VALID


def test_a_published_training_tree_has_no_division(tmp_path: Path) -> None:
    """<org>/results/<system>/<benchmark> beside <org>/systems, as training rounds were
    published.
    """
    shutil.copytree(TREE / HOME, tmp_path / "acme")
    target = recognise_path(tmp_path / "acme" / "results" / "box-torch-bf16" / "resnet")
    assert target.kind is PathKind.BENCHMARK
    assert target.position is not None
    assert target.position.division is None


@pytest.mark.parametrize(
    ("base", "kind"),
    [
        ("set", PathKind.SET),
        ("server/Server/performance/run_1", PathKind.RUN),
        ("bundle/acme.tar.zst", PathKind.BUNDLE),
    ],
)
def test_what_lies_outside_a_tree_is_recognised_by_what_it_is(base: str, kind: PathKind) -> None:
    assert recognise_path(EXAMPLES / "base" / base).kind is kind


def test_an_entry_is_judged_with_its_trees_context(tmp_path: Path) -> None:
    """The reference accuracy stands in the training log, far from the entry."""
    shutil.copytree(TREE, tmp_path / "t")
    path = next((tmp_path / "t").glob("**/resnet/result_0.txt"))
    path.write_text(
        path.read_text().replace(
            '"reference_accuracy", "value": {"top1": 0.875}',
            '"reference_accuracy", "value": {"top1": 0.9}',
        )
    )
    rules = {finding.rule for finding in Judge().judge_path(str(tmp_path / "t" / ENTRY)).findings}
    assert "accuracy.reference" in rules


def test_a_system_is_judged_without_its_neighbours(tmp_path: Path) -> None:
    shutil.copytree(TREE, tmp_path / "t")
    put(system_name="other")(tmp_path / "t" / HOME / "systems" / "box-torch-bf16.json")
    judge = Judge()
    assert (
        judge.judge_path(str(tmp_path / "t" / HOME / "results" / "box-torch-fp32")).verdict
        is Verdict.VALID
    )
    assert (
        judge.judge_path(str(tmp_path / "t" / HOME / "results" / "box-torch-bf16")).verdict
        is Verdict.BROKEN
    )


def test_an_unpacked_bundle_is_compared_with_its_manifest(tmp_path: Path) -> None:
    unpack_bundle(EXAMPLES / "base" / "bundle" / "acme.tar.zst", tmp_path / "b")
    judge = Judge()
    assert judge.judge_path(str(tmp_path / "b")).verdict is Verdict.VALID
    (tmp_path / "b" / "more.txt").write_text("added")
    assert {finding.rule for finding in judge.judge_path(str(tmp_path / "b")).findings} == {
        "bundle.files"
    }


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("no log\n"),
    ],
)
def test_what_is_none_of_these_is_of_no_known_round(tmp_path: Path, make: object) -> None:
    """It was judged as podium's own, whose header it does not have."""
    make(tmp_path / "thing")  # type: ignore[operator]
    result = Judge().judge_path(str(tmp_path / "thing"))
    assert (result.round, result.verdict) == (UNKNOWN_ROUND, Verdict.UNKNOWN)
    assert [finding.rule for finding in result.findings] == ["round.known"]


def test_a_folder_that_may_not_be_searched_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test may run as root, whom no mode keeps out: an open that fails stands in."""

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("compliance.logs.mllog.mllog_lines.open_regular_file", denied)
    result = Judge().judge_path(str(write_log(tmp_path / "result_0.txt", training_events())))
    assert [finding.rule for finding in result.findings] == ["file.readable"]


@pytest.mark.parametrize(("place", "word"), [(-1, "sealed"), (-35, "not a complete seal"), (5, "")])
def test_no_byte_of_a_bundle_may_change(tmp_path: Path, place: int, word: str) -> None:
    """zstd's own checksum holds the content, not the compressed bytes, and not the seal."""
    content = bytearray((EXAMPLES / "base" / "bundle" / "acme.tar.zst").read_bytes())
    content[place] ^= 1
    (tmp_path / "b.tar.zst").write_bytes(content)
    findings = Judge().judge_path(str(tmp_path / "b.tar.zst")).findings
    assert {finding.rule for finding in findings} == {"bundle.archive"}
    assert word in findings[0].found


def test_a_bundle_without_a_seal_is_none(tmp_path: Path) -> None:
    """Whoever packs by hand leaves the seal out."""
    content = (EXAMPLES / "base" / "bundle" / "acme.tar.zst").read_bytes()
    (tmp_path / "b.tar.zst").write_bytes(content[:-SEAL_BYTES])
    [found] = Judge().judge_path(str(tmp_path / "b.tar.zst")).findings
    assert (found.rule, found.found) == ("bundle.archive", "no seal at its end")
