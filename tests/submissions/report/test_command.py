"""`podium report` as it is typed: files, exit codes, and what bad requests leave behind."""

import errno
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from submissions.commands.report import report
from submissions.report import command
from suite.errors import JudgedError, MissingError, RequestError


def run(*words: object) -> str:
    return str(
        CliRunner()
        .invoke(report, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
        .output
    )


def test_the_page_is_written_and_named(bundle: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run(bundle, "-o", page) == f"report: {page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_without_a_name_the_page_is_called_like_the_bundle(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(bundle) == "report: mine.html\n"
    assert (tmp_path / "mine.html").is_file()


def test_json_goes_to_the_terminal(bundle: Path) -> None:
    assert json.loads(run(bundle, "--format", "json"))["parts"][0]["verdict"] == "Valid"


@pytest.mark.parametrize("place", ["", "no/such/folder/page.html"])
def test_a_place_that_cannot_hold_a_page_is_refused_before_anything_is_read(
    bundle: Path, tmp_path: Path, place: str
) -> None:
    with pytest.raises(RequestError):
        run(bundle, "-o", tmp_path / place)
    assert not [*tmp_path.iterdir()]


def test_a_path_that_is_not_there_leaves_no_page(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="no such file"):
        run(tmp_path / "none.tar.zst", "-o", tmp_path / "page.html")
    assert not [*tmp_path.iterdir()]


def test_a_broken_bundle_gets_its_page_and_exit_1(bundle: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar.zst"
    broken.write_bytes(bundle.read_bytes()[:-40])
    with pytest.raises(JudgedError, match="broken.tar.zst: broken"):
        run(broken, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert ">Broken<" in page and "Not compliant" not in page and "samples/s" not in page, (
        "figures of a broken file would be believed"
    )


def test_a_full_disk_is_exit_3_and_leaves_nothing(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(MissingError, match="No space left"):
        run(bundle, "-o", tmp_path / "page.html")
    assert not [*tmp_path.iterdir()]


def test_the_report_of_a_campaign_lies_beside_its_bundle(bundle: Path) -> None:
    page = command.write_bundle_report(bundle)
    assert page == bundle.with_name("mine.html") and page.is_file()
    page.unlink()


@pytest.mark.parametrize("form", ["html", "json"])
def test_a_report_is_not_written_over_what_it_reads(
    bundle: Path, tmp_path: Path, form: str
) -> None:
    """A bundle was replaced by its page."""
    copy = Path(shutil.copy(bundle, tmp_path / "copy.tar.zst"))
    for words in ((copy, "-o", copy), (bundle, "--against", copy, "-o", copy)):
        with pytest.raises(RequestError, match="is one of the inputs"):
            run(*words, "--format", form)
    with pytest.raises(RequestError, match="is not a regular file"):
        run(copy, "-o", "/dev/null", "--format", form)
    assert copy.read_bytes() == bundle.read_bytes() and Path("/dev/null").is_char_device()


def test_a_name_that_is_too_long_is_a_sentence(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="too long"):
        run(bundle, "-o", tmp_path / ("n" * 300))
