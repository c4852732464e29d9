"""What LoadGen is told."""

from dataclasses import replace

import pytest
from podium_fakes.served import LOG_SEED, PROBE, ROW, schedule

from harness.serving.loadgen.test_settings import (
    OFFLINE_MARGIN,
    build_test_settings,
    get_numeric_setting,
    import_loadgen,
)
from suite import registry
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

UNTOUCHED = {
    "server_coalesce_queries": False,
    "performance_issue_unique": False,
    "performance_issue_same": False,
    "performance_sample_count_override": 0,
    "accuracy_log_probability": 0.0,
    "max_duration_ms": 0,
    "max_query_count": 0,
    "use_token_latencies": False,
    "print_timestamps": False,
    "test05": False,
}


@pytest.mark.parametrize("scenario", Scenario)
def test_seeds_duration_and_count_are_the_rounds(scenario: Scenario):
    """LoadGen's own defaults are seeds of 0, 100 queries and 10 s."""
    settings, rules = build_test_settings(schedule(scenario)), registry.load_round().loadgen
    assert (
        settings.qsl_rng_seed == rules.qsl_rng_seed
        and settings.sample_index_rng_seed == rules.sample_index_rng_seed
    )
    assert (
        settings.schedule_rng_seed == rules.schedule_rng_seed
        and settings.accuracy_log_rng_seed == LOG_SEED
    )
    assert (settings.min_duration_ms, settings.min_query_count) == (
        ROW.min_duration_ms,
        ROW.min_queries,
    )
    assert settings.scenario == getattr(import_loadgen().TestScenario, scenario.label)
    assert {name: getattr(settings, name) for name in UNTOUCHED} == UNTOUCHED


def test_performance_runs_log_a_sample_of_answers_and_accuracy_runs_all():
    """The judge compares the sample with the accuracy run; an accuracy run that samples would lose
    answers.
    """
    for mode, answers in (
        (Mode.PERFORMANCE, registry.load_round().loadgen.sampled_answers),
        (Mode.ACCURACY, 0),
    ):
        settings = build_test_settings(schedule(Scenario.OFFLINE, mode))
        assert settings.accuracy_log_sampling_target == answers
        assert settings.mode == (
            import_loadgen().TestMode.PerformanceOnly
            if mode is Mode.PERFORMANCE
            else import_loadgen().TestMode.AccuracyOnly
        )


def test_fields_of_the_scenarios():
    """Percentiles are 0-1 there and 0-100 here."""
    single, multi = (
        build_test_settings(schedule(scenario))
        for scenario in (Scenario.SINGLE_STREAM, Scenario.MULTI_STREAM)
    )
    server, offline = (
        build_test_settings(schedule(scenario)) for scenario in (Scenario.SERVER, Scenario.OFFLINE)
    )
    assert (
        single.single_stream_target_latency_percentile,
        single.single_stream_expected_latency_ns,
    ) == (0.9, EXPECTED_LATENCY_SHARE * PROBE.latency_ns)
    assert (multi.multi_stream_target_latency_percentile, multi.multi_stream_samples_per_query) == (
        0.9,
        8,
    )
    assert multi.multi_stream_expected_latency_ns == EXPECTED_LATENCY_SHARE * PROBE.query_latency_ns
    assert (server.server_target_latency_percentile, server.server_target_latency_ns) == (
        0.9,
        ROW.bound_ns,
    )
    assert server.server_target_qps == 0.5 * PROBE.samples_per_second
    assert offline.offline_expected_qps == OFFLINE_MARGIN * PROBE.samples_per_second


@pytest.mark.parametrize(
    ("scenario", "setting", "value", "field", "told"),
    [
        (Scenario.SERVER, "server.target_qps", 77.5, "server_target_qps", 77.5),
        (Scenario.OFFLINE, "offline.expected_qps", 99.0, "offline_expected_qps", 99.0),
        (
            Scenario.SINGLE_STREAM,
            "single_stream.expected_latency_us",
            7,
            "single_stream_expected_latency_ns",
            7000,
        ),
        (
            Scenario.MULTI_STREAM,
            "multi_stream.expected_latency_us",
            8,
            "multi_stream_expected_latency_ns",
            8000,
        ),
        (Scenario.OFFLINE, "loadgen.min_duration_ms", 123, "min_duration_ms", 123),
        (Scenario.SERVER, "loadgen.min_queries", 321, "min_query_count", 321),
    ],
)
def test_the_users_settings_win(
    scenario: Scenario, setting: str, value: float, field: str, told: float
):
    """A probe may be wrong about a machine that the user knows."""
    assert getattr(build_test_settings(schedule(scenario, **{setting: value})), field) == told


@pytest.mark.parametrize(
    "knob", ["single_stream.expected_latency_us", "multi_stream.expected_latency_us"]
)
def test_no_latency_is_expected_below_what_a_record_keeps(knob: str):
    """Records have whole microseconds: an audit of a device that answers in half of one would plan
    with 0, and queries without end.
    """
    scenario = Scenario.MULTI_STREAM if knob.startswith("multi") else Scenario.SINGLE_STREAM
    assert schedule(scenario, **{knob: 0}).expected_latency_ns == 1000


def test_the_share_of_the_probe_is_a_setting():
    """Half of Offline's rate is a guess for one machine."""
    assert (
        schedule(Scenario.SERVER, **{"server.qps_share": 0.25}).rate
        == 0.25 * PROBE.samples_per_second
    )


def test_percentiles_reach_loadgen_as_the_double_that_it_would_parse():
    """p99 as 0.9900000000000001 would be another place among whole hundreds of queries."""
    for percentile, fraction in ((99.0, 0.99), (97.0, 0.97), (99.9, 0.999)):
        settings = build_test_settings(replace(schedule(Scenario.SERVER), percentile=percentile))
        assert settings.server_target_latency_percentile == fraction


def test_a_setting_that_is_no_number_stands_aside():
    """Settings without a default are absent, not 0."""
    assert (
        get_numeric_setting({}, "server.target_qps", 5.0) == 5.0
        and get_numeric_setting({"server.target_qps": "x"}, "server.target_qps", 5.0) == 5.0
    )
