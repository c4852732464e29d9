"""`podium infer` with a meter: joules, watts and J/sample from LoadGen's own window; a meter that
fails costs the energy alone.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import entry, options
from podium_fakes.kept import keep_ceiling, keep_checkpoint

from compliance.judge import Judge
from harness.serving import infer, setup
from harness.serving.energy import compute_loadgen_energy
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.power_readings import IDLE_POWER_S

FAKE = "podium meter fake --watts 50 --period-ms 20"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, with a harness ceiling in it."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")


@pytest.fixture
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second of the idle machine, where five are not what is shown."""
    for module in (setup, power_readings):
        monkeypatch.setattr(module, "IDLE_POWER_S", 0.5)


def served(
    results: Path, scenario: Scenario, mode: str = "performance", **changes: Any
) -> dict[str, Any]:
    """Serve the fake workload; the record of the run, with its verdict and energy."""
    keep_checkpoint(results)
    infer.serve_workload(
        "fake",
        options(results, "server.target_qps=500", **changes),
        scenarios=(scenario,),
        mode=mode,
        checkpoint=None,
    )
    place = entry(results)
    folder = (
        place.locate_performance_run("fake", scenario)
        if mode == "performance"
        else place.locate_accuracy_run("fake", scenario)
    )
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    detail_log = read_detail_log(folder)
    measured = compute_loadgen_energy(folder, scenario, detail_log)
    assert found.get("telemetry_sha256", "") == measured.telemetry_sha256
    return {
        **found,
        "verdict": detail_log.values.get("result_validity"),
        "energy": measured.energy,
        "reasons": measured.reasons,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("soon_idle")
@pytest.mark.parametrize("scenario", [Scenario.OFFLINE, Scenario.SINGLE_STREAM])
def test_a_meter_of_50_watts_gives_50_watts(
    tmp_path: Path, scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    record = served(tmp_path / "results", scenario, power="off", meter=FAKE)
    (found,) = record["energy"]
    assert (found.grade, found.scope, record["reasons"]) == ("meter", ("system",), ())
    assert found.average_w == pytest.approx(50.0, rel=0.01) and found.joules > 0
    assert found.samples_per_s_per_w == pytest.approx(1 / found.per_sample_j)
    assert (found.mj_per_query is not None) is (scenario is Scenario.SINGLE_STREAM)
    assert "50.00 W" in capsys.readouterr().out


@pytest.mark.slow
def test_the_idle_machine_is_read_before_the_first_run_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five seconds before LoadGen's clock, in the first scenario of the command."""
    results = tmp_path / "results"
    keep_checkpoint(results)
    asked = options(results, "server.target_qps=500", power="off", meter=FAKE)
    infer.serve_workload(
        "fake",
        asked,
        scenarios=(Scenario.OFFLINE, Scenario.SINGLE_STREAM),
        mode="performance",
        checkpoint=None,
    )
    folder, later = (
        entry(results).locate_performance_run("fake", each)
        for each in (Scenario.OFFLINE, Scenario.SINGLE_STREAM)
    )
    first, second = (json.loads((each / "run.json").read_text()) for each in (folder, later))
    assert first["began_idle"] and "began_idle" not in second
    (idle,) = compute_loadgen_energy(
        folder, Scenario.OFFLINE, read_detail_log(folder), idle=True
    ).idle
    assert idle.joules == pytest.approx(50 * IDLE_POWER_S, rel=0.01) and idle.per_sample_j is None
    told = capsys.readouterr().out
    runs = len(
        re.findall(r"^Offline performance: (?:IN)?VALID", told, re.MULTILINE)
    )  # more than one on a busy machine
    assert told.count("idle: 50.00 W (meter, grade meter), not subtracted") == runs > 0
    found = Judge().judge_path(str(folder)).findings
    shown = {each.rule for each in found if each.rule.startswith("power.")}
    assert shown <= {
        "power.edge",
        "power.stuck",
    }, "warnings: a run of milliseconds; or, on a busy machine, one of 20 readings that do not move"


@pytest.mark.slow
@pytest.mark.usefixtures("soon_idle")
def test_a_meter_that_dies_costs_the_energy_and_not_the_run(tmp_path: Path) -> None:
    script = tmp_path / "meter.py"
    script.write_text(
        "import sys, time\n"
        "for line in iter(sys.stdin.readline, ''):\n"
        "    answers = {'clock': f'clock {time.time_ns()}', 'start': 'ok'}\n"
        "    print(answers.get(line.strip(), 'podium-meter 1 period_ms=20'), flush=True)\n"
        "    if line.strip() == 'start':\n"
        "        print(f'sample {time.time_ns()} 50', flush=True)\n"
        "        break\n"
    )
    record = served(
        tmp_path / "results", Scenario.OFFLINE, power="off", meter=f"{sys.executable} {script}"
    )
    assert (
        record["verdict"] == "VALID"
        and record["energy"] == ()
        and "closed the connection" in record["reasons"][0]
    )


@pytest.mark.slow
def test_no_power_is_read_in_an_accuracy_run_or_where_it_is_off(tmp_path: Path) -> None:
    """MLPerf's rule: energy and performance are of one run."""
    accuracy = served(
        tmp_path / "accuracy", Scenario.OFFLINE, mode="accuracy", power="off", meter=FAKE
    )
    assert (accuracy["energy"], accuracy["reasons"]) == ((), ())
    performance = served(tmp_path / "off", Scenario.OFFLINE, power="off")
    assert (performance["energy"], performance["reasons"]) == ((), ())


@pytest.mark.slow
def test_a_run_says_which_of_its_files_were_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record that is not there must not look like one that was never made."""
    monkeypatch.setattr("harness.machine.telemetry.process.TELEMETRY_MODULE", "no_such_sampler")
    record = served(tmp_path / "results", Scenario.OFFLINE, power="off")
    (lost,) = record["lost"]
    assert (
        record["verdict"] == "VALID"
        and lost.startswith("telemetry.jsonl is lost: ")
        and lost in capsys.readouterr().out
    )


def test_readings_that_cannot_be_read_cost_the_energy_in_one_sentence(tmp_path: Path) -> None:
    """A meter whose clock says 400 digits: the finished run is kept."""
    channel = {
        "id": 0,
        "name": "meter",
        "kind": "power",
        "source": "meter",
        "grade": "meter",
        "scope": ["system"],
        "clock_offset_ns": 10**400,
    }
    (tmp_path / "telemetry.jsonl").write_text(
        json.dumps({"telemetry": 1, "channels": [channel], "clocks_ns": [0, 0]}) + "\n"
    )
    found = compute_loadgen_energy(tmp_path, Scenario.OFFLINE, DetailLog(values={}))
    (reason,) = found.reasons
    assert (
        found.energy == () and reason.startswith("telemetry.jsonl: line 1: ") and len(reason) < 120
    )
