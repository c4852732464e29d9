"""`podium list runs`: what a folder holds, the newest first."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples import EXAMPLES

from suite.cli import group
from suite.errors import JudgedError

BASE = EXAMPLES / "base"


def list_runs(*words: str) -> str:
    result = CliRunner().invoke(group, ["list", "runs", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_result_has_day_verdict_and_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(BASE / "tree", "results")
    heads, *lines = list_runs().splitlines()
    assert heads.split() == [
        *("date", "verdict", "workload", "scenario", "label", "value", "profile", "folder")
    ]
    assert len(lines) == 2
    assert re.match(r"2023-11-14  valid +resnet50  SingleStream  box-torch-fp32 ", lines[0])
    assert lines == list_runs("results").splitlines()[1:]
    for run in json.loads(list_runs("--format", "json"))["runs"]:
        assert Path("results", run["folder"]).is_dir()
        assert (run["verdict"], run["compliant"], run["org"]) == ("valid", True, "acme")


def test_the_newest_is_first(tmp_path: Path) -> None:
    shutil.copytree(BASE / "tree", tmp_path / "results")
    for detail in (tmp_path / "results").rglob("mlperf_log_detail.txt"):
        detail.write_text(detail.read_text().replace('"2023-11-14T', '"2023-11-15T'))
    found = json.loads(list_runs(str(tmp_path / "results"), "--format", "json"))["runs"]
    days = [each["date"] for each in found]
    assert days == sorted(days, reverse=True)
    assert len(days) == 2


def test_a_bundle_is_listed_like_its_folder() -> None:
    bundle = json.loads(list_runs(str(BASE / "bundle" / "acme.tar.zst"), "--format", "json"))
    folders = {each["folder"] for each in bundle["runs"]}
    assert folders and all(each.startswith("open/acme/results/") for each in folders)


def test_a_folder_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="no such file or folder"):
        list_runs(str(tmp_path / "nowhere"))
