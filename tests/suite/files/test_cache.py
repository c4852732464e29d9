"""The cache folder where it cannot be written, locked or found."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import nameless_words, read_only_words

from suite.errors import MissingError, RequestError
from suite.files.cache import check_cache_writable, fill_cache_entry, locate_cache_folder
from workloads.common.embedded_cache import create_cached_folder

PODIUM = (sys.executable, "-m", "suite.cli")


def wrote(folder: Path) -> None:
    folder.mkdir()
    (folder / "content").write_text("whole")


def said(words: list[str], cache: Path | None, *before: str) -> tuple[int, str]:
    """Run podium; return its exit code and what it said of errors."""
    own = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    own |= {"PODIUM_CACHE": str(cache)} if cache else {}
    done = subprocess.run(
        [*before, *PODIUM, *words], env=own, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_a_cache_that_can_only_be_read_is_used_if_it_is_complete(tmp_path: Path):
    """Read-only and empty: one sentence. Read-only and filled: as if it could be written."""
    words = ["data", "transformer", "--profile", "smoke"]
    assert said(words, tmp_path, *read_only_words(tmp_path)) == (
        2,
        f"podium: cache {tmp_path}: Read-only file system; set PODIUM_CACHE to a writable folder\n",
    )
    assert said(words, tmp_path)[0] == 0
    before = sorted(tmp_path.rglob("*"))
    assert said(words, tmp_path, *read_only_words(tmp_path)) == (0, "")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_a_user_without_a_name_and_a_home_is_told(tmp_path: Path):
    """A container's user id without an entry in the table of users: one sentence; with a cache it
    works.
    """
    words = ["data", "transformer", "--profile", "smoke"]
    code, told = said(words, None, *nameless_words(), "-u", "PODIUM_CACHE")
    assert (code, told) == (
        2,
        "podium: cache: user id 12345 has no home folder; set PODIUM_CACHE to a writable folder\n",
    )
    assert said(words, tmp_path, *nameless_words()) == (0, "")


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_file_in_the_place_of_the_cache_is_told(tmp_path: Path, below: str):
    place = tmp_path / "afile"
    place.touch()
    with pytest.raises(RequestError, match="Not a directory; set PODIUM_CACHE to a writable"):
        create_cached_folder(place / below, "made", wrote)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_gets_whole_entries(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
):
    """The first to finish wins, and nothing unfinished is left, not even after a failure."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refused)

    def overtaken(folder: Path) -> None:
        create_cached_folder(tmp_path, "made", wrote)
        wrote(folder)
        (folder / "content").write_text("second")

    check_cache_writable(tmp_path)
    with pytest.raises(ZeroDivisionError):
        create_cached_folder(tmp_path, "made", lambda folder: print(wrote(folder), 1 / 0))
    folder = create_cached_folder(tmp_path, "made", overtaken)
    assert (folder / "content").read_text() == "whole"
    assert {path.name for path in tmp_path.iterdir()} == {"made", "made.lock"}


def test_another_error_of_a_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refused)
    with pytest.raises(RequestError, match="Input/output error; set PODIUM_CACHE"):
        create_cached_folder(tmp_path, "made", wrote)


def test_a_full_disk_is_the_machines_and_a_missing_source_the_writers(tmp_path: Path):
    """What the writer reads elsewhere is not the cache's; what it cannot write is."""
    with (
        pytest.raises(MissingError, match=rf"cache {tmp_path}: No space left on device; "),
        fill_cache_entry(tmp_path / "made"),
        Path("/dev/full").open("w") as full,
    ):
        full.write("more than there is room for")
    with (
        pytest.raises(FileNotFoundError, match="elsewhere"),
        fill_cache_entry(tmp_path / "made"),
    ):
        (tmp_path / "elsewhere").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["made.lock"]


def test_no_home_folder_is_told(monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("PODIUM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(RequestError, match="has no home folder; set PODIUM_CACHE"):
        locate_cache_folder()
