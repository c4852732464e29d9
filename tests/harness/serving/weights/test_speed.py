"""Speed alone: scenarios as points of one study, which the same command continues; and INVALID
runs, which are made again with what LoadGen's rules advise, and stay if none is VALID.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from compliance.judge import Judge
from compliance.verdict import Severity
from harness.commands.infer import infer
from harness.serving.studies.runs import PointAttempt, StudySession, has_better_settings
from harness.serving.weights.initial import RANDOM_WEIGHTS_ORIGIN
from suite.errors import RequestError
from suite.files.layout import RUN_RECORD
from suite.loadgen.advice import Hint
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow
from suite.studies.kind import StudiedSystem
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.speed import SPEED, SpeedPoint, SpeedRequest

ROW = ScenarioRow(percentile=99.0, min_duration_ms=100, min_queries=64, samples_per_query=8)
TOO_FAST = Hint(
    rule="latency bound", found="p99", knob="server.target_qps", value=50.0, sentence="ask for less"
)


def set_up_rows(*scenarios: Scenario, **settings: Any) -> StudiedSystem:
    """As much of a system as a request is resolved from."""

    def require(scenario: Scenario) -> ScenarioRow:
        if scenario not in scenarios:
            raise RequestError(f"no rules for {scenario}")
        return ROW

    made = SimpleNamespace(
        is_bare=False, scenarios=scenarios, settings=settings, require_scenario_rules=require
    )
    return cast(StudiedSystem, made)


def ask_scenarios(system: StudiedSystem, *scenarios: Scenario, bound: int | None = None) -> Any:
    """A request for scenarios."""
    return SPEED.build_request({"scenarios": scenarios, "bound_ns": bound}, system)


def test_all_scenarios_are_those_of_the_round_and_a_named_one_needs_rules() -> None:
    system = set_up_rows(Scenario.OFFLINE, Scenario.SERVER)
    asked = ask_scenarios(system, *Scenario)
    assert [each.scenario for each in asked.points] == ["Server", "Offline"]
    with pytest.raises(RequestError, match="no rules for multi-stream"):
        ask_scenarios(system, Scenario.MULTI_STREAM)


def test_another_bound_is_another_point_and_other_settings_another_study() -> None:
    """Of one folder each, so that neither replaces the other."""
    system = set_up_rows(*Scenario)
    narrow, wide = (
        ask_scenarios(system, Scenario.SERVER, bound=bound) for bound in (15_000_000, 20_000_000)
    )
    names = [SPEED.name_point(each.points[0]) for each in (narrow, wide)]
    assert names == ["server-15ms", "server-20ms"]
    assert SPEED.adopt_request(narrow, wide) == wide
    longer = ask_scenarios(
        set_up_rows(*Scenario, **{"loadgen.min_duration_ms": 9, "batching.workers": 1}),
        Scenario.SERVER,
    )
    assert longer.settings == {"loadgen.min_duration_ms": 9}
    assert SPEED.adopt_request(narrow, longer) is None


def advise(
    chosen: Sequence[str], hints: Sequence[Hint], errors: Sequence[str] = (), left: int = 1
) -> dict[str, float] | None:
    """What an INVALID run of a system with these settings of the user's advises; None: nothing."""
    request = SimpleNamespace(chosen=dict.fromkeys(chosen, 1))
    system = SimpleNamespace(setup=SimpleNamespace(request=request))
    point = SpeedPoint(scenario="Server", samples_per_query=1, equal_issue=False)
    asked = SpeedRequest(points=(point,), settings={})
    session = SimpleNamespace(kind=SPEED, system=system, request=asked)
    attempt = PointAttempt(left=left, guessed=None)
    again = has_better_settings(cast(StudySession, session), point, hints, errors, attempt)
    return attempt.advised if again else None


def test_an_invalid_run_is_made_again_only_where_that_may_help() -> None:
    """Never with another value of a setting that the user chose."""
    assert advise([], [TOO_FAST]) == {"server.target_qps": 50.0}
    assert advise(["server.target_qps"], [TOO_FAST]) is None
    assert advise([], [], errors=["a new kind of error"]) is None
    assert advise([], [TOO_FAST], left=0) is None


def infer_random(results: Path, *more: str) -> MeasuredStudy:
    """Measure random weights, and read the study."""
    words = ["minigo", "--weights", "random", "--engine", "torch", "--device", "cpu"]
    short = ["--threads", "1", "--set", "loadgen.min_duration_ms=100", "--results", str(results)]
    CliRunner().invoke(infer, [*words, *short, *more], catch_exceptions=False)
    return read_measured_study(results / "studies" / "minigo-speed")


@pytest.mark.slow
def test_the_same_command_continues_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario that is there stays, another one is added, and several runs give an interval."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    first = infer_random(tmp_path / "r", "--scenario", "offline")
    assert first.record.origin == RANDOM_WEIGHTS_ORIGIN
    folder = tmp_path / "r/studies/minigo-speed"
    (before,) = folder.rglob(RUN_RECORD)
    kept = before.read_bytes()
    half_made = before.parents[1] / "single-stream.partial"
    half_made.mkdir()
    study = infer_random(tmp_path / "r", "--scenario", "single-stream", "--runs", "2")
    assert before.read_bytes() == kept and not half_made.exists()
    assert [(each.point.scenario, len(each.runs)) for each in study.points] == [
        ("Offline", 1),
        ("SingleStream", 2),
    ]
    assert study.is_finished and study.points[1].find_interval("value") is not None
    assert json.loads((folder / "study.json").read_text())["requests"][1]["repeats"] == 2
    findings = Judge().judge_path(str(folder)).findings
    assert [each for each in findings if each.severity is Severity.ERROR] == []
