"""Scores of published results: minutes and their mean from the logs alone, whatever the form of log
and tree; equal to what was established.
"""

import csv
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import CORPUS

from compliance.judge import Judge
from compliance.kinds.training.score import find_most_frequent_division
from compliance.verdict import Finding
from submissions.commands.score import score
from suite.errors import JudgedError

START_S = 1_600_000_000.0


def rows(*paths: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(
        score, [*map(str, paths), "--format", "json"], catch_exceptions=False
    )
    found: list[dict[str, Any]] = json.loads(result.stdout)["scores"]
    return found


def new_line(key: str, value: Any, seconds: float, **metadata: Any) -> str:
    document = {
        "namespace": "",
        "time_ms": int(seconds * 1000),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": metadata,
    }
    return f":::MLLOG {json.dumps(document)}\n"


def old_line(key: str, value: Any, seconds: float, **metadata: Any) -> str:
    return (
        f':::MLL {seconds} {key}: {{"value": {json.dumps(value)}, "metadata":'
        f" {json.dumps(metadata)}}}\n"
    )


def seconds_line(key: str, value: Any, seconds: float, **metadata: Any) -> str:
    return (
        ":::MLLOG"
        f" {json.dumps({'time_s': seconds, 'key': key, 'value': value, 'metadata': metadata})}\n"
    )


def log(
    minutes: float,
    status: str = "success",
    line: Callable[..., str] = new_line,
    benchmark: str = "resnet",
    header_last: bool = False,
    score: Any = 0.76,
) -> str:
    header = "".join(
        line(f"submission_{key}", value, 0)
        for key, value in {"org": "Some Org", "benchmark": benchmark, "division": "closed"}.items()
    )
    body = (
        "a line of a progress bar\n"
        + line("run_start", None, START_S)
        + line("eval_accuracy", score, START_S + 1, epoch_num=61)
    )
    body += line("run_stop", None, START_S + minutes * 60, status=status)
    return body + header if header_last else header + body


def fill(folder: Path, *texts: str, first: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts, first):
        (folder / f"result_{number}.txt").write_text(text)
    return folder


@pytest.fixture(autouse=True)
def quiet(objections: list[Finding]) -> list[Finding]:
    """What the judge says is its own tests' business."""
    return objections


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "round" / "SomeOrg" / "systems").mkdir(parents=True)
    return tmp_path / "round" / "SomeOrg"


@pytest.mark.parametrize(
    ("line", "round_name"),
    [(new_line, "training-v0.7"), (seconds_line, "training-v0.7"), (old_line, "training-v0.6")],
)
def test_a_set_is_one_row_in_any_dialect(
    home: Path, line: Callable[..., str], round_name: str
) -> None:
    fill(
        home / "results" / "box-8" / "resnet",
        *(log(minutes, line=line) for minutes in (10, 11, 12, 13, 30)),
    )
    [row] = rows(home.parent)
    assert row["value"] == pytest.approx(12)
    assert row["runs"] == pytest.approx([10, 11, 12, 13, 30])
    told = {
        key: row[key]
        for key in (
            "org",
            "system",
            "division",
            "profile",
            "round",
            "workload",
            "scenario",
            "metric",
            "unit",
            "compliant",
        )
    }
    assert told == {
        "org": "SomeOrg",
        "system": "box-8",
        "division": "closed",
        "profile": "published",
        "round": round_name,
        "workload": "resnet",
        "scenario": None,
        "metric": "time_to_train",
        "unit": "minutes",
        "compliant": True,
    }


def test_a_set_in_no_tree_is_scored_as_its_logs_tell_it(tmp_path: Path) -> None:
    folder = fill(tmp_path / "mine", *(log(minutes) for minutes in (10, 11, 12, 13, 30)))
    [row] = rows(folder)
    assert (row["org"], row["system"], row["division"], row["workload"], row["value"]) == (
        "Some Org",
        "",
        "closed",
        "resnet",
        pytest.approx(12),
    )
    [row] = rows(folder / "result_4.txt")
    assert (row["org"], row["runs"], row["value"]) == ("Some Org", [30], 30)


def test_a_header_at_the_end_of_the_file_is_a_header(home: Path) -> None:
    fill(
        home / "results" / "box" / "resnet",
        *(log(minutes, header_last=True) for minutes in (1, 2, 3)),
    )
    [row] = rows(home)
    assert (row["division"], row["value"]) == ("closed", pytest.approx(2))


@pytest.mark.parametrize("status", ["abort", "aborted", "success ", "", None])
def test_any_status_but_success_is_the_slowest_run(home: Path, status: str) -> None:
    """One accepted log stopped as aborted behind its target: its set's published mean counts it as
    the slowest.
    """
    fill(
        home / "results" / "box" / "resnet",
        log(1, status=status),
        *(log(minutes) for minutes in (10, 11, 12, 13)),
    )
    [row] = rows(home)
    assert row["runs"] == [None, 10, 11, 12, 13]
    assert row["value"] == pytest.approx(12)


@pytest.mark.parametrize(
    ("runs", "mean"),
    [
        (((10, "success"),), 10),
        (((10, "success"), (20, "success")), 15),
        (((10, "success"), (20, "success"), (60, "success")), 20),
        (((10, "success"), (20, "success"), (30, "success"), (60, "success")), 25),
        (((1, "aborted"), (2, "aborted"), (10, "success"), (11, "success"), (12, "success")), None),
        (((10, "aborted"),), None),
    ],
)
def test_a_set_with_too_few_runs_is_scored_all_the_same(
    home: Path, runs: Sequence[tuple[float, str]], mean: float | None
) -> None:
    fill(home / "results" / "box" / "resnet", *(log(minutes, status) for minutes, status in runs))
    assert rows(home)[0]["value"] == (None if mean is None else pytest.approx(mean))


def test_a_flat_set_is_scored_under_the_benchmark_that_its_logs_name(home: Path) -> None:
    """results/<system>/result_N.txt, as three published sets lie."""
    fill(home / "results" / "box" / "resnet", *(log(minutes) for minutes in (1, 2, 3)))
    fill(
        home / "results" / "flat",
        *(log(minutes, benchmark="ssd", score=0.24) for minutes in (4, 5, 6)),
        first=1,
    )
    assert [(row["system"], row["workload"], row["value"]) for row in rows(home)] == [
        ("box", "resnet", pytest.approx(2)),
        ("flat", "ssd", pytest.approx(5)),
    ]


@pytest.mark.parametrize("folder", ["mask", "maskrcnn", "MaskRCNN"])
def test_a_benchmark_goes_by_the_name_that_the_round_has_for_it(home: Path, folder: str) -> None:
    fill(
        home / "results" / "box" / folder,
        *(
            log(minutes, benchmark="mask", line=old_line, score=[0.38, 0.35])
            for minutes in (1, 2, 3)
        ),
    )
    assert rows(home)[0]["workload"] == "maskrcnn"


def test_trees_that_lie_beside_one_another_are_scored_together(home: Path) -> None:
    other = home.parent.parent / "other" / "OtherOrg"
    (other / "systems").mkdir(parents=True)
    fill(home / "results" / "box" / "resnet", log(1))
    fill(other / "results" / "box" / "resnet", log(2, line=old_line))
    assert [(row["org"], row["round"]) for row in rows(home.parent.parent)] == [
        ("OtherOrg", "training-v0.6"),
        ("SomeOrg", "training-v0.7"),
    ]


def test_an_organisation_without_system_files_is_found_by_its_logs(tmp_path: Path) -> None:
    fill(tmp_path / "round" / "Org" / "results" / "box" / "resnet", log(1))
    assert [row["org"] for row in rows(tmp_path / "round")] == ["Org"]


def test_a_set_without_a_clock_is_told_and_the_rest_is_scored(home: Path) -> None:
    fill(home / "results" / "box" / "resnet", log(1))
    fill(home / "results" / "box" / "ssd", ":::MLLOG {}\n", "")
    ended = CliRunner().invoke(score, [str(home), "--format", "json"])
    assert isinstance(ended.exception, JudgedError)
    assert "contain no run_start and run_stop" in str(ended.exception)
    assert len(json.loads(ended.stdout)["scores"]) == 1


def test_a_text_log_that_tells_its_total_is_scored_by_it(home: Path) -> None:
    """The form from before v0.6 prints whole seconds, and one total with six digits."""
    text = (
        "MLPerf: resnet [06/01/19 10:00:00], run_start\nMLPerf: resnet [06/01/19 10:09:00],"
        ' eval_accuracy: {"value": 76.10000%, "epoch": 61}\n'
    )
    text += (
        "MLPerf: resnet [06/01/19 10:10:00], run_stop\nMLPerf: resnet [06/01/19 10:10:00], Total"
        " runtime: 9.987654 minutes\n"
    )
    fill(home / "results" / "box" / "resnet", text)
    [row] = rows(home)
    assert (row["runs"], row["round"], row["division"]) == ([9.9877], "training-v0.6", "")


def test_logs_that_name_no_division_leave_it_open() -> None:
    assert find_most_frequent_division([]) is None


SUMMARY = (
    "Scenario : {scenario}\nMode     : Performance\n{headline}\nResult is : VALID\n\nqsl_rng_seed :"
    " 3133965575612453542\n"
)
HEADLINES = {
    "SingleStream": ("Single Stream", "90th percentile latency (ns) : 1500", "latency_p90", "ns"),
    "MultiStream": (
        "Multi Stream",
        "Samples per query : 1500",
        "samples_per_query",
        "samples/query",
    ),
    "Server": (
        "Server",
        "Scheduled samples per second : 1500",
        "scheduled_samples_per_second",
        "queries/s",
    ),
    "Offline": ("Offline", "Samples per second: 1500", "samples_per_second", "samples/s"),
}


@pytest.mark.parametrize("scenario", HEADLINES)
@pytest.mark.parametrize("below", ["run_1", "run_0", "."])
def test_each_scenario_has_its_metric(tmp_path: Path, scenario: str, below: str) -> None:
    """Runs are counted from 0 or 1, and some lie in performance/ itself."""
    home = tmp_path / "closed" / "SomeOrg"
    label, headline, metric, unit = HEADLINES[scenario]
    run = home / "results" / "box" / "ssd-small" / scenario / "performance" / below
    run.mkdir(parents=True)
    (run / "mlperf_log_summary.txt").write_text(SUMMARY.format(scenario=label, headline=headline))
    [row] = rows(tmp_path)
    told = {
        key: row[key]
        for key in ("division", "round", "workload", "scenario", "metric", "value", "unit", "runs")
    }
    assert told == {
        "division": "closed",
        "round": "inference-v0.5",
        "workload": "ssd-small",
        "scenario": scenario,
        "metric": metric,
        "value": 1500.0,
        "unit": unit,
        "runs": [1500.0],
    }


def test_of_several_server_runs_the_lowest_counts(tmp_path: Path) -> None:
    for number in range(1, 6):
        run = (
            tmp_path
            / "closed"
            / "O"
            / "results"
            / "box"
            / "resnet"
            / "server"
            / "performance"
            / f"run_{number}"
        )
        run.mkdir(parents=True)
        text = SUMMARY.format(
            scenario="Server", headline=f"Scheduled samples per second : {100 - number}"
        )
        (run / "mlperf_log_summary.txt").write_text(text)
    [row] = rows(tmp_path)
    assert (row["value"], row["runs"], row["scenario"]) == (
        95.0,
        [99.0, 98.0, 97.0, 96.0, 95.0],
        "Server",
    )


@pytest.mark.parametrize("form", ["text", "csv"])
def test_published_rows_can_be_had_as_text_and_csv(home: Path, form: str) -> None:
    fill(home / "results" / "box" / "resnet", *(log(minutes) for minutes in (1, 2, 3)))
    text = (
        CliRunner()
        .invoke(
            score, [str(home), "--format", form], catch_exceptions=False, env={"COLUMNS": "200"}
        )
        .stdout
    )
    assert "SomeOrg" in text
    assert "published" in text


def test_one_judge_serves_all_rows(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge for each row would read what several share as often as there are rows."""
    seen: list[Judge | None] = []

    def findings(
        path: Path, kind: object = None, judge: Judge | None = None
    ) -> tuple[Finding, ...]:
        seen.append(judge)
        return ()

    monkeypatch.setattr("submissions.compliance_check.judge_path", findings)
    for name in ("resnet", "ssd", "gnmt"):
        fill(home / "results" / "box" / name, log(1, benchmark=name))
    assert len(rows(home)) == 3
    assert len({id(judge) for judge in seen}) == 1
    assert seen[0] is not None


# ---- what was established about published results ----


def expected(name: str) -> list[Mapping[str, str]]:
    with (CORPUS / "expected" / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("round_name", ["v0.6", "v0.7"])
def test_training_scores_are_those_that_were_established(round_name: str) -> None:
    found = {
        (row["org"], row["system"], row["workload"]): row
        for row in rows(CORPUS / f"training_{round_name}")
    }
    told = {
        (row["org"], row["system"], row["benchmark"]): row
        for row in expected(f"training_{round_name}_scores.csv")
    }
    assert told.keys() <= found.keys()  # some sets came later than the table
    for key, row in told.items():
        ours = found[key]
        assert ours["round"] == f"training-{round_name}"
        assert ours["value"] == pytest.approx(float(row["olympic_mean_min"]), abs=5e-5), key
        assert round(ours["value"], 4) == float(row["olympic_mean_min"]), key
        assert len(ours["runs"]) == int(row["runs"])
        assert ours["runs"].count(None) == int(row["non_converged"])


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("round_name", ["v0.6", "v0.7"])
def test_minutes_of_each_run_are_those_that_were_established(round_name: str) -> None:
    found = {
        (row["org"], row["system"], row["workload"]): row["runs"]
        for row in rows(CORPUS / f"training_{round_name}")
    }
    told: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for row in expected(f"training_{round_name}_runs.csv"):
        minutes = float(row["ttt_min"]) if row["status"] in ("success", "n/a") else math.nan
        number = int(row["file"].removeprefix("result_").removesuffix(".txt"))
        told.setdefault((row["org"], row["system"], row["benchmark"]), []).append((number, minutes))
    for key, runs in told.items():
        wanted = [minutes for _, minutes in sorted(runs)]
        assert [math.nan if run is None else run for run in found[key]] == pytest.approx(
            wanted, abs=1e-9, nan_ok=True
        ), key


@pytest.mark.corpus
def test_inference_metrics_are_those_that_were_established() -> None:
    found = {
        (row["division"], row["org"], row["system"], row["workload"], row["scenario"]): row["value"]
        for row in rows(CORPUS / "inference_v0.5")
    }
    told = expected("inference_v0.5_official_verdicts.csv")
    established = {row["org"] for row in told}
    assert len(told) == len([org for _, org, *_ in found if org in established])
    for row in told:
        assert found[
            row["division"], row["org"], row["system"], row["model"], row["scenario"]
        ] == float(row["result"])
