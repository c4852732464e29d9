"""Test settings of one LoadGen run, set field by field.

Never FromConfig: a second call in a process silently drops the embedded configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from suite.errors import MissingError
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.percentiles import convert_to_fraction
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue, Round, ScenarioRow
from suite.units import MS_PER_S, NS_PER_S, NS_PER_US
from suite.workload import Mode

NO_TOKEN_BOUND_NS: Final = 1 << 62
OFFLINE_MARGIN: Final = 1.2
"""Offline's one query is sized from a rate probed for a second; LoadGen itself adds 1.1
(test_settings_internal.cc, kSlack).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedSpeed:
    """Figures from a short probe of the system under test."""

    samples_per_second: float
    latency_ns: float
    """Latency of one sample."""
    query_latency_ns: float
    """Latency of one MultiStream query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenSchedule:
    """All LoadGen settings of one run."""

    scenario: Scenario
    mode: Mode
    qsl_rng_seed: int
    sample_index_rng_seed: int
    schedule_rng_seed: int
    accuracy_log_rng_seed: int
    sampled_answers: int
    percentile: float
    """0-100."""
    bound_ns: int | None
    min_duration_ms: int
    min_queries: int
    samples_per_query: int
    rate: float
    """Server: target queries/s; Offline: expected samples/s; else unused."""
    expected_latency_ns: int
    """SingleStream and MultiStream: latency of one query; else unused."""
    token_latencies: bool = False
    first_token_ns: int | None = None
    per_token_ns: int | None = None
    equal_issue: bool = False
    """As in the row (suite.rounds.ScenarioRow)."""
    special: Mapping[str, bool | int | float] = field(default_factory=dict)
    """Further settings by LoadGen's names, for compliance tests."""


def build_loadgen_schedule(
    round: Round,
    row: ScenarioRow,
    scenario: Scenario,
    mode: Mode,
    settings: Mapping[str, HyperValue],
    probe: ProbedSpeed,
    log_seed: int,
) -> LoadGenSchedule:
    """Build a run's schedule: the user's settings first, then the round's row, then the probe."""
    return LoadGenSchedule(
        scenario=scenario,
        mode=mode,
        qsl_rng_seed=round.loadgen.qsl_rng_seed,
        sample_index_rng_seed=round.loadgen.sample_index_rng_seed,
        schedule_rng_seed=round.loadgen.schedule_rng_seed,
        accuracy_log_rng_seed=log_seed,
        sampled_answers=round.loadgen.sampled_answers if mode is Mode.PERFORMANCE else 0,
        percentile=row.percentile,
        bound_ns=row.bound_ns,
        min_duration_ms=int(
            get_numeric_setting(settings, "loadgen.min_duration_ms", row.min_duration_ms)
        ),
        min_queries=int(get_numeric_setting(settings, "loadgen.min_queries", row.min_queries)),
        samples_per_query=row.samples_per_query,
        rate=resolve_target_rate(scenario, settings, probe),
        expected_latency_ns=resolve_expected_latency_ns(scenario, settings, probe),
        token_latencies=row.token_latencies,
        first_token_ns=row.first_token_ns,
        per_token_ns=row.per_token_ns,
        equal_issue=row.equal_issue,
    )


def get_numeric_setting(settings: Mapping[str, HyperValue], key: str, otherwise: float) -> float:
    """Return a numeric setting, or the default."""
    value = settings.get(key)
    return value if isinstance(value, int | float) else otherwise


def resolve_target_rate(
    scenario: Scenario, settings: Mapping[str, HyperValue], probe: ProbedSpeed
) -> float:
    """Return Server's target rate or Offline's expected rate."""
    if scenario is Scenario.SERVER:
        return get_numeric_setting(
            settings,
            "server.target_qps",
            get_numeric_setting(settings, "server.qps_share", 0.5) * probe.samples_per_second,
        )
    return get_numeric_setting(
        settings, "offline.expected_qps", OFFLINE_MARGIN * probe.samples_per_second
    )


def resolve_expected_latency_ns(
    scenario: Scenario, settings: Mapping[str, HyperValue], probe: ProbedSpeed
) -> int:
    """Return the expected latency of one query: at least 1 us, which records keep; from 0 LoadGen
    would prepare queries until memory is full.
    """
    if scenario is Scenario.MULTI_STREAM:
        latency_us = get_numeric_setting(
            settings,
            "multi_stream.expected_latency_us",
            EXPECTED_LATENCY_SHARE * probe.query_latency_ns / NS_PER_US,
        )
    else:
        latency_us = get_numeric_setting(
            settings,
            "single_stream.expected_latency_us",
            EXPECTED_LATENCY_SHARE * probe.latency_ns / NS_PER_US,
        )
    return int(NS_PER_US * max(latency_us, 1))


def import_loadgen(extra: str = "run") -> Any:
    """Import LoadGen; MissingError, which names the extra, if it is not installed."""
    try:
        import mlperf_loadgen
    except ImportError as error:
        from suite.process.installation import (
            format_install_command,
        )  # late: each LoadGen process imports this module

        raise MissingError(f"LoadGen is not installed: {format_install_command(extra)}") from error
    return mlperf_loadgen


def build_test_settings(schedule: LoadGenSchedule) -> Any:
    """Convert a schedule to LoadGen's TestSettings."""
    lg = import_loadgen()
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, schedule.scenario.label)
    settings.mode = (
        lg.TestMode.AccuracyOnly if schedule.mode is Mode.ACCURACY else lg.TestMode.PerformanceOnly
    )
    settings.qsl_rng_seed = schedule.qsl_rng_seed
    settings.sample_index_rng_seed = schedule.sample_index_rng_seed
    settings.schedule_rng_seed = schedule.schedule_rng_seed
    settings.accuracy_log_rng_seed = schedule.accuracy_log_rng_seed
    settings.accuracy_log_sampling_target = schedule.sampled_answers
    settings.min_duration_ms = schedule.min_duration_ms
    settings.min_query_count = schedule.min_queries
    settings.sample_concatenate_permutation = schedule.equal_issue
    SCENARIO_FIELD_SETTERS[schedule.scenario](settings, schedule)
    if schedule.token_latencies:
        set_token_fields(settings, schedule)
    for name, value in schedule.special.items():
        setattr(settings, name, value)
    return settings


def set_single_stream_fields(settings: Any, schedule: LoadGenSchedule) -> None:
    """Set the SingleStream fields."""
    settings.single_stream_expected_latency_ns = schedule.expected_latency_ns
    settings.single_stream_target_latency_percentile = convert_to_fraction(schedule.percentile)


def set_multi_stream_fields(settings: Any, schedule: LoadGenSchedule) -> None:
    """Set the MultiStream fields."""
    settings.multi_stream_expected_latency_ns = schedule.expected_latency_ns
    settings.multi_stream_target_latency_percentile = convert_to_fraction(schedule.percentile)
    settings.multi_stream_samples_per_query = schedule.samples_per_query


def set_server_fields(settings: Any, schedule: LoadGenSchedule) -> None:
    """Set the Server fields."""
    settings.server_target_qps = schedule.rate
    settings.server_target_latency_ns = schedule.bound_ns or 0
    settings.server_target_latency_percentile = convert_to_fraction(schedule.percentile)


def set_token_fields(settings: Any, schedule: LoadGenSchedule) -> None:
    """Let LoadGen measure tokens; only Server has bounds, which take the place of its latency's."""
    settings.use_token_latencies = True
    settings.ttft_latency = schedule.first_token_ns or NO_TOKEN_BOUND_NS
    settings.tpot_latency = schedule.per_token_ns or NO_TOKEN_BOUND_NS


def set_offline_field(settings: Any, schedule: LoadGenSchedule) -> None:
    """Set the Offline field."""
    settings.offline_expected_qps = schedule.rate


SCENARIO_FIELD_SETTERS: Final = {
    Scenario.SINGLE_STREAM: set_single_stream_fields,
    Scenario.MULTI_STREAM: set_multi_stream_fields,
    Scenario.SERVER: set_server_fields,
    Scenario.OFFLINE: set_offline_field,
}


def estimate_answering_s(schedule: LoadGenSchedule, samples: int, probe: ProbedSpeed) -> float:
    """Estimate the seconds needed to answer that many samples, from the probe."""
    match schedule.scenario:
        case Scenario.SINGLE_STREAM:
            return samples * probe.latency_ns / NS_PER_S
        case Scenario.MULTI_STREAM:
            return samples / schedule.samples_per_query * probe.query_latency_ns / NS_PER_S
        case Scenario.SERVER:
            return samples / schedule.rate
        case _:
            return samples / probe.samples_per_second


def estimate_minimum_s(schedule: LoadGenSchedule, probe: ProbedSpeed) -> float:
    """Return the minimum seconds of a performance run: the round's duration, or the time to answer
    its minimum query count.
    """
    samples = schedule.min_queries * (
        schedule.samples_per_query if schedule.scenario is Scenario.MULTI_STREAM else 1
    )
    return max(schedule.min_duration_ms / MS_PER_S, estimate_answering_s(schedule, samples, probe))


def build_log_settings(lg: Any, folder: Path) -> Any:
    """Configure LoadGen to log into the folder, with nothing on stdout and no trace."""
    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings = lg.LogSettings()
    settings.log_output = output
    settings.enable_trace = False
    return settings
