"""The harness ceiling of this host."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.engines.null import NULL_ANSWER, NULL_ANSWER_TOKENS, NullEngine, NullInference
from harness.serving import harness_ceiling
from harness.serving.harness_ceiling import format_host_key, resolve_harness_ceiling
from suite.errors import MissingError
from suite.loadgen.scenario import Scenario


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> "Host":
    """A host whose figures and whose other users a test decides."""
    found = Host()
    monkeypatch.setattr(harness_ceiling, "measure_scenario_ceilings", found.measure)
    monkeypatch.setattr(harness_ceiling, "measure_busy_share", found.look)
    return found


class Host:
    """What is measured, how busy the cores are, and how often either was asked for."""

    def __init__(self) -> None:
        self.offline: float | None = 5.0
        self.server: float | None = None
        self.busy = 0.0
        self.measured = self.looks = 0

    def measure(
        self, cache: Path, instances: int = 0, tokens: bool = False
    ) -> list[tuple[str, float | None]]:
        self.measured += 1
        return [("offline", self.offline), ("server", self.server)]

    def look(self) -> float:
        self.looks += 1
        return self.busy


def test_it_is_measured_once_and_kept(
    tmp_path: Path, host: Host, capsys: pytest.CaptureFixture[str]
):
    """Seconds, once a host; a file that was torn, or of an earlier form, is made anew."""
    assert (
        resolve_harness_ceiling(tmp_path, Scenario.OFFLINE) == 5.0
        and "of this host, once\n" in capsys.readouterr().out
    )
    assert (
        resolve_harness_ceiling(tmp_path, Scenario.SERVER) is None
        and capsys.readouterr().out == ""
        and (host.measured, host.looks) == (1, 1)
    )
    for number, text in enumerate(
        (b'{"offline": ', b'{"offline": 5.0}', b"[]", b'{"measured": "\xff"}', b"[" * 100_000), 2
    ):
        (tmp_path / f"harness-ceiling-{format_host_key()}.json").write_bytes(text)
        assert (
            resolve_harness_ceiling(tmp_path, Scenario.OFFLINE) == 5.0 and host.measured == number
        )


def test_two_at_once_measure_once(tmp_path: Path, host: Host, monkeypatch: pytest.MonkeyPatch):
    """Each would slow the other down, and both would write one `.partial` file."""

    def measure(*_: object) -> list[tuple[str, float | None]]:
        time.sleep(0.3)
        return host.measure(tmp_path)

    monkeypatch.setattr(harness_ceiling, "measure_scenario_ceilings", measure)
    with ThreadPoolExecutor(2) as threads:
        found = threads.map(lambda _: resolve_harness_ceiling(tmp_path, Scenario.OFFLINE), range(2))
    assert (list(found), host.measured) == ([5.0, 5.0], 1)


def test_what_is_kept_says_when_and_how_busy_the_host_was(tmp_path: Path, host: Host):
    """Whoever wonders about a figure finds out where it comes from."""
    host.busy = 0.125
    resolve_harness_ceiling(tmp_path, Scenario.OFFLINE)
    kept = harness_ceiling.read_cached_ceiling(
        tmp_path / f"harness-ceiling-{format_host_key()}.json"
    )
    assert (
        kept is not None
        and kept.busy == 0.125
        and kept.measured.startswith("20")
        and kept.measured.endswith("+00:00")
    )
    assert kept.samples_per_second == {"offline": 5.0, "server": None}


def test_a_figure_from_a_busy_host_is_measured_again_when_the_host_is_free(
    tmp_path: Path, host: Host, capsys: pytest.CaptureFixture[str]
):
    """It would flag good results for ever; as long as the host stays busy, nothing better can be
    had.
    """
    host.busy = 0.8
    assert (
        resolve_harness_ceiling(tmp_path, Scenario.OFFLINE) == 5.0
        and "others use 80% of the cores" in capsys.readouterr().out
    )
    assert resolve_harness_ceiling(tmp_path, Scenario.OFFLINE) == 5.0 and host.measured == 1
    host.busy, host.offline, host.server = 0.1, 9.0, 3.0
    assert (
        resolve_harness_ceiling(tmp_path, Scenario.OFFLINE) == 9.0
        and "again: others used 80% of the cores on 20" in capsys.readouterr().out
    )
    assert resolve_harness_ceiling(tmp_path, Scenario.SERVER) == 3.0 and host.measured == 2


def test_a_busy_moment_later_does_not_lower_a_good_figure(tmp_path: Path, host: Host):
    """Being busy only ever lowers it: the higher figure counts, and a quiet measurement stays a
    quiet one.
    """
    resolve_harness_ceiling(tmp_path, Scenario.OFFLINE)
    host.busy, host.offline, host.server = 0.9, 2.0, 7.0
    assert (
        resolve_harness_ceiling(tmp_path, Scenario.OFFLINE, reached_rate=6.0) == 5.0
        and host.measured == 2
    )
    assert resolve_harness_ceiling(tmp_path, Scenario.SERVER) == 7.0 and host.measured == 2
    kept = harness_ceiling.read_cached_ceiling(
        tmp_path / f"harness-ceiling-{format_host_key()}.json"
    )
    assert kept is not None and kept.busy == 0.0


@pytest.mark.parametrize(
    ("scenario", "seen", "again"),
    [("offline", 4.9, False), ("offline", 5.1, True), ("server", 1e9, False)],
)
def test_a_run_that_did_better_has_it_measured_again(
    tmp_path: Path,
    host: Host,
    capsys: pytest.CaptureFixture[str],
    scenario: str,
    seen: float,
    again: bool,
):
    """A ceiling that something went through is none; where no rate could be held there is none to
    go through.
    """
    resolve_harness_ceiling(tmp_path, Scenario.OFFLINE)
    capsys.readouterr()
    resolve_harness_ceiling(tmp_path, Scenario(scenario), reached_rate=seen)
    told = capsys.readouterr().out
    assert (
        "again: a run reached 5 samples/s, and the ceiling was 5" in told
    ) is again and host.measured == 1 + again


def test_the_key_names_what_it_depends_on():
    """A ceiling measured with other cores or another LoadGen says nothing here."""
    assert "c-loadgen-" in format_host_key() and "-python-3" in format_host_key()
    keys = {format_host_key(), format_host_key(1), format_host_key(2), format_host_key(tokens=True)}
    assert len(keys) == 4


@pytest.mark.slow
def test_every_scenario_has_a_real_ceiling(tmp_path: Path):
    """A null run that is INVALID or counts wrongly would flag every result, or none."""
    found = dict(harness_ceiling.measure_scenario_ceilings(tmp_path))
    assert found.keys() == {scenario.value for scenario in Scenario}
    assert (
        all(value is None or value > 1000 for value in found.values())
        and found["offline"]
        and found["offline"] > 50_000
    )
    json.dumps(found)


@pytest.mark.slow
def test_generated_answers_have_a_ceiling_in_tokens(tmp_path: Path):
    """A ceiling in samples would be a sixteenth of that in tokens, and flag every result."""
    found = dict(harness_ceiling.measure_scenario_ceilings(tmp_path, tokens=True))
    assert found.keys() == {"single-stream", "server", "offline"}
    schedule = harness_ceiling.build_null_schedule(Scenario.OFFLINE, tokens=True)
    logged = harness_ceiling.run_null_system(schedule, tmp_path)
    assert logged.errors == () and logged.measures_tokens
    rate = logged.require_number("result_tokens_per_second")
    assert rate == pytest.approx(
        NULL_ANSWER_TOKENS * logged.require_number("result_samples_per_second"), rel=0.01
    )
    assert found["offline"] and found["offline"] > rate / NULL_ANSWER_TOKENS


def test_a_ceiling_in_tokens_is_measured_again_in_tokens(
    tmp_path: Path, host: Host, capsys: pytest.CaptureFixture[str]
):
    """The two kinds of ceiling are kept apart."""
    resolve_harness_ceiling(tmp_path, Scenario.OFFLINE)
    assert resolve_harness_ceiling(tmp_path, Scenario.OFFLINE, tokens=True) == 5.0
    assert host.measured == 2
    resolve_harness_ceiling(tmp_path, Scenario.OFFLINE, reached_rate=6.0, tokens=True)
    assert "a run reached 6 tokens/s, and the ceiling was 5" in capsys.readouterr().out


def test_server_takes_the_highest_rate_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """From the top down; none at all is no ceiling, not one of 0."""
    tried: list[float] = []

    def null_run(
        schedule: harness_ceiling.LoadGenSchedule, cache: Path, instances: int = 0
    ) -> harness_ceiling.DetailLog:
        tried.append(schedule.rate)
        valid = schedule.rate <= limit
        return harness_ceiling.DetailLog(
            values={
                "result_validity": "VALID" if valid else "INVALID",
                "result_completed_samples_per_sec": schedule.rate - 1,
            }
        )

    monkeypatch.setattr(harness_ceiling, "run_null_system", null_run)
    limit = 100_000.0
    assert harness_ceiling.measure_server_ceiling(tmp_path) == 99_999.0 and tried == [
        200_000.0,
        150_000.0,
        100_000.0,
    ]
    limit = 0.0
    assert harness_ceiling.measure_server_ceiling(tmp_path) is None


def test_the_null_system_does_nothing_and_says_so(tmp_path: Path):
    """It serves the ceiling alone."""
    system = NullInference()
    system.load([1])
    system.truth(tmp_path)
    system.unload([1])
    system.close()
    assert (
        system.length(1) == system.length(2)
        and system.open(0, 1)([1, 2]) == [NULL_ANSWER, NULL_ANSWER]
        and not list(tmp_path.iterdir())
    )
    assert NullEngine().missing("cpu", None) is None  # type: ignore[arg-type]
    with pytest.raises(MissingError, match="no networks"):
        NullEngine().compile(None, None)  # type: ignore[arg-type]
