"""A study that podium knows nothing of, in one file of another package, gets command, resume after
a kill, judge, report and site.
"""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from podium_fakes.drive import start, until
from podium_fakes.kept import keep_ceiling, keep_checkpoint

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "saturation.py"
MOST_LINES = 150

pytestmark = pytest.mark.slow


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Install the file as a package of its own: one entry point."""
    package = tmp_path / "package"
    installed = package / "podium_saturation-1.0.dist-info"
    installed.mkdir(parents=True)
    shutil.copy(EXAMPLE, package)
    (installed / "METADATA").write_text("Name: podium-saturation\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[podium.studies]\nsaturation = saturation:STUDY\n")
    keep_ceiling(tmp_path / "cache")
    keep_checkpoint(tmp_path / "results")
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PODIUM_CACHE": str(tmp_path / "cache")}


def run_podium(environment: dict[str, str], *words: object) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    command = [sys.executable, "-m", "podium", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def list_words(results: Path, *more: str) -> list[str]:
    """The command line of the study."""
    machine = ("--threads", "1", "--device", "cpu", "--system", "testbed")
    model = ("--framework", "fake", "--engine", "fake", "--set", "fake.sleep_ms=2")
    return ["study", "saturation", "fake", "--results", str(results), *machine, *model, *more]


def read_runs(results: Path) -> dict[str, bytes]:
    """LoadGen's log of each run that has ended."""
    found = results.glob("studies/*/*/*/mlperf_log_detail.txt")
    return {each.parent.name: each.read_bytes() for each in found if "partial" not in str(each)}


def test_the_example_is_one_short_file() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= MOST_LINES


def test_a_study_of_another_package_is_measured_judged_and_drawn(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Killed in its second point, it continues with the first one as it is."""
    results = tmp_path / "results"
    words = list_words(results, "--most", "4", "--gain", "0.01")
    child = start(words, ("-m", "podium"), env=environment)
    until(lambda: any(results.glob("studies/*/*/batch-2*")))
    child.kill()
    child.communicate()
    before = read_runs(results)
    assert "batch-1" in before
    done = run_podium(environment, *words)
    assert done.returncode == 0, done.stderr
    assert "saturation:" in done.stdout and "one run per point: no intervals" in done.stdout
    after = read_runs(results)
    assert {name: after[name] for name in before} == before and "batch-2" in after
    (study,) = (results / "studies").iterdir()
    assert not list(study.rglob("*.partial"))
    check = run_podium(environment, "check", study)
    assert check.returncode == 0 and "1 study" in check.stdout, check.stdout
    page = tmp_path / "page.html"
    assert run_podium(environment, "report", study, "-o", page).returncode == 0
    assert "samples/s against batch" in page.read_text()
    site = run_podium(environment, "publish", study, "-o", tmp_path / "site")
    assert site.returncode == 0, site.stderr
    assert "1 study" in (tmp_path / "site/index.html").read_text()


def test_its_points_are_repeated_and_its_edits_are_found(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    results = tmp_path / "results"
    words = list_words(results, "--most", "2", "--repeats", "2", "--format", "json")
    done = run_podium(environment, *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["points"][0]["runs"] == 2 and told["finished"]
    low, high = told["points"][0]["intervals"]["samples_per_second"]
    assert low <= told["points"][0]["samples_per_second"] <= high
    (study,) = (results / "studies").iterdir()
    table = run_podium(environment, *words[:-1], "csv").stdout
    first, *_ = csv.DictReader(io.StringIO(table))
    ends = [float(first[f"samples_per_second_{end}"]) for end in ("low", "high")]
    assert ends == pytest.approx([low, high])
    assert run_podium(environment, "check", study).returncode == 0
    record = study / "study.json"
    document = json.loads(record.read_text())
    document["requests"][0]["request"]["most"] = 1
    record.write_text(json.dumps(document))
    check = run_podium(environment, "check", study)
    assert check.returncode == 1 and "study.plan" in check.stdout
