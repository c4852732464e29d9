"""Archives given for results are refused by what they begin with, whatever their name."""

import bz2
import lzma
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from examples import EXAMPLES

from suite.cli import main
from suite.files.archives import find_archive_format

LOG = EXAMPLES / "base/tree/open/acme/results/box-torch-bf16/resnet/result_0.txt"


def run_podium(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """Run the command line; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["podium", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def write_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(LOG, "result_0.txt")


def write_tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        archive.add(LOG, "result_0.txt")


def write_packed_tar(path: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        archive.add(LOG, "result_0.txt")


WRITERS: dict[str, Callable[[Path], object]] = {
    "zip": write_zip,
    "tar": write_tar,
    "gzip": write_packed_tar,
    "xz": lambda path: path.write_bytes(lzma.compress(LOG.read_bytes())),
    "bzip2": lambda path: path.write_bytes(bz2.compress(LOG.read_bytes())),
    "7z": lambda path: path.write_bytes(b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(64)),
}
COMMANDS = (
    ["check"],
    ["score"],
    ["compare"],
    ["report"],
    ["pack", "-o", "out.tar.zst"],
    ["publish", "-o", "site"],
    ["cost", "--prices", "prices.toml"],
    ["verify"],
    ["sign", "--key", "key"],
    ["timestamp", "--query", "x.tsq"],
)


@pytest.mark.parametrize("name", WRITERS)
def test_each_format_is_known_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / "result_0.txt")
    assert find_archive_format(tmp_path / "result_0.txt") == name


@pytest.mark.parametrize("content", [b"", b"BZh9 is the name of a file\n", b"PK", LOG.read_bytes()])
def test_other_files_are_no_archives(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    assert find_archive_format(tmp_path / "a.zip") is None
    assert find_archive_format(tmp_path) is None


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_every_command_that_reads_results_says_to_unpack_it(
    tmp_path: Path,
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "results.txt"
    write_packed_tar(path)
    assert run_podium(monkeypatch, command[0], str(path), *command[1:]) == 2
    assert f"podium: {path} is an archive (gzip): unpack it first\n" in capsys.readouterr().err


@pytest.mark.parametrize("content", ['{"a": 1}', "notes on a log\n"])
def test_a_file_that_is_no_result_is_named_itself(
    tmp_path: Path,
    content: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "open/acme/results/box/resnet"
    home.mkdir(parents=True)
    (home / "result_0.txt").write_bytes(LOG.read_bytes())
    path = home / ("other.json" if content.startswith("{") else "other.txt")
    path.write_text(content)
    assert run_podium(monkeypatch, "score", str(path)) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.splitlines()[1:]) == ("", [f"  {path}: contains no results"])


def test_a_renamed_log_of_loadgen_is_no_training_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder was named as if it were the result."""
    (run,) = [*(EXAMPLES / "base/tree").rglob("run_1/mlperf_log_detail.txt")][:1]
    path = tmp_path / "detail.log"
    path.write_bytes(run.read_bytes())
    assert run_podium(monkeypatch, "score", str(path)) == 1
    assert f"{path}: contains no results" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gzip", "xz", "zip"])
@pytest.mark.parametrize("options", [[], ["--format", "json"]])
def test_a_folder_of_packed_logs_is_to_be_unpacked(
    tmp_path: Path,
    name: str,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(3):
        WRITERS[name](tmp_path / f"result_{number}.txt.{name}")
    assert run_podium(monkeypatch, "check", str(tmp_path), *options) == 1
    told = capsys.readouterr().out
    assert f"packed files: result_*.txt.{name} ({name})" in told
    assert "unpack them first" in told and "the checker of that round" not in told


@pytest.mark.parametrize("packed", ["llama2_70b_lora.tar.gz", "llama2_70b_lora/result_0.txt.gz"])
@pytest.mark.parametrize("target", ["", "AMD", "AMD/results/box"])
def test_a_set_that_is_packed_in_a_tree_is_to_be_unpacked(
    tmp_path: Path,
    packed: str,
    target: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = tmp_path / "training_v6.0"
    (tree / "AMD/systems").mkdir(parents=True)
    (tree / "AMD/systems/box.json").write_text("{}")
    path = tree / "AMD/results/box" / packed
    path.parent.mkdir(parents=True)
    write_packed_tar(path)
    assert run_podium(monkeypatch, "check", str(tree / target)) == 1
    told = capsys.readouterr().out
    assert "packed files: " in told and f"{packed} (gzip)" in told
    assert "unpack them first" in told and "submit the logs" not in told


def test_a_packed_file_of_hyperparameters_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.toml"
    write_zip(path)
    assert run_podium(monkeypatch, "check", "--config", str(path)) == 2
    assert f"podium: {path} is an archive (zip): unpack it first\n" in capsys.readouterr().err
