"""A source that fails in the middle of a run, read by the sampler's own process: no energy, a
reason, and the telemetry is whole.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.machine.power.selection import REHEARSAL_VARIABLE, choose_power_sources
from harness.machine.telemetry.process import sample_during_block
from harness.serving.energy import compute_loadgen_energy
from suite.loadgen.detail_log import DetailLog
from suite.loadgen.scenario import Scenario
from suite.measurement import power_readings
from suite.measurement.power_readings import MeasuredWork


def unlinked(counter: Path) -> None:
    """The driver was unloaded."""
    counter.unlink()


def reset(counter: Path) -> None:
    """The counter began anew, and has no range."""
    counter.write_text("5\n")


def closed(counter: Path) -> None:
    """What is read is no number any more."""
    counter.write_text("n/a\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail", "reason"),
    [(unlinked, "no reading"), (reset, "the counter fell"), (closed, "no reading")],
)
def test_a_counter_that_fails_in_the_middle_gives_no_energy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[Path], None], reason: str
) -> None:
    """Never an energy of the readings before it."""
    zone = tmp_path / "tree/sys/class/powercap/intel-rapl:0"
    zone.mkdir(parents=True)
    for name, value in {"name": "package-0", "energy_uj": "1000000"}.items():
        (zone / name).write_text(f"{value}\n")
    monkeypatch.setenv(REHEARSAL_VARIABLE, str(tmp_path / "tree"))
    chosen = choose_power_sources("rapl", None, {"power.period_ms": 50})
    with sample_during_block(tmp_path / "telemetry.jsonl", "cpu", chosen.openings) as sampler:
        begin = time.time_ns()
        time.sleep(0.6)
        fail(zone / "energy_uj")
        time.sleep(0.6)
        end = time.time_ns()
        time.sleep(chosen.linger_s)
    assert sampler.lost == ()
    energy, reasons = power_readings.build_energy_records(
        power_readings.read_power_readings(tmp_path / "telemetry.jsonl"),
        begin,
        end,
        MeasuredWork(samples=1),
    )
    assert energy == () and any(reason in each for each in reasons), reasons


def test_a_lost_file_of_readings_is_the_reason_where_watts_were_asked_for(tmp_path: Path) -> None:
    """A killed sampler was told as lost, and the energy was absent without a word."""
    assert compute_loadgen_energy(
        tmp_path, Scenario.OFFLINE, DetailLog(values={}), ("the sampler was killed",)
    ).reasons == ("the sampler was killed",)
    assert compute_loadgen_energy(tmp_path, Scenario.OFFLINE, DetailLog(values={})).reasons == ()
