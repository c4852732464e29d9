"""`podium train` with a meter: the energy of a run is its watts times its clock, and what cannot be
read costs the energy alone.
"""

import json
import signal
import time
from pathlib import Path

import pytest
from podium_fakes.drive import entry, events, keys, log_path, options, partial, slowed, until, words
from warm import Warm

from compliance.judge import Judge
from harness.training.energy import describe_run_energy, read_run_clock
from harness.training.run_set import train_run_set
from suite.energy import MAX_GAP_MS
from suite.files.layout import compute_file_sha256
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork

METER = "podium meter fake --watts 100 --period-ms 20"


@pytest.mark.slow
def test_a_meter_of_100_watts_gives_100_watts_times_the_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    train_run_set("fake", options(results, power="off", meter=METER), seed=1, runs=1)
    log, telemetry = log_path(results), entry(results).locate_training_telemetry("resnet", 0)
    times = {event["key"]: event["time_ms"] for event in events(log)}
    (logged,) = (event for event in events(log) if event["key"] == "telemetry_sha256")
    (found,), reasons = power_readings.build_energy_records(
        power_readings.read_power_readings(telemetry),
        *(read_run_clock(log) or (0, 0)),
        MeasuredWork(samples=0),
    )
    assert (
        found.joules
        == pytest.approx(100 * (times["run_stop"] - times["run_start"]) / 1000, rel=0.01)
        and reasons == ()
    )
    assert logged["value"] == compute_file_sha256(telemetry)
    assert "100.00 W (meter, grade meter, scope system)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_stood_still_for_long_has_no_energy(light: Warm, tmp_path: Path) -> None:
    """Its clock went on while nobody read the watts: what its first part drew is not its energy,
    and the judge finds the same.
    """
    results, slow = tmp_path / "results", ("fake.step_ms=10", "fake.gain=0.02")
    given = [word for setting in slow for word in ("--set", setting)]
    child = light.start(
        words(results, "--seed", "1", "--power", "off", "--meter", METER, *given), slowed()
    )
    until(
        lambda: (
            partial(log_path(results)).exists() and "epoch_stop" in keys(partial(log_path(results)))
        )
    )
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=40)
    time.sleep(1.1 * MAX_GAP_MS / 1000)
    train_run_set("fake", options(results, *slow, power="off", meter=METER), resume=True)
    found = events(log_path(results))
    first, last = (event for event in found if event["key"] == "run_stop")
    assert (first["metadata"]["status"], last["metadata"]["status"]) == ("aborted", "success")
    assert (read_run_clock(log_path(results)) or (0, 0))[1] == 1_000_000 * last["time_ms"]
    telemetry = entry(results).locate_training_telemetry("resnet", 0)
    (sentence,) = describe_run_energy(log_path(results), telemetry)
    assert sentence.startswith("no energy: meter: no reading for")
    rules = {finding.rule for finding in Judge().judge_path(str(results)).findings}
    assert not {"power.same_run", "power.order", "power.counter"} & rules


def test_a_run_without_power_says_nothing_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    train_run_set("fake", options(results, power="off"), seed=1, runs=1)
    assert "energy" not in capsys.readouterr().out
    (tmp_path / "telemetry_0.jsonl").write_text(json.dumps({"channels": 1}) + "\n")
    (sentence,) = describe_run_energy(log_path(results), tmp_path / "telemetry_0.jsonl")
    assert sentence.startswith("no energy: telemetry_0.jsonl")
