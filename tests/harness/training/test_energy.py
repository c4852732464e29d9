"""`podium train` with a meter: the energy of a run is its watts times its clock, and what cannot be read costs the energy alone."""

import json
from pathlib import Path

import pytest
from podium_fakes.drive import entry, events, log_path, options

from harness.training.energy import clock, sentences
from harness.training.run_set import train_set
from suite.measurement import power_readings
from suite.measurement.power_readings import Work


@pytest.mark.slow
def test_a_meter_of_100_watts_gives_100_watts_times_the_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    train_set("fake", options(results, power="off", meter="podium meter fake --watts 100 --period-ms 20"), seed=1, runs=1)
    log, telemetry = log_path(results), entry(results).training_telemetry("resnet", 0)
    times = {event["key"]: event["time_ms"] for event in events(log)}
    (logged,) = (event for event in events(log) if event["key"] == "energy")
    (found,), reasons = power_readings.records(power_readings.read(telemetry), *(clock(log) or (0, 0)), Work(samples=0))
    assert found.joules == pytest.approx(100 * (times["run_stop"] - times["run_start"]) / 1000, rel=0.01) and reasons == ()
    assert logged["value"][0]["joules"] == found.joules and logged["metadata"]["no_energy"] == []
    assert "100.00 W (meter, grade meter, scope system)" in capsys.readouterr().out


def test_a_run_without_power_says_nothing_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    train_set("fake", options(results, power="off"), seed=1, runs=1)
    assert "energy" not in capsys.readouterr().out
    (tmp_path / "telemetry_0.jsonl").write_text(json.dumps({"channels": 1}) + "\n")
    (sentence,) = sentences(log_path(results), tmp_path / "telemetry_0.jsonl")
    assert sentence.startswith("no energy: telemetry_0.jsonl")
