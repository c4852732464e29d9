"""A run is one system's and one organisation's, in every kind of round; and a result has one file
of each role.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from kinds import endpoints, endpoints_curves, served
from kinds.training import tree as training_tree
from making_inference import LOADS, OFF, write_entry
from spoiling import swap

from compliance.documents.submitted_runs import (
    RunMark,
    SubmittedRun,
    SubmittedRuns,
    TimeShape,
)
from compliance.judge import Judge
from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG

LATENCY: Final = r'("key": "result_[a-z0-9_.]*latency_ns", "value": )(\d+)'
TIMES: Final = (400_000, 9_000_000, 3_000_000, 2_800_000, 6_000_000)


def judge(path: Path) -> list[tuple[Severity, str, str]]:
    """What is found of copied runs, with the file that it is found in."""
    found = Judge().judge_path(str(path)).findings
    return [
        (each.severity, each.found, str(Path(each.file).relative_to(path)))
        for each in found
        if each.rule == "copies.run"
    ]


def copy_system(home: Path, name: str = "other") -> Path:
    """Submit a system's results under a second name."""
    for folder in ("results", "measurements", "compliance"):
        if (home / folder / "box").exists():
            shutil.copytree(home / folder / "box", home / folder / name)
    text = (home / "systems" / "box.json").read_text()
    (home / "systems" / f"{name}.json").write_text(text.replace('"box"', f'"{name}"'))
    return home / "results" / name


def copy_organisation(home: Path) -> Path:
    """Submit an organisation's results under a second name."""
    other = Path(shutil.copytree(home, home.with_name("other")))
    for path in other.glob("systems/*.json"):
        path.write_text(path.read_text().replace(f'"{home.name}"', '"other"'))
    return other / "results"


COPIES: Final[list[Callable[[Path], Path]]] = [copy_system, copy_organisation]


def scale_latencies(folder: Path, factor: float) -> None:
    """Multiply the latencies of all performance runs."""
    for path in folder.glob(f"**/performance/**/{DETAIL_LOG}"):
        path.write_text(
            re.sub(
                LATENCY,
                lambda found: f"{found[1]}{round(int(found[2]) * factor)}",
                path.read_text(),
            )
        )


@pytest.mark.parametrize("copy", COPIES)
def test_a_loadgen_run_of_two_owners_is_an_error(
    tmp_path: Path, copy: Callable[[Path], Path]
) -> None:
    """Rounds since v1.0 had no such rule."""
    served.since()(tmp_path)
    home = tmp_path / "closed" / "acme"
    assert judge(tmp_path) == []
    copied = copy(home)
    found = judge(tmp_path)
    assert {severity for severity, _, _ in found} == {Severity.ERROR}
    assert {file.startswith(str(copied.relative_to(tmp_path))) for _, _, file in found} == {True}
    assert len(found) == len(list(copied.glob(f"**/performance/**/{DETAIL_LOG}")))


@pytest.mark.parametrize("copy", COPIES)
def test_a_loadgen_run_at_another_speed_is_a_warning(
    tmp_path: Path, copy: Callable[[Path], Path]
) -> None:
    served.since()(tmp_path)
    scale_latencies(copy(tmp_path / "closed" / "acme"), 0.999)
    found = judge(tmp_path)
    assert {severity for severity, _, _ in found} == {Severity.WARNING}
    assert all(text.startswith("the times multiplied by 0.999 of ") for _, text, _ in found)


def test_a_run_of_another_shape_is_a_run_of_its_own(tmp_path: Path) -> None:
    """One latency in ten thousand is enough."""
    served.since()(tmp_path)
    copied = copy_system(tmp_path / "closed" / "acme")
    scale_latencies(copied, 0.999)
    for path in copied.glob(f"**/performance/**/{DETAIL_LOG}"):
        swap(
            r'("key": "result_mean_latency_ns", "value": )(\d+)',
            lambda found: f"{found[1]}{round(int(found[2]) * 1.0002)}",
        )(path)
    assert judge(tmp_path) == []


@pytest.mark.parametrize("copy", COPIES)
def test_a_run_of_the_first_rounds_is_one_owner_s(
    tmp_path: Path, copy: Callable[[Path], Path]
) -> None:
    entry = write_entry(tmp_path / "open" / "acme", LOADS[OFF])
    home = entry.parents[3]
    system = entry.parents[1].name
    (home / "results" / system).rename(home / "results" / "box")
    (home / "systems" / f"{system}.json").rename(home / "systems" / "box.json")
    assert judge(home.parents[1]) == []
    copy(home)
    assert {severity for severity, _, _ in judge(home.parents[1])} == {Severity.ERROR}


@pytest.mark.parametrize(("factor", "severity"), [(1.0, Severity.ERROR), (0.999, Severity.WARNING)])
@pytest.mark.parametrize("copy", COPIES)
def test_a_run_of_the_client_is_one_owner_s(
    tmp_path: Path, copy: Callable[[Path], Path], factor: float, severity: Severity
) -> None:
    """In an entry of Inference v6.1."""
    endpoints.client_entry()(tmp_path)
    home = tmp_path / "inference_v6.1" / "closed" / "acme"
    (home / "systems").mkdir(exist_ok=True)
    (home / "systems" / "box.json").write_text('{"system_name": "box"}')
    assert judge(tmp_path) == []
    scale_summaries(copy(home), factor)
    assert {weight for weight, _, _ in judge(tmp_path)} == {severity}


def scale_summaries(folder: Path, factor: float) -> None:
    """Multiply the times of all runs of the client."""
    if factor == 1.0:
        return
    for path in folder.glob("**/result_summary.json"):
        summary = json.loads(path.read_text())
        for name in ("latency", "ttft", "tpot"):
            summary[name] = endpoints.scaled(summary[name], factor)
        path.write_text(
            json.dumps({**summary, "duration_ns": round(summary["duration_ns"] * factor)})
        )


def test_a_curve_at_another_speed_is_another_organisation_s(tmp_path: Path) -> None:
    """Exact copies are found by endpoints.copied_run."""
    root = tmp_path / "acme" / "s1"
    endpoints_curves.submission(endpoints_curves.copy_organisation)(tmp_path)
    assert root.is_dir() and judge(tmp_path) == []
    scale_summaries(tmp_path / "zcorp", 0.999)
    found = judge(tmp_path)
    assert len(found) == len(list(root.glob("results/*/*/r*")))
    assert {severity for severity, _, _ in found} == {Severity.WARNING}


def delay(path: Path, factor: float) -> None:
    """Multiply the times of a training log behind run_start."""
    lines = path.read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line.split(" ", 1)[1]) for line in lines]
    start = next(each["time_ms"] for each in records if each["key"] == "run_start")
    for each in records:
        each["time_ms"] = round(start + (each["time_ms"] - start) * factor + 3_600_000)
    path.write_text("".join(f":::MLLOG {json.dumps(each)}\n" for each in records))


def test_a_training_run_at_another_speed_is_a_warning(tmp_path: Path) -> None:
    """The results of all evaluations are the same, and their times are one factor apart."""
    training_tree(lambda home: None)(tmp_path)
    assert judge(tmp_path) == []
    for log in copy_system(tmp_path / "acme").glob("*/result_*.txt"):
        delay(log, 0.9)
    found = judge(tmp_path)
    assert found and {severity for severity, _, _ in found} == {Severity.WARNING}


def submit(name: str, shape: TimeShape | None, *marks: RunMark) -> SubmittedRun:
    return SubmittedRun(
        file=Path("tree", name, "log"), organisation=name, system="box", marks=marks, shape=shape
    )


@pytest.mark.parametrize(
    ("one", "other", "copied"),
    [
        (TIMES, [each * 1.1 for each in TIMES], True),
        (TIMES, [*TIMES[:-1], TIMES[-1] * 1.0002], False),
        (TIMES, TIMES[:-1], False),
        ([500] * 5, [500] * 5, False),
        (TIMES[:3], TIMES[:3], False),
        ([0, *TIMES], [0, *TIMES], False),
    ],
)
def test_times_without_a_shape_tell_nothing(
    one: list[float], other: list[float], copied: bool
) -> None:
    """Runs of one query, and runs that measured nothing, may be equal."""
    runs = [
        submit(name, TimeShape(counts=7, times=each)) for name, each in (("a", one), ("b", other))
    ]
    assert bool(list(SubmittedRuns(root=Path("tree"), runs=runs).find_copies())) is copied


def test_a_run_that_its_owner_submits_twice_is_another_rule_s() -> None:
    """An edge system's Offline result may be inferred from its SingleStream run."""
    runs = [submit("a", None, RunMark("times", 1)) for _ in range(2)]
    assert list(SubmittedRuns(root=Path("tree"), runs=runs).find_copies()) == []


# ---- two files of one role ----


def find_second(path: Path) -> list[tuple[str, str]]:
    return [
        (Path(each.file).name, each.found)
        for each in Judge().judge_path(str(path)).findings
        if each.rule == "file.role" and each.severity is Severity.WARNING
    ]


@pytest.mark.parametrize(
    "place", ["performance/results_summary.json", "performance/run_1/result_summary.json"]
)
@pytest.mark.parametrize("make", [endpoints.client_run(), endpoints.client_entry()])
def test_a_second_summary_of_the_client_is_named(
    tmp_path: Path, make: Callable[[Path], None], place: str
) -> None:
    """The first one was judged, and the other one never named."""
    make(tmp_path)
    read = next(tmp_path.glob("**/performance/result_summary.json"))
    second = read.parents[1] / place
    second.parent.mkdir(exist_ok=True)
    shutil.copy(read, second)
    assert find_second(tmp_path) == []
    second.write_text(read.read_text().replace('"n_samples_issued": ', '"n_samples_issued": 1'))
    assert find_second(tmp_path) == [
        (second.name, "a second summary, which differs from result_summary.json")
    ]


def test_a_second_summary_of_a_point_is_named(tmp_path: Path) -> None:
    endpoints_curves.submission()(tmp_path)
    read = next(tmp_path.glob("**/r64/result_summary.json"))
    summary = json.loads(read.read_text())
    other = json.dumps({**summary, "n_samples_issued": summary["n_samples_issued"] + 1})
    read.with_name("results_summary.json").write_text(other)
    assert find_second(tmp_path) == [
        ("results_summary.json", "a second summary, which differs from result_summary.json")
    ]


@pytest.mark.parametrize("name", ["mlperf_log_detail_2.txt", "mlperf_log_detail (copy).txt"])
def test_a_second_log_of_loadgen_is_named(tmp_path: Path, name: str) -> None:
    served.since()(tmp_path)
    read = next(tmp_path.glob(f"**/Server/performance/run_1/{DETAIL_LOG}"))
    read.with_name(name).write_text(read.read_text())
    assert find_second(tmp_path) == []
    read.with_name(name).write_text(read.read_text().replace("VALID", "INVALID"))
    assert find_second(tmp_path) == [
        (name, "a second detail log, which differs from mlperf_log_detail.txt")
    ]
