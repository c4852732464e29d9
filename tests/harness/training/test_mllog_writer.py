"""The log: its lines, its name, and what happens when it cannot be written."""

import json
import time
from pathlib import Path

import pytest
from podium_fakes.drive import events, partial

from harness.training import mllog_writer
from harness.training.mllog_writer import LogError, MllogWriter


def test_a_line_has_the_form_of_mlperf_training_v07(tmp_path: Path):
    """The official parser asks for these members, an integer time and the place in the code."""
    with MllogWriter(tmp_path / "log") as log:
        log.log_start("epoch_start", epoch_num=1)
        log.log_point("seed", 7)
        log.log_stop("run_stop", status="aborted")
    lines = partial(tmp_path / "log").read_text().splitlines()
    assert all(line.startswith(":::MLLOG {") for line in lines)
    first, second, third = (json.loads(line.removeprefix(":::MLLOG ")) for line in lines)
    assert list(first) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
    assert (first["event_type"], second["event_type"], third["event_type"]) == (
        "INTERVAL_START",
        "POINT_IN_TIME",
        "INTERVAL_END",
    )
    assert isinstance(first["time_ms"], int) and first["value"] is None and second["value"] == 7
    assert (
        first["metadata"]["epoch_num"] == 1
        and first["metadata"]["file"] == "training/test_mllog_writer.py"
        and first["metadata"]["lineno"] > 0
    )
    assert third["metadata"]["status"] == "aborted"


def test_the_log_has_its_name_only_when_finished(tmp_path: Path):
    """A log that was cut short must not read as a result."""
    with MllogWriter(tmp_path / "a" / "log") as log:
        log.log_point("seed", 1)
        assert not (tmp_path / "a" / "log").exists()
        log.finish()
    assert [event["key"] for event in events(tmp_path / "a" / "log")] == ["seed"] and not partial(
        tmp_path / "a" / "log"
    ).exists()


def test_a_torn_last_line_is_cut_off(tmp_path: Path):
    """A kill within a write leaves half a line; going on behind it would spoil the next one."""
    partial(tmp_path / "log").write_text(':::MLLOG {"key": "whole"}\n:::MLLOG {"ke')
    with MllogWriter(tmp_path / "log") as log:
        log.log_point("next")
        assert log.offset == partial(tmp_path / "log").stat().st_size
    assert [event["key"] for event in events(partial(tmp_path / "log"))] == ["whole", "next"]


def test_what_lies_behind_an_offset_can_be_forgotten(tmp_path: Path):
    """Lines after run_stop are written again when scoring is interrupted; twice would be wrong."""
    with MllogWriter(tmp_path / "log") as log:
        log.log_point("run_stop")
        offset = log.offset
        log.log_point("checkpoint_sha256", "a")
        log.truncate_log(offset)
        log.log_point("checkpoint_sha256", "b")
    assert [event["value"] for event in events(partial(tmp_path / "log"))] == [None, "b"]


def test_a_clock_set_back_does_not_disorder_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The judge calls timestamps that go back broken, and a run without a duration."""
    utc_ms, steady_ms = iter([5_000, 3_000, 90_000]), iter([100, 200, 250, 300, 310, 320, 330])
    monkeypatch.setattr(time, "time_ns", lambda: next(utc_ms) * 10**6)
    monkeypatch.setattr(mllog_writer, "read_steady_ns", lambda: next(steady_ms) * 10**6)
    with MllogWriter(tmp_path / "log") as log:
        for _ in range(2):
            log.log_point("x")
    with MllogWriter(tmp_path / "log") as log:  # as an export continues a training's log
        log.log_point("x")
    times = [event["time_ms"] for event in events(partial(tmp_path / "log"))]
    assert times[:2] == [5_150, 5_200] and times[2] >= times[1] and times[2] - times[1] <= 20


@pytest.mark.parametrize("step_s", [-86_400, -3_600, 3_600])
def test_a_clock_that_is_set_during_a_run_changes_no_duration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: int
):
    """A run of two seconds would have taken an hour, or none at all."""
    real = time.time_ns
    with MllogWriter(tmp_path / "log") as log:
        log.log_start("run_start")
        monkeypatch.setattr(time, "time_ns", lambda: real() + step_s * 10**9)
        log.log_stop("run_stop")
    first, last = (event["time_ms"] for event in events(partial(tmp_path / "log")))
    assert 0 <= last - first < 10_000


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A traceback, or going on with a log that has a hole, would both be wrong."""
    with MllogWriter(tmp_path / "log") as log:
        log.log_point("seed", 1)
        with (
            Path("/dev/full").open("wb", buffering=0) as full,
            pytest.raises(LogError, match=r"No space left on device; this run does not count"),
        ):
            log._stream.close()
            monkeypatch.setattr(log, "_stream", full)
            log.log_point("epoch_start")
    assert not (tmp_path / "log").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path):
    """A results folder that is a file, or read-only, is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="cannot write the log"):
        MllogWriter(tmp_path / "file" / "log")


def test_a_number_that_is_none_is_refused(tmp_path: Path):
    """NaN is no JSON: a log with it could not be read by anybody."""
    with MllogWriter(tmp_path / "log") as log, pytest.raises(ValueError, match="JSON"):
        log.log_point("loss", float("nan"))


def test_other_ranks_keep_no_log(tmp_path: Path):
    """A second rank that wrote would tear the first one's lines."""
    with MllogWriter(None) as log:
        log.log_start("run_start")
        log.sync_log()
        log.truncate_log(0)
        log.finish()
        assert log.offset == 0
    assert not list(tmp_path.iterdir())
