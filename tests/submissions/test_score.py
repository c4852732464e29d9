"""Scores: which runs count, which are dropped, and what is said of results that cannot be read."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from changed_results import change_result, make_result
from click.testing import CliRunner

from compliance.verdict import Finding
from submissions.cells import format_metric_value
from submissions.commands.compare import compare
from submissions.commands.score import score
from submissions.pack.bundle import pack_results
from submissions.result_index import open_results
from submissions.score.csv_table import format_scores_csv
from suite.errors import JudgedError, RequestError
from suite.loadgen.scenario import Scenario
from suite.measurement.metrics import compute_olympic_mean
from suite.result import Convergence, Machine

pytestmark = pytest.mark.usefixtures("objections")

SET = Path("open", "acme", "results", "host-torch-bf16", "resnet")


def rows(*paths: Path) -> list[dict[str, object]]:
    result = CliRunner().invoke(
        score, [*map(str, paths), "--format", "json"], catch_exceptions=False
    )
    found: list[dict[str, object]] = json.loads(result.stdout)["scores"]
    return found


@pytest.mark.parametrize(
    ("runs", "mean"),
    [
        ([3.0], 3.0),
        ([1.0, 3.0], 2.0),
        ([1.0, 2.0, 3.0, 100.0], 26.5),
        ([100.0, 2.0, 3.0, 4.0, 0.5], 3.0),
        ([None, 2.0, 3.0, 4.0, 0.5], 3.0),
        ([None, None, 3.0, 4.0, 0.5], None),
        ([None], None),
        ([1.0, None], None),
    ],
)
def test_the_fastest_and_the_slowest_of_five_are_dropped_and_a_failed_run_is_the_slowest(
    runs: list[float | None], mean: float | None
) -> None:
    assert compute_olympic_mean(runs, 5) == mean


def test_each_set_and_each_scenario_is_one_row(results: Path) -> None:
    found = rows(results)
    assert [
        (row["workload"], row["scenario"], row["metric"], row["value"], row["unit"])
        for row in found
    ] == [
        ("resnet50", None, "time_to_train", 2.0, "minutes"),
        ("resnet50", "MultiStream", "latency_p99", 2600000.0, "ns"),
        ("resnet50", "Offline", "samples_per_second", 202.5, "samples/s"),
        ("resnet50", "Server", "completed_samples_per_second", 101.25, "samples/s"),
        ("resnet50", "SingleStream", "latency_p90", 1600000.0, "ns"),
    ]
    assert all(
        row["compliant"]
        and row["org"] == "acme"
        and row["division"] == "open"
        and row["profile"] == "smoke"
        for row in found
    )


def test_a_row_has_the_keys_that_programs_read(results: Path) -> None:
    keys = [
        "org",
        "system",
        "division",
        "profile",
        "round",
        "workload",
        "scenario",
        "metric",
        "value",
        "unit",
        "runs",
        "compliant",
        "unjudged",
        "machine",
        "precision",
    ]
    measured = ["accuracy", "target", "lower_is_better"]
    measured += ["energy", "within_run", "attempts", "noise"]
    assert all(
        list(row)
        == [
            *keys,
            *measured,
            "basis",
            "whole_run",
            "whole_answers_per_s",
            "late_tokens",
            "tokens",
            "inferred",
            "convergence",
            "served",
        ]
        for row in rows(results)
    )


def test_accuracy_stands_beside_what_the_round_requires(results: Path) -> None:
    """Of a run set the last evaluation and the target, of a scenario accuracy.txt and 99 % of
    the checkpoint's reference.
    """
    (folder,) = results.rglob("Offline/accuracy")
    (folder / "accuracy.txt").write_text(f"top1=0.795635, hash={'0' * 64}\n")
    found = {row["scenario"]: (row["accuracy"], row["target"]) for row in rows(results)}
    assert found[None] == ({"top1": 0.8}, {"top1": 0.759})
    assert found["Offline"][0] == {"top1": 0.795635} and found["Offline"][1] == {
        "top1": pytest.approx(0.792)
    }
    assert found["Server"][0] == {}


def test_of_several_runs_the_lowest_accuracy_is_told(
    tmp_path: Path, make_log: Callable[..., None]
) -> None:
    """The best one would pass for that of the set."""
    for number, accuracy in enumerate((0.78, 0.77, 0.79)):
        make_log(log := tmp_path / "mine" / f"result_{number}.txt", seed=number)
        log.write_text(
            log.read_text().replace(
                '"eval_accuracy", "value": 0.8', f'"eval_accuracy", "value": {accuracy}'
            )
        )
    (row,) = rows(tmp_path / "mine")
    assert row["accuracy"] == {"top1": 0.77}


def test_a_bundle_and_its_tree_score_alike(results: Path, tmp_path: Path) -> None:
    assert rows(pack_results(results, tmp_path / "x.tar.zst")) == rows(results)


def test_a_failed_run_is_the_slowest_of_the_set(
    tmp_path: Path, make_tree: Callable[..., Path], make_log: Callable[..., None]
) -> None:
    results = make_tree(tmp_path, runs=5, scenarios=())
    make_log(results / SET / "result_0.txt", minutes=0.1, status="aborted")
    (row,) = rows(results)
    assert row["runs"] == [None, 3.0, 4.0, 5.0, 6.0]
    assert row["value"] == 5.0


def test_runs_come_in_the_order_of_their_numbers(
    tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    (row,) = rows(make_tree(tmp_path, runs=11, scenarios=()))
    assert row["runs"] == [2.0 + run for run in range(11)]


def test_the_slowest_of_several_performance_runs_counts(
    tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    results = make_tree(tmp_path, scenarios=(Scenario.SERVER, Scenario.SINGLE_STREAM))
    for detail in results.rglob("performance/run_1/mlperf_log_detail.txt"):
        other = detail.parent.parent / "run_2" / detail.name
        other.parent.mkdir()
        other.write_text(detail.read_text().replace("101.25", "99").replace("1600000", "1700000"))
    assert [row["value"] for row in rows(results)[1:]] == [99.0, 1700000.0]


@pytest.mark.parametrize(
    "part",
    [".", "open", "open/acme", "open/acme/results/host-torch-bf16", SET, SET / "result_0.txt"],
)
def test_a_part_of_a_tree_can_be_scored(results: Path, part: str) -> None:
    assert "time_to_train" in [row["metric"] for row in rows(results / part)]


def test_a_log_alone_is_scored_as_one_run(tmp_path: Path, make_tree: Callable[..., Path]) -> None:
    """Who names a file asks for that run: the set's mean would pass for its minutes."""
    (row,) = rows(make_tree(tmp_path, runs=5, scenarios=()) / SET / "result_3.txt")
    assert (row["runs"], row["value"], row["org"], row["workload"]) == (
        [5.0],
        5.0,
        "acme",
        "resnet50",
    )


def test_a_set_in_no_tree_is_scored_as_its_logs_tell_it(
    tmp_path: Path, make_log: Callable[..., None]
) -> None:
    for number in range(5):
        who = {
            "submission_org": "acme",
            "submission_platform": "box",
            "submission_division": "open",
        }
        make_log(tmp_path / "mine" / f"result_{number}.txt", minutes=2.0 + number, **who)
    (row,) = rows(tmp_path / "mine")
    assert (row["org"], row["system"], row["division"], row["workload"], row["value"]) == (
        "acme",
        "box",
        "open",
        "resnet50",
        4.0,
    )


def test_a_scenario_alone_is_one_row(results: Path) -> None:
    (row,) = rows(
        results / "open" / "acme" / "results" / "host-torch-fp32" / "resnet50" / "Offline"
    )
    assert row["scenario"] == "Offline"


def test_what_the_judge_refuses_is_scored_and_marked(
    results: Path, objections: list[Finding], objection: Finding
) -> None:
    objections.append(objection)
    assert not any(row["compliant"] for row in rows(results))


def test_csv_holds_the_same_rows(results: Path) -> None:
    text = (
        CliRunner().invoke(score, [str(results), "--format", "csv"], catch_exceptions=False).stdout
    )
    found = list(csv.DictReader(io.StringIO(text)))
    assert [row["value"] for row in found] == ["2.0", "2600000.0", "202.5", "101.25", "1600000.0"]


def test_a_column_of_the_csv_holds_one_thing_in_one_unit(results: Path) -> None:
    """What a spreadsheet or a data frame reads needs no taking apart."""
    text = (
        CliRunner().invoke(score, [str(results), "--format", "csv"], catch_exceptions=False).stdout
    )
    training, multi, offline, server, single = csv.DictReader(io.StringIO(text))
    assert (training["minutes"], training["latency_ms"], training["samples_per_s"]) == (
        "2.0",
        "",
        "",
    )
    assert (single["latency_ms"], multi["latency_ms"]) == ("1.6", "2.6")
    assert (offline["samples_per_s"], server["samples_per_s"]) == ("202.5", "101.25")
    assert (single["organisation"], single["system"]) == ("acme", "host-torch-fp32")
    assert (single["benchmark"], single["scenario"]) == ("resnet50", "SingleStream")
    assert (single["precision"], single["compliant"]) == ("fp32", "yes")
    assert (training["accuracy_metric"], training["accuracy_target"]) == ("top1", "0.759")
    assert "=" not in text


def test_each_metric_and_channel_has_columns_of_its_own() -> None:
    several = make_result(
        org="acme",
        system="host",
        division="closed",
        profile="published",
        round="training-v4.0",
        workload="maskrcnn",
        scenario=None,
        metric="time_to_train",
        value=30.0,
        unit="minutes",
        runs=(29.0, None, 31.0),
        compliant=True,
        machine=Machine(accelerator="H100, SXM", accelerators=8, nodes=1),
        accuracy={"BBOX": 0.378, "SEGM": 0.34},
        target={"BBOX": 0.377, "SEGM": 0.339},
        convergence=Convergence(factor=1.5, outcome="pass with factor", batch=64.0),
    )
    one = change_result(several, accuracy={"top1": 0.76}, target={}, convergence=None)
    first, second = csv.DictReader(io.StringIO(format_scores_csv([several, one])))
    assert (first["accelerator"], first["accelerators"]) == ("H100, SXM", "8")
    assert (first["minutes"], first["scaled_minutes"]) == ("30.0", "45.0")
    assert first["convergence_factor"] == "1.5"
    assert (first["runs"], first["run_count"]) == ("29.0 - 31.0", "3")
    assert (first["accuracy_metric_2"], first["accuracy_2"]) == ("SEGM", "0.34")
    assert first["accuracy_target_2"] == "0.339"
    assert (second["accuracy_metric"], second["accuracy_metric_2"]) == ("top1", "")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (55800.33, "55,800.33 tokens/s"),
        (68121.2, "68,121.2 tokens/s"),
        (1234570.0, "1,234,570 tokens/s"),
        (9876.5, "9,876.50 tokens/s"),
        (0.25, "0.2500 tokens/s"),
    ],
)
def test_a_large_value_is_shown_with_the_digits_that_were_measured(
    value: float, shown: str
) -> None:
    """LoadGen's detail log has six digits; a zero behind them would be invented."""
    assert format_metric_value(value, "tokens/s") == shown


def test_the_table_names_every_set(results: Path) -> None:
    text = (
        CliRunner()
        .invoke(score, [str(results)], catch_exceptions=False, env={"COLUMNS": "200"})
        .stdout
    )
    assert "2.00 min " in text
    assert "1.60 ms" in text
    assert "yes" in text


@pytest.mark.parametrize("name", ["result_0.txt", "mlperf_log_detail.txt", "run.json"])
@pytest.mark.parametrize("content", [b"", b"\0\xff" * 50, b'{"key": ', b"[]"])
def test_garbage_in_place_of_a_log_is_told_and_the_rest_is_scored(
    results: Path, name: str, content: bytes
) -> None:
    victims = [path for path in results.rglob(name) if "accuracy" not in path.parts]
    for path in victims:
        path.write_bytes(content)
    result = CliRunner().invoke(score, [str(results), "--format", "json"])
    assert isinstance(result.exception, JudgedError)
    assert str(result.exception).count("\n") == len(victims)
    assert len(json.loads(result.stdout)["scores"]) == 5 - len(victims)


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"\x28\xb5\x2f\xfdmore"])
def test_a_path_that_is_no_result_is_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.tar.zst"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(JudgedError, match="could not be scored"):
        CliRunner().invoke(score, [str(path)], catch_exceptions=False)


def test_a_folder_without_results_is_told(tmp_path: Path) -> None:
    with pytest.raises(JudgedError, match="no results"), open_results(tmp_path):
        pass


@pytest.mark.parametrize("name", ["run_²", "run_٣", "run_", "run_x"])
def test_a_folder_with_odd_digits_is_no_run(results: Path, name: str) -> None:
    """A superscript two ended score and pack with a traceback, and the judge took it for a run."""
    before = rows(results)
    for performance in list(results.rglob("performance")):
        (performance / name).mkdir()
    assert rows(results) == before


@pytest.mark.parametrize("text", ["9772[[]]", "inf", "nan", "1e999", ""])
def test_a_latency_that_is_no_number_is_told_and_the_rest_is_scored(
    results: Path, text: str
) -> None:
    """The detail log is LoadGen's, or anybody's."""
    (path,) = results.rglob("SingleStream/performance/run_1/mlperf_log_detail.txt")
    spoilt = re.sub(
        r'("early_stopping_latency_ss", "value": )[^,]+', rf"\g<1>{text}", path.read_text()
    )
    assert text in spoilt and spoilt != path.read_text()
    path.write_text(spoilt)
    outcome = CliRunner().invoke(score, [str(results), "--format", "json"])
    assert isinstance(outcome.exception, JudgedError) and "no latency" in str(outcome.exception)
    assert len(json.loads(outcome.stdout)["scores"]) == 4


@pytest.mark.parametrize("place", ["speed", "study"])
def test_a_folder_of_studies_is_compared_by_its_studies(place: str) -> None:
    path = Path(__file__).resolve().parents[1] / "examples" / "base" / place
    compared = CliRunner().invoke(compare, [str(path), str(path)])
    assert isinstance(compared.exception, RequestError)
    assert "contains no results, only studies; give the folders of two studies" in str(
        compared.exception
    )


@pytest.mark.parametrize("place", ["speed", "speed/studies/resnet50-speed", "study"])
def test_a_study_is_no_result(place: str) -> None:
    """The runs of speed alone lie in a tree of their own, and would be scored like a result."""
    path = Path(__file__).resolve().parents[1] / "examples" / "base" / place
    with (
        pytest.raises(JudgedError, match="contains no results, only studies, which podium report"),
        open_results(path),
    ):
        pass
