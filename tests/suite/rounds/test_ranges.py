"""Numeric settings have ranges, which are checked before anything starts."""

from collections.abc import Iterator

import pytest

from suite import registry
from suite.errors import RequestError
from suite.rounds import Setting, SettingKind
from suite.rounds.ranges import describe_range, find_range_problem
from suite.rounds.settings import collect_workload_settings, convert_setting_value

ROUND = registry.load_round("podium-v1")
WORKLOADS = ("gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer")
NUMERIC = (SettingKind.INT, SettingKind.FLOAT, SettingKind.NUMBERS)


def list_numeric_settings() -> Iterator[tuple[str, str]]:
    """Yield every numeric setting of every workload."""
    for workload in WORKLOADS:
        for key, setting in collect_workload_settings(ROUND, ROUND.benchmark(workload)).items():
            if setting.kind in NUMERIC:
                yield workload, key


def find_smallest_legal(setting: Setting) -> float:
    """Return the smallest legal number; a little above an excluded bound."""
    whole = setting.kind is SettingKind.INT
    if setting.above is not None:
        return int(setting.above) + 1 if whole else setting.above + 1e-9
    assert setting.minimum is not None
    return int(setting.minimum) if whole else float(setting.minimum)


def convert(setting: Setting, key: str, number: float) -> object:
    """Set one number, in a list where the setting is one."""
    value = [number] if setting.kind is SettingKind.NUMBERS else number
    return convert_setting_value(setting, key, value)


@pytest.mark.parametrize(("workload", "key"), list(list_numeric_settings()))
def test_every_numeric_setting_refuses_what_is_below_its_range(workload: str, key: str) -> None:
    """server.target_qps=-5 never ended, 0 was a traceback, sut.instances=0 was accepted."""
    setting = collect_workload_settings(ROUND, ROUND.benchmark(workload))[key]
    whole = setting.kind is SettingKind.INT
    convert(setting, key, find_smallest_legal(setting))
    for number in (0, -1):
        legal = find_range_problem(setting, number) is None
        assert legal == (number >= find_smallest_legal(setting))
        if not legal:
            with pytest.raises(RequestError, match=rf"setting {key}: .*{number}"):
                convert(setting, key, number if whole else float(number))
    assert describe_range(setting)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_what_rows_set_is_in_range(workload: str) -> None:
    """A profile that podium itself would refuse cannot be run."""
    row = ROUND.benchmark(workload)
    known = collect_workload_settings(ROUND, row)
    tables = [
        *(training.settings for training in row.training.values()),
        *(recipe for training in row.training.values() for recipe in training.recipes),
        *(inference.settings for inference in row.inference.values()),
        {key: setting.default for key, setting in known.items()},
    ]
    problems = [
        (key, find_range_problem(known[key], value))
        for table in tables
        for key, value in table.items()
        if key in known
    ]
    assert [problem for problem in problems if problem[1]] == []


def test_a_value_above_its_range_is_refused() -> None:
    """A share of 1.5 is a typing error."""
    setting = collect_workload_settings(ROUND, ROUND.benchmark("resnet50"))["sgd_opt_momentum"]
    with pytest.raises(RequestError, match="1.5 is above 1, the largest legal value"):
        convert_setting_value(setting, "sgd_opt_momentum", 1.5)
    assert describe_range(setting) == "0 to 1"


@pytest.mark.parametrize(
    ("key", "most"),
    [
        ("power.period_ms", "10,000"),
        ("batching.max_batch", "65,536"),
        ("batching.window_us", "60,000,000"),
        ("server.target_qps", "10,000,000"),
        ("server.qps_share", "10"),
        ("offline.expected_qps", "100,000,000"),
        ("single_stream.expected_latency_us", "3,600,000,000"),
        ("multi_stream.expected_latency_us", "3,600,000,000"),
        ("loadgen.min_duration_ms", "604,800,000"),
        ("loadgen.min_queries", "100,000,000"),
    ],
)
def test_what_would_never_end_is_above_the_range(key: str, most: str) -> None:
    """Runs of 1e12 queries a second never ended, and batches of 9e18 hung in the probe."""
    setting = collect_workload_settings(ROUND, ROUND.benchmark("gnmt"))[key]
    bound = int(most.replace(",", ""))
    convert_setting_value(setting, key, bound)
    with pytest.raises(RequestError, match=f"is above {most}, the largest legal value"):
        convert_setting_value(setting, key, bound + 1)
    assert describe_range(setting).endswith((f" to {most}", f", at most {most}"))


def test_power_is_read_at_least_every_ten_seconds_and_at_most_a_hundred_times_a_second() -> None:
    """The list said "at least 1", and 5 was refused only after the data had been prepared."""
    key = "power.period_ms"
    setting = collect_workload_settings(ROUND, ROUND.benchmark("gnmt"))[key]
    with pytest.raises(RequestError, match="5 is below 10, the smallest legal value"):
        convert_setting_value(setting, key, 5)
    assert describe_range(setting) == "10 to 10,000"
