"""LoadGen runs on a machine that is slow at one moment and fast at the next: none of them ends
otherwise than by its verdict.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes.busy import loops
from podium_fakes.drive import entry, options
from podium_fakes.kept import keep_ceiling, keep_checkpoint, verdict_of

from harness.serving import infer, performance_runs
from harness.serving.loadgen.test_settings import ProbedSpeed
from harness.serving.run_record import LoadGenVerdict
from harness.serving.setup import set_up_serving
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario

pytestmark = pytest.mark.slow

LONGER = "loadgen.min_duration_ms=800"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, with a harness ceiling in it."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")


def serve(
    results: Path,
    *assignments: str,
    scenario: Scenario = Scenario.OFFLINE,
    mode: str = "performance",
) -> None:
    infer.serve_workload(
        "fake", options(results, *assignments), scenarios=(scenario,), mode=mode, checkpoint=None
    )


KNOBS = {
    Scenario.SINGLE_STREAM: "single_stream.expected_latency_us",
    Scenario.MULTI_STREAM: "multi_stream.expected_latency_us",
}


@pytest.mark.parametrize("scenario", KNOBS)
def test_a_run_that_ran_out_of_queries_is_invalid_and_tells_what_to_expect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scenario: Scenario
):
    """It was called a cut file. The user chose the expectation: podium says which latency was seen,
    and changes nothing; what it says is enough.
    """
    keep_checkpoint(tmp_path)
    with pytest.raises(
        JudgedError,
        match=(
            rf"{scenario.label} performance run 1 is INVALID; LoadGen: Ending early: Ran out of"
            r" generated queries"
        ),
    ):
        serve(tmp_path, f"{KNOBS[scenario]}=1000000", LONGER, scenario=scenario, mode="performance")
    output = capsys.readouterr().out
    folder = entry(tmp_path).locate_performance_run("fake", scenario)
    advised = re.search(rf"--set {re.escape(KNOBS[scenario])}=(\d+)", output)
    assert verdict_of(folder) == "INVALID" and advised
    assert 1 <= int(advised[1]) < 100_000 and "repeating with" not in output
    assert "  LoadGen: Ending early: " in output and "harness ceiling of this host" not in output
    serve(
        tmp_path,
        f"{KNOBS[scenario]}={advised[1]}",
        LONGER,
        scenario=scenario,
        mode="performance",
    )


@pytest.mark.parametrize("scenario", Scenario)
def test_a_slow_look_before_a_fast_run_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scenario: Scenario
):
    """The machine was busy when it was looked at, and is free when it serves: hundreds of times as
    fast.
    """
    keep_checkpoint(tmp_path)
    bench = set_up_serving("fake", options(tmp_path, LONGER), None)
    slow = ProbedSpeed(samples_per_second=2000.0, latency_ns=1e9, query_latency_ns=8e9)
    seen = replace(infer.probe_system(bench, [scenario], tmp_path / "truth"), probe=slow)
    assert performance_runs.measure_performance(bench, scenario, 1, seen) == []
    knob = {**KNOBS, Scenario.OFFLINE: "offline.expected_qps"}.get(scenario)
    assert (f"repeating with {knob}=" in capsys.readouterr().out) is (
        scenario is not Scenario.SERVER
    )
    assert verdict_of(entry(tmp_path).locate_performance_run("fake", scenario)) == "VALID"


def test_what_comes_from_the_machine_alone_is_answered_by_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Clocks that drift apart have no knob; a second run has another chance."""
    keep_checkpoint(tmp_path)
    bench = set_up_serving("fake", options(tmp_path), None)
    verdicts = [
        LoadGenVerdict(
            valid=False,
            metric="samples_per_second",
            value=1.0,
            rate=1.0,
            hints=(),
            errors=("PerfClock and system_clock differ by more than 1%!",),
        ),
        LoadGenVerdict(valid=True, metric="samples_per_second", value=1.0, rate=1.0, hints=()),
    ]
    monkeypatch.setattr(
        performance_runs,
        "run_performance_once",
        lambda bench, schedule, number, probe=None: verdicts.pop(0),
    )
    assert (
        performance_runs.measure_performance(
            bench,
            Scenario.OFFLINE,
            1,
            infer.probe_system(bench, [Scenario.OFFLINE], tmp_path / "truth"),
        )
        == []
    )
    assert "repeating with the same settings" in capsys.readouterr().out and not verdicts


def test_an_accuracy_run_with_an_error_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """LoadGen gives accuracy runs no verdict, and the judge takes none with an error."""
    keep_checkpoint(tmp_path)
    found = infer.read_detail_log
    monkeypatch.setattr(
        infer,
        "read_detail_log",
        lambda folder: replace(found(folder), errors=("Attempted to complete a sample twice.",)),
    )
    with pytest.raises(
        JudgedError, match="Offline accuracy: void; LoadGen: Attempted to complete a sample twice."
    ):
        serve(tmp_path, mode="accuracy")


@pytest.fixture
def busy() -> Iterator[None]:
    """Loops that take the cores for up to two seconds, and end by themselves."""
    with loops((0.8, 1.4, 2.0)):
        yield


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("scenario", Scenario)
def test_beside_busy_loops_that_end_a_run_ends_by_its_verdict(tmp_path: Path, scenario: Scenario):
    """The look sees a busy machine, and the run one that is less and less so."""
    keep_checkpoint(tmp_path)
    try:
        serve(tmp_path, LONGER, scenario=scenario)
    except JudgedError as error:
        assert "performance run 1 is INVALID" in str(error)
    assert verdict_of(entry(tmp_path).locate_performance_run("fake", scenario)) in (
        "VALID",
        "INVALID",
    )
