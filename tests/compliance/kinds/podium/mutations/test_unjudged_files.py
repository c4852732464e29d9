"""Files beside the files: nobody judges them, so they are named; in a bundle they are errors."""

import json
import shutil
from pathlib import Path

import making
import pytest
from examples import EXAMPLES
from spoiling import bundle, encode_as_podium, sealed_note

from compliance.judge import Judge
from compliance.kinds.podium.documents import unjudged_files
from compliance.verdict import Finding, Severity, Verdict
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

ENTRY = "open/acme/results/box-torch-fp32/resnet50/SingleStream"
RULES = {"loadgen.strays", "entry.strays", "set.strays", "tree.strays", "bundle.strays"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A campaign in which nothing lies beside the results."""
    root = tmp_path / "results"
    shutil.copytree(EXAMPLES / "base" / "tree", root)
    return root


def named(path: Path) -> dict[str, Finding]:
    """What the judge finds to be a stray: rule -> finding."""
    return {
        finding.rule: finding
        for finding in Judge().judge_path(str(path)).findings
        if finding.rule in RULES
    }


@pytest.mark.parametrize(
    ("place", "rule"),
    [
        (f"{ENTRY}/performance/run_1/notes.txt", "loadgen.strays"),
        (f"{ENTRY}/performance/run_1/accuracy.txt", "loadgen.strays"),
        (f"{ENTRY}/performance/run_1/run.json.orig", "loadgen.strays"),
        (f"{ENTRY}/performance/run_1/run.json.partial", "loadgen.strays"),
        (f"{ENTRY}/accuracy/mlperf_log_trace.json", "loadgen.strays"),
        (f"{ENTRY}/accuracy/.DS_Store", "loadgen.strays"),
        (f"{ENTRY}/notes.txt", "entry.strays"),
        (f"{ENTRY}/performance/notes.txt", "entry.strays"),
        (f"{ENTRY}/performance/run_1", "entry.strays"),
        ("open/acme/results/box-torch-bf16/resnet/result_0.log", "set.strays"),
        ("open/acme/results/box-torch-bf16/resnet/result_x.txt", "set.strays"),
        ("open/acme/results/box-torch-fp32/resnet50/notes.txt", "tree.strays"),
        ("open/acme/results/box-torch-fp32/notes.txt", "tree.strays"),
        ("open/acme/results/notes.txt", "tree.strays"),
        ("open/acme/systems/box-torch-fp32.yaml", "tree.strays"),
        ("open/acme/notes.txt", "tree.strays"),
    ],
)
def test_a_file_that_belongs_to_nothing_is_named(tree: Path, place: str, rule: str) -> None:
    """As a warning, with its own path: a results folder is a place to work in, and stays valid."""
    path = tree / place
    if path.is_dir():
        shutil.move(path, path.with_name("first"))
        making.write_run(path, making.LOADS[Scenario.SINGLE_STREAM], "performance")
        path = path.with_name("first")
    else:
        path.write_text("x\n")
    found = named(tree)
    assert (
        set(found) == {rule}
        and found[rule].severity is Severity.WARNING
        and Path(found[rule].file).name == path.name
    )
    assert Judge().judge_path(str(tree)).verdict is Verdict.VALID


@pytest.mark.parametrize(
    "place", [f"{ENTRY}/accuracy2", f"{ENTRY}/performance/run_one", f"{ENTRY}/results"]
)
def test_a_folder_of_runs_under_another_name_is_named(tree: Path, place: str) -> None:
    """Where results may be hidden: tried often, the best one filed."""
    shutil.copytree(tree / ENTRY / "performance" / "run_1", tree / place)
    assert set(named(tree)) == {"entry.strays"}


@pytest.mark.parametrize("place", [f"{ENTRY}/performance/run_2.partial", f"{ENTRY}/run.partial"])
def test_what_is_unfinished_is_no_stray(tree: Path, place: str) -> None:
    """It has a rule of its own."""
    (tree / place).write_text("{}\n")
    assert named(tree) == {}


def test_a_run_an_entry_and_a_set_tell_of_strays_on_their_own(tree: Path) -> None:
    """Whatever PATH is judged."""
    training = tree / "open/acme/results/box-torch-bf16/resnet"
    for folder, rule in (
        (tree / ENTRY / "accuracy", "loadgen.strays"),
        (tree / ENTRY, "entry.strays"),
        (training, "set.strays"),
    ):
        (folder / "x").write_text("x\n")
        assert rule in named(folder)


def test_a_part_of_a_tree_does_not_tell_of_the_rest(tree: Path) -> None:
    """Who judges one system has not asked about the organisation's folder."""
    (tree / "open/acme/notes.txt").write_text("x\n")
    assert named(tree / "open/acme/results/box-torch-fp32") == {}
    assert set(named(tree / "open/acme")) == {"tree.strays"}


def test_a_folder_that_cannot_be_read_has_no_strays(tmp_path: Path) -> None:
    """Other rules say that it is not there."""
    nowhere = tmp_path / "no"
    assert (
        list(unjudged_files.find_unexpected_run_files(nowhere, Mode.ACCURACY))
        == list(unjudged_files.find_unexpected_entry_files(nowhere))
        == list(unjudged_files.find_unexpected_set_files(nowhere))
        == []
    )
    assert list(unjudged_files.find_misplaced_files(tmp_path / "no")) == []


def test_a_file_that_a_manifest_names_is_still_part_of_no_result(tmp_path: Path) -> None:
    """Sealed or not: nobody has judged it."""
    bundle(sealed_note)(tmp_path)
    result = Judge().judge_path(str(tmp_path / "acme.tar.zst"))
    errors = {
        finding.rule: finding.file
        for finding in result.findings
        if finding.severity is Severity.ERROR
    }
    assert set(errors) == {"bundle.strays"} and errors["bundle.strays"].endswith("notes.txt")


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        (f"{ENTRY}/performance/run_1/notes.jsonl", False),
        (f"{ENTRY}/telemetry.jsonl", False),
        ("open/acme/truth/resnet50/classes.txt", True),
        ("open/acme/truth/other/labels.txt", False),
        (f"checkpoints/resnet50/{making.SHA256}/model.safetensors", False),
        ("open/acme/measurements/box-torch-fp32/resnet50/SingleStream/user.conf", False),
        ("open/acme/systems/other.json", False),
        ("readme.md", False),
    ],
)
def test_what_a_bundle_may_hold(tmp_path: Path, name: str, accepted: bool) -> None:
    """What was read to judge it, and its truth; weights, too, stay outside, and clocks that no
    schema describes.
    """

    def spoil(files: dict[str, bytes]) -> None:
        files["notes.txt"] = b""
        sealed_note(files)
        files[name] = files.pop("notes.txt")
        manifest = json.loads(files["manifest.json"])
        manifest["files"][name] = manifest["files"].pop("notes.txt")
        files["manifest.json"] = encode_as_podium(manifest)

    bundle(spoil)(tmp_path)
    found = {
        finding.rule for finding in Judge().judge_path(str(tmp_path / "acme.tar.zst")).findings
    }
    assert ("bundle.strays" not in found) is accepted, found
    assert "bundle.files" not in found


def test_the_base_has_none(tree: Path) -> None:
    """Everything that podium writes is known by name."""
    assert named(tree) == {} and named(EXAMPLES / "base" / "bundle") == {}
