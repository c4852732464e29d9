"""What one compliance test of a scenario hands on to the next."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from podium_fakes.served import schedule

from harness.serving.audits import turns
from harness.serving.audits.subject import AuditedResult
from harness.serving.audits.turns import (
    SPARE_QUERY_FACTOR,
    extend_logged_schedule,
    find_last_reference,
    reduce_audit_schedule,
)
from suite.audits.rules import require_audit_rules
from suite.loadgen.advice import OFFLINE_RATE_SETTING, SERVER_RATE_SETTING, Hint
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow

EXAMPLE = (
    Path(__file__).parents[3]
    / "examples/base/audited/open/acme/compliance/box-torch-fp32/resnet50/Offline/TEST04"
)


def test_a_reference_run_that_stayed_invalid_is_not_handed_on(tmp_path: Path) -> None:
    """The next test would fail with it, without a reference run of its own."""
    folder = tmp_path / "TEST04"
    shutil.copytree(EXAMPLE, folder)
    ran: Any = SimpleNamespace(
        outcome=object(), reference_figures=[1.0, 1.0], reference_settings={}
    )
    last = folder / "reference" / "run_2"
    handed = find_last_reference(ran, folder)
    assert handed is not None and handed.folder == last
    log = last / "mlperf_log_detail.txt"
    log.write_text(log.read_text().replace('"VALID"', '"INVALID"'))
    assert find_last_reference(ran, folder) is None


@pytest.mark.parametrize(
    ("knob", "rates"),
    [(OFFLINE_RATE_SETTING, [100.0, 150.0, 150.0]), (SERVER_RATE_SETTING, [100.0, 100.0, 100.0])],
)
def test_a_query_that_was_too_short_is_larger_in_all_later_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, knob: str, rates: list[float]
) -> None:
    """The machine is faster than when the result was measured; Server's rate is the result's."""
    hint = Hint(rule="minimum duration", found="", knob=knob, value=150.0, sentence="")
    verdicts = [
        SimpleNamespace(valid=False, hints=(hint,)),
        *[SimpleNamespace(valid=True, hints=())] * 2,
    ]
    asked: list[float] = []

    def run_once(_: Any, asked_for: Any, folder: Path, *__: Any) -> tuple[Any, Any, float]:
        folder.mkdir(parents=True)
        asked.append(asked_for.rate)
        return object(), verdicts[len(asked) - 1], 7.0

    monkeypatch.setattr(turns, "run_audit_loadgen", run_once)
    ran: Any = SimpleNamespace(
        serving_setup=None,
        subject=AuditedResult(
            scenario=Scenario.OFFLINE,
            schedule=replace(schedule(Scenario.OFFLINE), rate=100.0),
            answers={},
            threads=1,
        ),
        test=turns.AuditTest.TEST06,
        rules=require_audit_rules("podium-v1"),
        test_rules=require_audit_rules("podium-v1").tests[turns.AuditTest.TEST06],
        folder=tmp_path,
        reference_settings={},
        test_settings={},
        reference_figures=[],
        test_figures=[],
        repeated=0,
    )
    for turn in (1, 2):
        turns.run_audit_turn(ran, "performance", turn)
    assert asked == rates
    assert (ran.repeated, ran.test_figures) == (1, [7.0, 7.0])


ROW = ScenarioRow(percentile=99.0, min_duration_ms=5000, min_queries=662, samples_per_query=8)
ASKED = replace(
    schedule(Scenario.MULTI_STREAM),
    percentile=99.0,
    min_queries=1000,
    samples_per_query=8,
    expected_latency_ns=8_000_000,
)


def test_fewer_queries_are_asked_for_where_the_row_needs_more_than_a_median() -> None:
    """The judge goes by the row too: with a row of as few queries, a result that asked for more is
    audited with more. Many are prepared.
    """
    found = reduce_audit_schedule(ASKED, ROW, require_audit_rules("podium-v1"))
    assert (found.percentile, found.min_queries, found.expected_latency_ns) == (
        90.0,
        64,
        8_000_000 // SPARE_QUERY_FACTOR,
    )
    assert (
        reduce_audit_schedule(
            ASKED, replace(ROW, percentile=90.0, min_queries=64), require_audit_rules("podium-v1")
        )
        == ASKED
    )
    assert reduce_audit_schedule(ASKED, ROW, require_audit_rules("v4.1")) == ASKED


def test_a_test_of_answers_has_queries_for_all_that_are_to_be_logged() -> None:
    """ResNet-50's TEST01 logs up to 4,096 answers, of 8 a query; more than one for each sample say
    the same again. Never more than a result had.
    """
    for target, samples, queries in (
        (0, 1024, 64),
        (256, 1024, 64),
        (4096, 1024, 128),
        (4096, 5000, 512),
        (9999, 9999, 662),
    ):
        wanted = replace(ASKED, min_queries=64, special={"accuracy_log_sampling_target": target})
        assert extend_logged_schedule(wanted, ROW, samples).min_queries == queries


@pytest.mark.parametrize(
    ("scenario", "passed", "differing", "reference", "found", "taken"),
    [
        (Scenario.SINGLE_STREAM, True, 0, [1e6], [1e6], 2),
        (Scenario.SINGLE_STREAM, False, 0, [1e6], [1.5e6], 5),
        (Scenario.SINGLE_STREAM, False, 1, [1e6], [1e6], 2),
        (Scenario.SINGLE_STREAM, False, 0, [1e6], [9.9e6], 5),
        (Scenario.SINGLE_STREAM, False, 0, [1e6], [12e6], 2),
        (Scenario.SINGLE_STREAM, False, 0, [1e6, 12e6], [12e6], 3),
        (Scenario.SERVER, False, 0, [1e6], [90e6], 5),
        (Scenario.SERVER, True, 0, [1e6], [1e6], 2),
    ],
)
def test_speed_alone_fails_a_system_after_five_turns(
    monkeypatch: pytest.MonkeyPatch,
    scenario: Scenario,
    passed: bool,
    differing: int,
    reference: list[float],
    found: list[float],
    taken: int,
) -> None:
    """What noise does not explain needs no more than the least of them: other answers, and a speed
    that is ten times beyond its limit whichever reference run counts. A queue explains any of
    Server's.
    """
    kinds: list[str] = []
    rules = require_audit_rules("podium-v1")
    ran: Any = SimpleNamespace(
        rules=rules,
        test_rules=rules.tests[turns.AuditTest.TEST05],
        subject=SimpleNamespace(scenario=scenario),
        test_settings={},
        previous_reference=None,
        reference_figures=[],
        test_figures=[],
    )

    def run_turn(_: Any, kind: str, turn: int) -> None:
        kinds.append(f"{kind} {turn}")
        own, known = (
            (ran.reference_figures, reference) if kind == "reference" else (ran.test_figures, found)
        )
        own.append(known[(turn - 1) % len(known)])

    outcome = SimpleNamespace(passed=passed, differing=differing, has_invalid_run=False)
    monkeypatch.setattr(turns, "run_audit_turn", run_turn)
    monkeypatch.setattr(turns, "build_audit_outcome", lambda ran: outcome)
    assert turns.run_audit_turns(ran) is outcome
    assert kinds == [
        f"{kind} {turn}" for turn in range(1, taken + 1) for kind in ("reference", "performance")
    ]


def test_a_server_is_audited_at_a_rate_that_leaves_room() -> None:
    """Near saturation a queue decides the latency; MLCommons' own rules keep the result's rate."""
    asked = replace(schedule(Scenario.SERVER), rate=100.0)
    row = ScenarioRow(percentile=99.0, bound_ns=1, min_duration_ms=5000, min_queries=662)
    for rules, rate in (("podium-v1", 50.0), ("v4.1", 100.0)):
        assert reduce_audit_schedule(asked, row, require_audit_rules(rules)).rate == rate
    offline = replace(schedule(Scenario.OFFLINE), rate=100.0)
    assert reduce_audit_schedule(offline, row, require_audit_rules("podium-v1")).rate == 100.0
