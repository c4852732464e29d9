"""The harness ceiling of this host."""

import json
from pathlib import Path

import pytest

from harness import ceiling
from harness.ceiling import ceiling_of_host, host_key
from harness.engines.null import ANSWER, NullEngine, NullInference, NullWorkload
from suite.errors import MissingError
from suite.scenario import Scenario


def test_it_is_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Seconds, once a host; a file that was torn is made anew."""
    calls: list[int] = []

    def measure(cache: Path) -> list[tuple[str, float | None]]:
        calls.append(1)
        return [("offline", 5.0), ("server", None)]

    monkeypatch.setattr(ceiling, "measure", measure)
    assert ceiling_of_host(tmp_path, Scenario.OFFLINE) == 5.0 and "measuring" in capsys.readouterr().out
    assert ceiling_of_host(tmp_path, Scenario.SERVER) is None and capsys.readouterr().out == "" and len(calls) == 1
    (tmp_path / f"harness-ceiling-{host_key()}.json").write_text('{"offline": ')
    assert ceiling_of_host(tmp_path, Scenario.OFFLINE) == 5.0 and len(calls) == 2


def test_the_key_names_what_it_depends_on():
    """A ceiling measured with other cores or another LoadGen says nothing here."""
    assert "c-loadgen-" in host_key() and "-python-3" in host_key()


def test_every_scenario_has_a_real_ceiling(tmp_path: Path):
    """A null run that is INVALID or counts wrongly would flag every result, or none."""
    found = dict(ceiling.measure(tmp_path))
    assert found.keys() == {scenario.value for scenario in Scenario}
    assert all(value is None or value > 1000 for value in found.values()) and found["offline"] and found["offline"] > 50_000
    json.dumps(found)


def test_server_takes_the_highest_rate_that_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """From the top down; none at all is no ceiling, not one of 0."""
    tried: list[float] = []

    def null_run(schedule: ceiling.Schedule, cache: Path) -> ceiling.Facts:
        tried.append(schedule.rate)
        valid = schedule.rate <= limit
        return ceiling.Facts(values={"result_validity": "VALID" if valid else "INVALID", "result_completed_samples_per_sec": schedule.rate - 1})

    monkeypatch.setattr(ceiling, "null_run", null_run)
    limit = 100_000.0
    assert ceiling.server_ceiling(tmp_path) == 99_999.0 and tried == [200_000.0, 150_000.0, 100_000.0]
    limit = 0.0
    assert ceiling.server_ceiling(tmp_path) is None


def test_the_null_system_does_nothing_and_says_so(tmp_path: Path):
    """It serves the ceiling alone."""
    system = NullInference()
    system.load([1])
    system.truth(tmp_path)
    system.unload([1])
    system.close()
    assert system.length(1) == system.length(2) and system.open(0, 1)([1, 2]) == [ANSWER, ANSWER] and not list(tmp_path.iterdir())
    assert NullWorkload().hyperparameters(None, None, {}) == {} and NullEngine().missing("cpu", None) is None  # type: ignore[arg-type]
    with pytest.raises(MissingError, match="cannot be trained"):
        NullWorkload().training(None)  # type: ignore[arg-type]
    with pytest.raises(MissingError, match="no networks"):
        NullEngine().compile(None, None)  # type: ignore[arg-type]
