"""The telemetry of a training run lies beside its log, and shares its fate."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import (
    events,
    heads_and_ends,
    log_path,
    options,
    partial,
    slowed,
    until,
    words,
)
from warm import Warm

from compliance.judge import Judge
from compliance.verdict import Verdict
from harness.machine.telemetry.process import RunSampler
from harness.training import timed_run
from harness.training.export import export_weights
from harness.training.observation import Observation
from harness.training.run_set import train_run_set
from harness.training.state.checkpointing import list_checkpoint_numbers
from suite.errors import JudgedError
from suite.files.layout import compute_file_sha256
from suite.ledger.history import find_unended_attempts
from suite.ledger.steps import StepKind, parse_ledger


def telemetry(results: Path, run: int = 0) -> Path:
    return log_path(results).with_name(f"telemetry_{run}.jsonl")


@pytest.mark.slow
def test_each_run_of_a_set_has_its_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It covers the run: sampling begins before the log's first event and ends after its last
    inside the clock, before the export, which may take long. The ledger names it.
    """
    ended: list[bool] = []

    def export_later(*given: Any) -> Any:
        ended.append(telemetry(tmp_path, len(ended)).exists())
        return export_weights(*given)

    monkeypatch.setattr(timed_run, "export_weights", export_later)
    train_run_set("fake", options(tmp_path), seed=1, runs=2)
    assert ended == [True, True]
    (book,) = tmp_path.glob("open/*/ledger/fake.jsonl")
    trained = [each for each in parse_ledger(book.read_bytes()) if each.step is StepKind.TRAINED]
    for run, step in enumerate(trained):
        found = {log_path(tmp_path, run), telemetry(tmp_path, run)}
        assert {tmp_path / name for name in step.files} == found
        assert set(step.files.values()) == set(map(compute_file_sha256, found))
    assert not list(find_unended_attempts(list(parse_ledger(book.read_bytes()))))
    for run in range(2):
        lines = [json.loads(line) for line in telemetry(tmp_path, run).read_text().splitlines()]
        times = {event["key"]: event["time_ms"] for event in events(log_path(tmp_path, run))}
        assert (
            lines[0]["clocks_ns"][1] / 1e6 < times["run_start"]
            and times["run_stop"] <= lines[-1]["end"]["clocks_ns"][1] / 1e6 + 1
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "closed"), [(signal.SIGTERM, ["telemetry", "end"]), (signal.SIGKILL, ["telemetry"])]
)
def test_an_interrupted_run_goes_on_in_its_telemetry(
    light: Warm, tmp_path: Path, how: signal.Signals, closed: list[str]
):
    """One file, a segment for each time that the run was taken up; until it ends it keeps
    `.partial`, as the log does.
    """
    slow = ("fake.step_ms=10", "fake.gain=0.02")
    child = light.start(
        words(tmp_path, "--seed", "4", *(word for setting in slow for word in ("--set", setting))),
        slowed(),
    )
    until(
        lambda: (
            max(list_checkpoint_numbers(tmp_path / ".podium" / "fake" / "run_0"), default=0) >= 2
        )
    )
    child.send_signal(how)
    child.communicate(timeout=120)
    assert (
        heads_and_ends(partial(telemetry(tmp_path))) == closed and not telemetry(tmp_path).exists()
    )
    train_run_set("fake", options(tmp_path, *slow), resume=True)
    assert heads_and_ends(telemetry(tmp_path)) == [*closed, "telemetry", "end"] and not list(
        tmp_path.rglob("*.partial")
    )
    assert name_doubted_times(tmp_path) == set()


def name_doubted_times(results: Path) -> set[str]:
    """Name the rules by which the judge doubts the length of a run, or misses a record."""
    doubting = {"telemetry.outside", "telemetry.window", "telemetry.whole", "ledger.times"}
    doubting |= {"ledger.kept", "records.present"}
    return doubting & {each.rule for each in Judge().judge_path(str(results)).findings}


@pytest.mark.slow
def test_a_kill_after_the_clock_leaves_telemetry_that_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The run is over and is not trained again, so nothing else would finish its file."""

    def killed(observation: Observation) -> None:
        assert observation.sampler.process is not None
        observation.sampler.process.kill()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Observation, "finish_telemetry", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run_set("fake", options(tmp_path), seed=1)
    assert partial(telemetry(tmp_path)).exists()
    train_run_set("fake", options(tmp_path), resume=True)
    assert heads_and_ends(telemetry(tmp_path))[-2:] == ["telemetry", "end"] and not list(
        tmp_path.rglob("*.partial")
    )
    assert name_doubted_times(tmp_path) <= {"telemetry.whole"}


@pytest.mark.slow
def test_an_aborted_run_keeps_its_telemetry(tmp_path: Path):
    """Its log is finished, and counts as a run that missed: what disturbed it may stand there."""
    with pytest.raises(JudgedError):
        train_run_set("fake", options(tmp_path, "fake.fault=epoch", "fake.gain=0.01"), seed=1)
    assert heads_and_ends(telemetry(tmp_path)) == ["telemetry", "end"]


@pytest.mark.slow
def test_a_run_that_lost_its_telemetry_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Else the judge would miss the file."""

    def lose(sampler: RunSampler) -> None:
        sampler.give_up("the disk is full")

    monkeypatch.setattr(RunSampler, "finish", lose)
    train_run_set("fake", options(tmp_path), seed=1)
    lost = [each for each in events(log_path(tmp_path)) if each["key"] == "telemetry_lost"]
    assert [each["value"].partition(";")[0] for each in lost] == ["telemetry_0.jsonl is lost"]
    judged = Judge().judge_path(str(tmp_path))
    told = [each.found for each in judged.findings if each.rule == "records.present"]
    assert judged.verdict is Verdict.VALID and len(told) == 1


def test_a_run_that_never_began_leaves_no_telemetry(tmp_path: Path):
    """Nothing may read as the record of a run."""
    with pytest.raises(JudgedError):
        train_run_set("fake", options(tmp_path, "fake.fault=setup"), seed=1)
    assert not list(tmp_path.rglob("telemetry_*"))


@pytest.mark.slow
def test_a_new_set_moves_the_telemetry_aside_with_the_logs(tmp_path: Path):
    """A file of an earlier run beside a new log would tell of another time."""
    train_run_set("fake", options(tmp_path), seed=1, runs=2)
    train_run_set("fake", options(tmp_path), seed=2, runs=1)
    (old,) = tmp_path.glob(".podium/superseded/*/open/tests/results/*/resnet")
    assert sorted(path.name for path in old.iterdir()) == [
        "result_0.txt",
        "result_1.txt",
        "telemetry_0.jsonl",
        "telemetry_1.jsonl",
    ]
    assert sorted(path.name for path in log_path(tmp_path).parent.iterdir()) == [
        "result_0.txt",
        "telemetry_0.jsonl",
    ]
