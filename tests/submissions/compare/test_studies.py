"""`podium compare` of studies: points are paired by what they measure, tested as results are, and
what cannot be compared is refused in a sentence.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from making_study import write_study
from spoiling import setting

from submissions.commands.compare import compare
from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL_LOG
from suite.studies.measured import read_measured_study

BASE = Path(__file__).parents[2] / "examples" / "base"


def invoked(*arguments: object) -> Result:
    return CliRunner().invoke(compare, [*map(str, arguments)], catch_exceptions=False)


def document(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoked(*arguments, "--format", "json").stdout)
    return found


def copy_study(kind: str, target: Path) -> Path:
    """A copy of the example of a kind, in a results folder of its own."""
    (study,) = (BASE / kind / "studies").iterdir()
    return Path(shutil.copytree(study, target / "studies" / study.name))


def change_record(study: Path, name: str, value: Any) -> None:
    """Change what the command asked for."""
    record = json.loads((study / "study.json").read_text())
    record["requests"][0]["request"][name] = value
    (study / "study.json").write_text(json.dumps(record))


@pytest.fixture(scope="module")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two sweeps of three runs a point, the second with longer latencies."""
    root = tmp_path_factory.mktemp("sweeps")
    return (
        write_study(root / "a", (1.0, 1.02, 1.04)),
        write_study(root / "b", (2.0, 2.02, 2.04)),
    )


@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("study", ["toy batch 8"]),
        ("precision", ["resnet50 Offline", "resnet50 SingleStream"]),
        ("peak", ["resnet50 Server peak"]),
    ],
)
def test_the_points_of_each_kind_are_paired(kind: str, lines: list[str], tmp_path: Path) -> None:
    """Of a study and its copy, which is as fast."""
    first, other = copy_study(kind, tmp_path / "a"), copy_study(kind, tmp_path / "b")
    printed = invoked(first, other / "study.json").stdout
    assert printed.splitlines()[: len(lines)] == [
        f"{name}: B is 1.00x as fast as A, one run each, no interval; not tested" for name in lines
    ]
    assert "figures of studies are not results" in printed


def test_runs_of_a_point_are_tested_as_those_of_a_result(sweeps: tuple[Path, Path]) -> None:
    """The ratio is that of the geometric means of what the runs' logs give."""
    found = document(*sweeps)
    (point,) = found["comparisons"]
    assert (point["workload"], point["scenario"], point["comparable"]) == ("toy", "batch 8", True)
    first, other = point["results"]
    runs = read_measured_study(sweeps[0]).points[0].runs
    assert first["runs"] == [run.figures.samples_per_second for run in runs] and len(runs) == 3
    assert other["verdict"] == "slower" and other["statistic"] == "geometric mean"
    assert other["ratio"] == pytest.approx(other["geometric_mean"] / first["geometric_mean"])
    low, high = other["ratio_interval"]["low"], other["ratio_interval"]["high"]
    assert low < other["ratio"] < high < 1 and first["study"] == "toy"
    (line,) = found["conclusions"]
    assert line.startswith("toy batch 8: B is 0.") and line.endswith("; slower")
    assert invoked(*sweeps, "--require", "separable").exit_code == 0


def test_equal_sweeps_are_not_separable(sweeps: tuple[Path, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(sweeps[0], tmp_path / "copy" / "studies" / "toy"))
    assert "; not separable" in invoked(sweeps[0], copy).stdout
    with pytest.raises(JudgedError, match="some results are not separable"):
        invoked(sweeps[0], copy, "--require", "separable")


def test_a_page_draws_the_points(sweeps: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    invoked(*sweeps, "-o", page, "--label", "A=before", "--label", "B=after")
    text = page.read_text()
    assert text.count('<svg class="chart"') == 1 and ">after</text>" in text
    assert "separable, slower" in text


def test_a_rate_of_server_that_was_asked_for_has_no_ratio(tmp_path: Path) -> None:
    """Twice the requested rate is not twice the speed."""
    first, other = (copy_study("speed", tmp_path / name) for name in "ab")
    (line,) = document(first, other)["conclusions"]
    assert line.startswith("resnet50 Server: B is not tested: run at requested rates")


def test_peaks_within_other_bounds_are_not_comparable(tmp_path: Path) -> None:
    first, other = copy_study("peak", tmp_path / "a"), copy_study("peak", tmp_path / "b")
    bound_ns = json.loads((other / "study.json").read_text())["requests"][0]["request"]["bound_ns"]
    change_record(other, "bound_ns", 2 * bound_ns)
    with pytest.raises(JudgedError):  # the judge repeats the search
        invoked(first, other)
    result = CliRunner().invoke(compare, [str(first), str(other), "--format", "json"])
    (point,) = json.loads(result.stdout)["comparisons"]
    told = point["results"][1]["reasons"]
    milliseconds = bound_ns // 1_000_000
    assert f"bound ms: {milliseconds} and {2 * milliseconds}" in told


def test_a_study_that_the_judge_objects_to_does_not_count(tmp_path: Path) -> None:
    first, other = copy_study("precision", tmp_path / "a"), copy_study("precision", tmp_path / "b")
    setting("result_validity", "INVALID")(next(other.rglob("offline")) / DETAIL_LOG)
    result = CliRunner().invoke(compare, [str(first), str(other)])
    assert isinstance(result.exception, JudgedError)
    assert "resnet50-precision: box, resnet50 Offline is not compliant" in str(result.exception)
    assert "B is not comparable with A: this is not compliant" in result.stdout


def test_a_point_of_one_study_only_is_named(tmp_path: Path) -> None:
    """The other was interrupted, which the judge says."""
    first, other = copy_study("precision", tmp_path / "a"), copy_study("precision", tmp_path / "b")
    record = json.loads((other / "study.json").read_text())
    record["runs"] = [each for each in record["runs"] if "single" not in each]
    (other / "study.json").write_text(json.dumps(record))
    result = CliRunner().invoke(compare, [str(first), str(other)])
    assert "resnet50 SingleStream: B has no such point" in result.stdout
    assert "does not pass `podium check`" in str(result.exception)


@pytest.mark.parametrize(
    ("kinds", "words", "told"),
    [
        (("study", "peak"), (), "only studies of one kind compare"),
        (("study", "tree"), (), "no study, and studies only compare with studies"),
        (("peak", "peak"), ("--scaling",), "--scaling: not for studies"),
        (("speed", "speed"), ("--published", "training-v0.7"), "--published: not for studies"),
        (("speed", "speed"), ("--baseline", "elsewhere"), "--baseline elsewhere: neither"),
    ],
)
def test_what_may_not_be_compared_is_refused(
    kinds: tuple[str, str], words: tuple[str, ...], told: str
) -> None:
    paths = [next((BASE / kind).glob("studies/*"), BASE / kind) for kind in kinds]
    with pytest.raises(RequestError, match=told):
        invoked(*paths, *words)


def rename_workload(study: Path, name: str) -> None:
    """Give a study of one run another subject."""
    (record,) = study.rglob("system.json")
    record.write_text(record.read_text().replace('"resnet50"', f'"{name}"'))


def test_studies_of_two_workloads_are_refused(tmp_path: Path) -> None:
    """Not their speeds are compared, but their models."""
    from suite.records import read_system_record

    first, other = copy_study("speed", tmp_path / "a"), copy_study("speed", tmp_path / "b")
    rename_workload(other, "gnmt")
    (record,) = other.rglob("system.json")
    digest = read_system_record(record.parent).compute_digest()
    for path in other.rglob("run.json"):
        run = json.loads(path.read_text()) | {"system_sha256": digest}
        path.write_text(json.dumps(run))
    with pytest.raises(RequestError, match="only studies of one workload, or of ONNX files"):
        invoked(first, other)


def test_a_folder_of_studies_says_what_to_give(tmp_path: Path) -> None:
    study = copy_study("speed", tmp_path / "a")
    with pytest.raises(RequestError, match="only studies; give the folders of two studies"):
        invoked(study.parents[1], study.parents[1])
