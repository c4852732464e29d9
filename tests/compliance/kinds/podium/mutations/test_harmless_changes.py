"""Changes that file managers, people and other programs make, and that claim nothing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import ledgers
import pytest
from examples import EXAMPLES

from compliance.documents.line_ends import LINE_ENDS_ADVICE
from compliance.judge import Judge
from compliance.verdict import Severity


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A campaign with its ground truth."""
    root = tmp_path / "results"
    shutil.copytree(EXAMPLES / "base" / "tree", root)
    return root


def leave_hidden_files(tree: Path) -> None:
    for folder in (*tree.glob("open/*/truth/*"), *tree.glob("checkpoints/*/*")):
        (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")


def leave_notes(tree: Path) -> None:
    for folder in (*tree.glob("open/*/truth/*"), *tree.glob("checkpoints/*/*")):
        for name in ("Thumbs.db", "desktop.ini", "README.md"):
            (folder / name).write_text("mine\n")


def make_room_for_a_checkpoint(tree: Path) -> None:
    for folder in tree.glob("checkpoints/*"):
        (folder / "notes").mkdir()


def leave_weights_out(tree: Path) -> None:
    for record in tree.glob("checkpoints/*/*/record.json"):
        (record.parent / "model.safetensors").unlink(missing_ok=True)
        (record.parent / "model.json").write_text("{}\n")


def make_room_for_a_system(tree: Path) -> None:
    (tree / "open/acme/results/box-torch-fp32/resnet51").mkdir()


def make_room_for_an_organisation(tree: Path) -> None:
    for name in ("results", "systems"):
        (tree / "open" / "future" / name).mkdir(parents=True)
    (tree / "open" / "future" / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")


def edit_description(tree: Path, **fields: str) -> None:
    for path in tree.glob("open/*/systems/*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def note_hardware(tree: Path) -> None:
    edit_description(tree, hw_notes="air-cooled")


def capitalise_status(tree: Path) -> None:
    edit_description(tree, status="Research")


def spell_status_out(tree: Path) -> None:
    edit_description(tree, status="Research, Development, or Internal")


@pytest.mark.parametrize(
    "change",
    [
        leave_hidden_files,
        leave_notes,
        make_room_for_a_checkpoint,
        leave_weights_out,
        make_room_for_a_system,
        make_room_for_an_organisation,
        note_hardware,
        capitalise_status,
        spell_status_out,
    ],
)
def test_a_change_that_claims_nothing_is_no_error(
    tree: Path, change: Callable[[Path], None]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in tree.rglob("*")}
    change(tree)
    assert {path: path.stat().st_mtime_ns for path in tree.rglob("*")} != before
    findings = Judge().judge_path(str(tree)).findings
    assert [each for each in findings if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("below", ["", "open/future"])
def test_an_organisation_without_a_result_alone_is_an_error(tmp_path: Path, below: str) -> None:
    """Else nothing that was judged would be valid."""
    make_room_for_an_organisation(tmp_path)
    found = Judge("podium-v1").judge_path(str(tmp_path / below)).findings
    assert any(each.severity is Severity.ERROR for each in found)


def test_an_organisation_with_a_file_and_no_result_is_an_error(tree: Path) -> None:
    make_room_for_an_organisation(tree)
    (tree / "open/future/results/notes.txt").write_text("to come\n")
    found = Judge().judge_path(str(tree)).findings
    assert ("tree.contents", Severity.ERROR) in {(each.rule, each.severity) for each in found}


HASHING_RULES = {
    "accuracy.hash",
    "accuracy.pinned",
    "accuracy.truth",
    "ledger.kept",
    "ledger.links",
}


def test_line_ends_that_git_changed_are_said_to_be_that(tmp_path: Path) -> None:
    """Hashes are of bytes, so the result is broken; but nothing has to be run again."""
    ledgers.tree(tmp_path)
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        content = path.read_bytes()
        if b"\0" not in content:
            path.write_bytes(content.replace(b"\n", b"\r\n"))
    errors = [
        each
        for each in Judge().judge_path(str(tmp_path)).findings
        if each.severity is Severity.ERROR
    ]
    assert {each.rule for each in errors} == HASHING_RULES
    assert {each.advice for each in errors} == {LINE_ENDS_ADVICE}


def test_a_file_that_was_edited_is_not_said_to_have_other_line_ends(tmp_path: Path) -> None:
    ledgers.tree(tmp_path)
    for path in tmp_path.glob("open/*/results/*/resnet/result_0.txt"):
        path.write_text(path.read_text().replace("cpu", "cpx"))
    found = Judge().judge_path(str(tmp_path)).findings
    assert any(each.rule == "ledger.kept" for each in found)
    assert LINE_ENDS_ADVICE not in {each.advice for each in found}
