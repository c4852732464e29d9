"""A bundle that `verify` calls broken is called so by score and compare, and nothing in it is
compliant.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from submissions import compliance_check
from submissions.commands.compare import compare
from submissions.commands.score import score
from submissions.pack import bundle as package
from submissions.pack.bundle import list_packed_bundle_problems, pack_results
from suite.errors import JudgedError

EXAMPLE = Path(__file__).parents[1] / "examples" / "valid" / "checkpoint.record"


def sealed(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    """Pack a valid tree whose checkpoint record was changed, past the check that `pack` ends
    with.
    """
    tree = shutil.copytree(EXAMPLE, folder / "tree")
    (record,) = tree.rglob("record.json")
    record.write_bytes(change(record.read_bytes()))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(package, "list_packed_bundle_problems", lambda *_: [])
        return pack_results(tree, folder / "x.tar.zst")


def told(command: click.Command, bundle: Path) -> tuple[str, str]:
    """What a command prints, and the error that it ends with; exit code 1."""
    outcome = CliRunner().invoke(command, [str(bundle), "--format", "json"])
    assert isinstance(outcome.exception, JudgedError) and outcome.exception.exit_code == 1
    return outcome.stdout, str(outcome.exception)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: b"[" * 100_000,
        lambda text: b"\xff",
        lambda text: text.replace(b'"seed": ', b'"seed": 1'),
    ],
)
def test_score_and_compare_say_what_verify_says(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    """Both were silent about a checkpoint record that is damaged or tells another story, and ended
    with 0.
    """
    bundle = sealed(tmp_path, change)
    problems = list_packed_bundle_problems(bundle)
    assert any("record.json" in problem for problem in problems)
    printed, error = told(score, bundle)
    assert all(problem in error for problem in problems)
    assert {row["compliant"] for row in json.loads(printed)["scores"]} == {False}
    printed, error = told(compare, bundle)
    assert all(problem in error for problem in problems)
    assert all(
        "this is not compliant" in side["reasons"]
        for kind in json.loads(printed)["comparisons"]
        for side in kind["results"]
    )


def test_a_byte_that_changed_after_the_seal_is_told(tmp_path: Path) -> None:
    """The content may be whole and the file not the one that was sealed."""
    bundle = sealed(tmp_path, lambda text: text)
    assert (
        list_packed_bundle_problems(bundle) == []
        and CliRunner().invoke(score, [str(bundle)]).exit_code == 0
    )
    raw = bytearray(bundle.read_bytes())
    raw[-1] ^= 1
    bundle.write_bytes(raw)
    for command in (score, compare):
        assert "changed after it was sealed" in told(command, bundle)[1]


@pytest.mark.slow
def test_a_bundle_that_was_judged_is_judged_again_with_other_bytes(tmp_path: Path) -> None:
    """Findings are kept for the same bytes: sealing, scoring and reporting ask for them one after
    the other.
    """
    bundle = sealed(tmp_path, bytes)
    before = compliance_check.judge_path(bundle)
    assert compliance_check.judge_path(
        bundle
    ) is before and not compliance_check.list_error_sentences(bundle)
    bundle.write_bytes(bundle.read_bytes()[:-1])
    assert compliance_check.list_error_sentences(bundle)


def test_a_folder_that_was_unpacked_from_a_bundle_is_held_against_its_manifest(
    tmp_path: Path,
) -> None:
    """It has no seal, and still a manifest and records."""
    from compliance.bundle.archive import unpack_bundle

    folder = tmp_path / "unpacked"
    unpack_bundle(sealed(tmp_path, lambda text: text), folder)
    assert CliRunner().invoke(score, [str(folder)]).exit_code == 0
    next(folder.rglob("record.json")).write_bytes(b"[" * 100_000)
    for command in (score, compare):
        assert "record.json" in told(command, folder)[1]


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000 + "a", "a\0b", "\ud800"])
def test_a_manifest_with_a_name_that_no_file_can_have_is_told(tmp_path: Path, name: str) -> None:
    """The system's own error went through the judge."""
    from compliance.bundle.archive import unpack_bundle

    folder = tmp_path / "unpacked"
    unpack_bundle(sealed(tmp_path, lambda text: text), folder)
    table = json.loads((folder / "manifest.json").read_bytes())
    table["files"][name] = {"sha256": "ab" * 32, "size": 1}
    (folder / "manifest.json").write_text(json.dumps(table))
    assert "manifest.json" in told(score, folder)[1] or "no such file" in told(score, folder)[1]


def test_a_refused_pack_names_files_that_are_still_there(tmp_path: Path) -> None:
    """It named those of the bundle that it had just removed: `x.tar.zst.partial/open/...`."""
    tree = shutil.copytree(EXAMPLE, tmp_path / "tree")
    (log,) = tree.rglob("result_0.txt")
    log.write_text(log.read_text().replace('"status": "success"', '"status": "aborted"'))
    with pytest.raises(JudgedError, match="podium check rejects it") as refusal:
        pack_results(tree, tmp_path / "x.tar.zst")
    problems = str(refusal.value).split("\n  ")[1:]
    assert problems and ".partial" not in str(refusal.value)
    assert any(problem.startswith(f"{log}:") for problem in problems)
    assert not (tmp_path / "x.tar.zst").exists()
