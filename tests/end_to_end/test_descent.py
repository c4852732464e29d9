"""A workload that trains until its loss is low enough, and counts samples: trained, served, judged,
sealed, scored, compared and shown by the commands that a user types.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Podium = Callable[..., "subprocess.CompletedProcess[str]"]
Event = dict[str, Any]
Change = Callable[[list[Event]], None]
RESULTS = "open/*/results/*/descent"
SAMPLES, BATCH, EPOCHS = 80, 8, 2
"""Of the fake workload: samples of an epoch and of a step, and the epochs of the run below."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def descended(
    forked: Podium, fake: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The results of a whole campaign, and its bundle."""
    results = tmp_path_factory.mktemp("descent") / "results"
    outcome = forked("run", "descent", "--results", results, "--seed", 1, *fake)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return results, Path(outcome.stdout.splitlines()[-1].removeprefix("bundle: "))


@pytest.fixture(scope="module")
def missed(
    podium: Podium, trained: Sequence[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """The results of a run that learned nothing, and what the command said."""
    results = tmp_path_factory.mktemp("missed") / "results"
    words = ("--results", results, "--seed", 1, *trained, "--set", "data.shuffle_labels=true")
    return results, podium("train", "descent", *words)


def find_log(results: Path, number: int = 0) -> Path:
    (found,) = results.glob(f"{RESULTS}/result_{number}.txt")
    return found


def read(log: Path) -> list[Event]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def write(log: Path, events: Sequence[Event]) -> None:
    log.write_text("".join(f":::MLLOG {json.dumps(event)}\n" for event in events))


def of(events: Sequence[Event], *keys: str) -> list[Event]:
    return [event for event in events if event["key"] in keys]


def score(podium: Podium, path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(podium("score", path, "--format", "json").stdout)[
        "scores"
    ]
    return found


def judge(podium: Podium, path: Path) -> tuple[int, str, set[str]]:
    """Give the exit code, the verdict and the rules that found something."""
    outcome = podium("check", path, "--format", "json")
    (result,) = json.loads(outcome.stdout)["results"]
    return (
        outcome.returncode,
        result["verdict"],
        {finding["rule"] for finding in result["findings"]},
    )


def test_a_run_ends_with_the_first_loss_at_most_the_target(descended: tuple[Path, Path]) -> None:
    events = read(find_log(descended[0]))
    losses = [event["value"] for event in of(events, "eval_accuracy")]
    assert losses[-1] <= 1.25 < min(losses[:-1])
    assert of(events, "run_stop")[0]["metadata"]["status"] == "success"
    assert [event["metadata"]["samples_count"] for event in of(events, "eval_accuracy")] == [
        SAMPLES * (number + 1) for number in range(EPOCHS)
    ]


def test_tree_and_bundle_are_valid_and_the_bundle_verifies(
    podium: Podium, descended: tuple[Path, Path]
) -> None:
    for path in descended:
        code, verdict, found = judge(podium, path)
        assert (code, verdict) == (0, "valid"), found
    outcome = podium("verify", descended[1])
    assert outcome.returncode == 0, outcome.stdout


def test_the_score_says_that_the_loss_is_at_most_its_target(
    podium: Podium, descended: tuple[Path, Path]
) -> None:
    rows = [score(podium, path) for path in descended]
    assert rows[0] == rows[1]
    training = next(row for row in rows[0] if row["scenario"] is None)
    assert training["target"] == {"loss": 1.25} and training["lower_is_better"] == ["loss"]
    assert training["accuracy"]["loss"] <= 1.25 and training["compliant"]
    served = [row for row in rows[0] if row["scenario"]]
    assert served and all(row["lower_is_better"] == [] and row["compliant"] for row in served)
    assert "/<=1.2500 loss" in podium("score", descended[0]).stdout
    cells = podium("score", descended[0], "--format", "csv").stdout.splitlines()
    assert "accuracy_lower_is_better" in cells[0]


def test_the_report_draws_the_loss_towards_its_target(
    podium: Podium, descended: tuple[Path, Path], tmp_path: Path
) -> None:
    told = {}
    for form in ("html", "json"):
        page = tmp_path / f"page.{form}"
        assert podium("report", descended[1], "--format", form, "-o", page).returncode == 0
        told[form] = page.read_text()
    assert "1 run to the target of loss at most 1.2500; 1 reached the target." in told["html"]
    assert "target at most 1.2500" in told["html"]
    (part,) = json.loads(told["json"])["parts"]
    training = next(each for each in part["headlines"] if each["scenario"] is None)
    assert training["lower_is_better"] == ["loss"]
    section = next(each for each in part["sections"] if each["title"] == "Training")
    chart = next(each for each in section["charts"] if each["title"] == "loss over time")
    points = chart["lines"][0]["points"]
    assert [mark["value"] for mark in chart["marks"]] == [1.25]
    assert points[0][1] > 1.25 >= points[-1][1]
    (runs,) = (each for each in section["tables"] if each["title"] == "Runs")
    assert runs["rows"][0][runs["columns"].index("samples")] == str(SAMPLES * EPOCHS)


def test_two_sets_are_compared_and_the_worst_loss_of_several_runs_counts(
    podium: Podium, trained: Sequence[str], tmp_path: Path
) -> None:
    for name, seed in (("one", 1), ("two", 5)):
        words = ("--profile", "quick", "--results", tmp_path / name, "--seed", seed)
        outcome = podium("train", "descent", *words, *trained)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        assert "training until loss at most 1.1000" in outcome.stdout
        assert "(target at most 1.1000)" in outcome.stdout
        assert "<= 1.1000 in" in outcome.stdout
    (row,) = score(podium, tmp_path / "one")
    last = [
        of(read(find_log(tmp_path / "one", number)), "eval_accuracy")[-1]["value"]
        for number in range(2)
    ]
    assert row["accuracy"] == {"loss": max(last)} and min(last) < max(last) <= 1.1
    outcome = podium("compare", tmp_path / "one", tmp_path / "two", "--format", "json")
    assert outcome.returncode == 0, outcome.stderr
    (group,) = json.loads(outcome.stdout)["comparisons"]
    assert [each["reasons"] for each in group["results"]] == [[], []]


def test_served_results_are_compared_though_they_have_no_loss(
    podium: Podium, descended: tuple[Path, Path], tmp_path: Path
) -> None:
    other = Path(shutil.copytree(descended[0], tmp_path / "results"))
    outcome = podium("compare", descended[1], other, "--format", "json")
    assert "serves a checkpoint" not in outcome.stdout


def test_a_run_that_learns_nothing_misses_and_does_not_count(
    podium: Podium, missed: tuple[Path, "subprocess.CompletedProcess[str]"]
) -> None:
    results, outcome = missed
    assert outcome.returncode == 1
    assert "target not reached: loss" in outcome.stdout and "not <= 1.2500" in outcome.stdout
    code, verdict, found = judge(podium, results)
    assert (code, verdict) == (1, "not-converged") and "set.converged" in found
    (row,) = score(podium, results)
    assert row["value"] is None and not row["compliant"] and row["accuracy"]["loss"] > 1.25
    (record,) = results.glob("checkpoints/descent/*/record.json")
    assert json.loads(record.read_text())["target_reached"] is False


def test_a_list_of_workloads_says_at_most(podium: Podium) -> None:
    assert "smoke loss at most 1.25; quick loss at most 1.1" in podium("list").stdout
    details = json.loads(podium("list", "--format", "json").stdout)["details"]
    assert details["descent"]["lower_is_better"] == ["loss"]
    assert details["fake"]["lower_is_better"] == []


def set_value(key: str, value: object, place: int = -1) -> Change:
    def change(events: list[Event]) -> None:
        of(events, key)[place]["value"] = value

    return change


def set_count(key: str, count: object, place: int = -1) -> Change:
    def change(events: list[Event]) -> None:
        of(events, key)[place]["metadata"]["samples_count"] = count

    return change


def set_status(status: str) -> Change:
    def change(events: list[Event]) -> None:
        of(events, "run_stop")[0]["metadata"]["status"] = status

    return change


def drop_counts(events: list[Event]) -> None:
    for event in events:
        event["metadata"].pop("samples_count", None)


def double_counts(events: list[Event]) -> None:
    for event in events:
        if "samples_count" in event["metadata"]:
            event["metadata"]["samples_count"] *= 2


MUTANTS: dict[str, tuple[Change, str]] = {
    "target lowered": (set_value("quality_target", {"loss": 1.0}), "training.quality_target"),
    "target raised": (set_value("quality_target", {"loss": 9.0}), "training.quality_target"),
    "loss above": (set_value("eval_accuracy", 1.2501), "training.target"),
    "loss below 0": (set_value("eval_accuracy", -0.5), "training.accuracy"),
    "loss as text": (set_value("eval_accuracy", "1.1"), "training.accuracy"),
    "loss lost": (set_value("eval_accuracy", None), "training.accuracy"),
    "reached before": (set_value("eval_accuracy", 1.25, 0), "training.stopped"),
    "called aborted": (set_status("aborted"), "training.converged"),
    "count of a result": (set_count("eval_accuracy", 81), "training.epochs"),
    "count of an evaluation": (set_count("eval_stop", 160.0), "training.epochs"),
    "count of a block": (set_count("block_stop", None), "training.epochs"),
    "count before a block": (set_count("block_start", 160), "training.epochs"),
    "counts from 1": (set_count("block_start", 1, 0), "training.epochs"),
    "no counts": (drop_counts, "training.epochs"),
    "counts doubled": (double_counts, "training.epochs"),
    "an epoch of less": (set_value("train_samples", 72), "training.epochs"),
    "an epoch of more": (set_value("train_samples", 88), "training.epochs"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_judge_finds_what_was_edited(
    podium: Podium, descended: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    change, rule = MUTANTS[name]
    events = read(find_log(descended[0]))
    change(events)
    write(tmp_path / "result_0.txt", events)
    code, verdict, found = judge(podium, tmp_path / "result_0.txt")
    assert rule in found
    assert rule == "training.stopped" or (code == 1 and verdict != "valid")


@pytest.mark.parametrize("samples", [SAMPLES, SAMPLES - BATCH + 1, SAMPLES + BATCH - 1])
def test_the_last_batch_of_an_epoch_may_be_filled_up_or_left_out(
    podium: Podium, descended: tuple[Path, Path], tmp_path: Path, samples: int
) -> None:
    events = read(find_log(descended[0]))
    set_value("train_samples", samples)(events)
    write(tmp_path / "result_0.txt", events)
    assert "training.epochs" not in judge(podium, tmp_path / "result_0.txt")[2]


def test_a_run_that_missed_cannot_be_called_a_success(
    podium: Podium, missed: tuple[Path, "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    events = read(find_log(missed[0]))
    set_status("success")(events)
    write(tmp_path / "result_0.txt", events)
    code, verdict, found = judge(podium, tmp_path / "result_0.txt")
    assert (code, verdict) == (1, "broken") and "training.target" in found


def test_a_checkpoint_cannot_be_called_one_that_reached_the_target(
    podium: Podium, missed: tuple[Path, "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> None:
    results = Path(shutil.copytree(missed[0], tmp_path / "results"))
    (record,) = results.glob("checkpoints/descent/*/record.json")
    told = json.loads(record.read_text())
    record.write_text(json.dumps({**told, "target_reached": True}))
    assert judge(podium, results)[0] == 1
    assert "checkpoint.record" in judge(podium, record.parent)[2] | judge(podium, results)[2]


def test_a_loss_edited_in_a_whole_result_is_found(
    podium: Podium, descended: tuple[Path, Path], tmp_path: Path
) -> None:
    results = Path(shutil.copytree(descended[0], tmp_path / "results"))
    log = find_log(results)
    events = read(log)
    set_value("eval_accuracy", 1.0)(events)
    write(log, events)
    code, verdict, _ = judge(podium, results)
    assert (code, verdict) == (1, "broken")
