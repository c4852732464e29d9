"""INVALID -> rule, knob, next value."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import registry
from suite.loadgen import early_stopping
from suite.loadgen.advice import PerformanceFigures, collect_run_hints, round_to_significant
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow, SettingKind

ROW = ScenarioRow(percentile=99.0, bound_ns=100_000_000, min_duration_ms=5000, min_queries=459)
GOOD = PerformanceFigures(
    duration_met=True,
    queries_met=True,
    early_stopping_met=True,
    bound_met=True,
    queries=1000,
    over_bound=0,
    latency_ns=50_000_000.0,
    median_ns=40_000_000.0,
    rate=200.0,
)


@pytest.mark.parametrize("scenario", Scenario)
def test_nothing_is_advised_where_all_is_met(scenario: Scenario):
    """Advice on a good run would send the user in circles."""
    assert collect_run_hints(scenario, ROW, GOOD) == ()


@pytest.mark.parametrize(
    ("latency_ms", "expected"), [(110.0, 180.0), (150.0, 133.0), (5000.0, 100.0)]
)
def test_a_server_that_is_too_slow_is_asked_for_less(latency_ms: float, expected: float):
    """The further over the bound, the gentler; what was completed counts, not what was asked for in
    vain.
    """
    (hint,) = collect_run_hints(
        Scenario.SERVER,
        ROW,
        replace(
            GOOD,
            bound_met=False,
            early_stopping_met=False,
            over_bound=300,
            latency_ns=latency_ms * 1e6,
        ),
    )
    assert (hint.rule, hint.knob, hint.value) == ("latency bound", "server.target_qps", expected)
    assert (
        "300 of 1000 queries" in hint.sentence
        and "100 ms" in hint.sentence
        and f"--set server.target_qps={expected:.0f}" in hint.sentence
    )


@pytest.mark.parametrize(
    ("mean_ms", "helps"), [(0.0, True), (1.0, False), (2.4, False), (2.6, True)]
)
def test_fewer_queries_are_asked_for_only_where_that_can_help(mean_ms: float, helps: bool):
    """At 200 queries/s, 2.5 ms each leave half a query in progress on average: one alone is as slow."""
    late = replace(GOOD, bound_met=False, over_bound=300, latency_ns=110e6, mean_ns=mean_ms * 1e6)
    (hint,) = collect_run_hints(Scenario.SERVER, ROW, late)
    assert ("ask for fewer queries a second: --set" in hint.sentence) == helps
    assert (
        "queries were in progress on average, so that fewer a second hardly help" in hint.sentence
    ) == (not helps)
    assert (hint.knob, hint.value) == ("server.target_qps", 180.0)


@pytest.mark.parametrize(
    ("first_ms", "further_ms", "expected"), [(150.0, 4.0, 133.0), (60.0, 12.0, 167.0)]
)
def test_bounds_of_tokens_ask_for_less(first_ms: float, further_ms: float, expected: float):
    """The one that is missed further decides; the latency of whole answers has no bound."""
    bounds = {"bound_ns": None, "first_token_ns": 100_000_000, "per_token_ns": 10_000_000}
    (hint,) = collect_run_hints(
        Scenario.SERVER,
        replace(ROW, token_latencies=True, **bounds),
        replace(
            GOOD,
            bound_met=False,
            over_bound=1000,
            first_token_ns=first_ms * 1e6,
            per_token_ns=further_ms * 1e6,
        ),
    )
    assert (hint.rule, hint.knob, hint.value) == ("latency bound", "server.target_qps", expected)
    assert f"{first_ms:.1f} ms to the first token (bound: 100 ms)" in hint.sentence
    assert f"{further_ms:.1f} ms for each further one (bound: 10 ms)" in hint.sentence


def test_late_queries_within_the_percentile_that_prove_nothing_lower_the_rate_and_make_the_run_longer():
    """p99 may hold while the count of late queries is too high to prove it; of a short run a lower
    rate alone may leave as many late.
    """
    slower, longer = collect_run_hints(
        Scenario.SERVER, ROW, replace(GOOD, early_stopping_met=False, over_bound=9)
    )
    assert (
        (slower.rule, slower.knob) == ("early stopping", "server.target_qps")
        and slower.value is not None
        and slower.value < GOOD.rate
    )
    assert (longer.rule, longer.knob, longer.value) == (
        "early stopping",
        "loadgen.min_queries",
        early_stopping.compute_queries_needed(18, 99.0),
    )


@pytest.mark.parametrize(
    ("scenario", "percentile", "needed"),
    [
        (Scenario.SERVER, 99.0, 459),
        (Scenario.SINGLE_STREAM, 90.0, 64),
        (Scenario.MULTI_STREAM, 97.0, 219),
    ],
)
def test_too_few_queries_ask_for_the_floor(scenario: Scenario, percentile: float, needed: int):
    """A smaller number would be INVALID again."""
    row = replace(ROW, percentile=percentile, min_queries=1)
    (hint,) = collect_run_hints(scenario, row, replace(GOOD, early_stopping_met=False, queries=30))
    assert (hint.rule, hint.knob, hint.value) == (
        "early stopping",
        "loadgen.min_queries",
        needed,
    ) and "30 queries" in hint.found


@pytest.mark.parametrize(
    ("scenario", "knob", "value", "seen"),
    [
        (Scenario.OFFLINE, "offline.expected_qps", 300.0, "0.1 s"),
        (Scenario.SINGLE_STREAM, "single_stream.expected_latency_us", 10_000.0, "50.0 s"),
        (Scenario.MULTI_STREAM, "multi_stream.expected_latency_us", 10_000.0, "50.0 s"),
        (Scenario.SERVER, "server.target_qps", 220.0, "5.0 s"),
    ],
)
def test_a_short_run_is_made_longer(scenario: Scenario, knob: str, value: float, seen: str):
    """Each scenario sizes its queries by another knob; the wrong one changes nothing."""
    (hint,) = collect_run_hints(scenario, ROW, replace(GOOD, duration_met=False))
    assert (hint.rule, hint.knob, hint.value) == (
        "minimum duration",
        knob,
        value,
    ) and seen in hint.found


def test_a_run_that_ended_early_says_so():
    """LoadGen names no reason in its summary."""
    (hint,) = collect_run_hints(Scenario.SERVER, ROW, replace(GOOD, queries_met=False))
    assert (hint.rule, hint.value) == ("minimum queries", 459.0) and "detail log" in hint.sentence


@pytest.mark.parametrize("scenario", Scenario)
@pytest.mark.parametrize(
    "broken", ["duration_met", "queries_met", "early_stopping_met", "bound_met"]
)
def test_every_knob_is_a_setting_that_takes_the_value(scenario: Scenario, broken: str):
    """A hint that --set refuses helps nobody."""
    settings = registry.load_round().settings
    for hint in collect_run_hints(scenario, ROW, replace(GOOD, **{broken: False})):
        assert hint.value is not None and hint.value > 0
        assert settings[hint.knob].kind is SettingKind.FLOAT or hint.value == int(hint.value)
        assert "e+" not in hint.sentence


@given(st.floats(1e-3, 1e9))
def test_values_are_rounded_to_what_people_type(value: float):
    """Three digits, never nothing."""
    assert (
        round_to_significant(value) == pytest.approx(value, rel=0.005)
        and len(f"{round_to_significant(value):.12g}".replace(".", "").strip("0")) <= 3
    )


def test_no_rate_at_all_still_gives_a_rate_to_try():
    """Nothing completed: log10(0) must not end the report."""
    assert round_to_significant(0.0) == 1.0
