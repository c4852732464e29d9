"""The judge knows what LoadGen advises for a run that is INVALID, and finds it changed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from podium_fakes.served import ROW

from compliance.kinds.podium.documents.inference import LoadGenRun, read_loadgen_run
from compliance.kinds.podium.rules.inference.loadgen_summary import (
    check_stopping_text,
    check_unknown_lines,
)
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario
from suite.registry import load_round
from suite.workload import Mode

lg: Any = pytest.importorskip("mlperf_loadgen")
SAMPLES: Final = 64
ANSWER_S: Final = 0.005
SHORT: Final = {"min_duration_ms": 200}
"""Longer than the queries that LoadGen draws ahead for what it expects below."""
FAILING: Final[dict[str, tuple[Scenario, float, dict[str, Any], str]]] = {
    "Offline, short": (
        Scenario.OFFLINE,
        ANSWER_S,
        SHORT | {"offline_expected_qps": 10},
        "Increase expected QPS",
    ),
    "SingleStream, short": (
        Scenario.SINGLE_STREAM,
        0.0,
        SHORT | {"single_stream_expected_latency_ns": 1_000_000},
        "Decrease the expected latency",
    ),
    "SingleStream, too few": (
        Scenario.SINGLE_STREAM,
        ANSWER_S,
        {"min_duration_ms": 30, "single_stream_expected_latency_ns": 5_000_000},
        "Only processed",
    ),
    "SingleStream, ended early": (
        Scenario.SINGLE_STREAM,
        ANSWER_S,
        {"min_duration_ms": 30, "max_duration_ms": 40, "min_query_count": 200},
        "See the detailed log",
    ),
    "MultiStream, short": (
        Scenario.MULTI_STREAM,
        0.0,
        SHORT | {"multi_stream_expected_latency_ns": 10_000_000},
        "Decrease the expected latency",
    ),
    "Server, too slow": (
        Scenario.SERVER,
        ANSWER_S,
        SHORT | {"server_target_qps": 400, "server_target_latency_ns": 3_000_000},
        "Would need to run at least",
    ),
    "Server, too few": (
        Scenario.SERVER,
        0.0,
        {"server_target_qps": 100, "min_duration_ms": 50},
        "Processed",
    ),
}
"""What LoadGen runs, how long an answer takes, its settings, and what it says then."""


def run_loadgen(folder: Path, scenario: Scenario, answer_s: float, changes: dict[str, Any]) -> None:
    """Run LoadGen for a moment."""

    def answer(queries: list[Any]) -> None:
        time.sleep(answer_s)
        lg.QuerySamplesComplete([lg.QuerySampleResponse(each.id, 0, 0) for each in queries])

    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario.label)
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_query_count = 1
    settings.server_target_latency_ns = 60_000_000_000
    for name in ("single_stream", "multi_stream", "server"):
        setattr(settings, f"{name}_target_latency_percentile", ROW.percentile / 100)
    for name, value in changes.items():
        setattr(settings, name, value)
    output = lg.LogOutputSettings()
    output.outdir, output.copy_summary_to_stdout = str(folder), False
    logs = lg.LogSettings()
    logs.log_output, logs.enable_trace = output, False
    sut = lg.ConstructSUT(answer, lambda: None)
    qsl = lg.ConstructQSL(SAMPLES, SAMPLES, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, qsl, settings, logs, str(folder / "no-audit.config"))
    lg.DestroyQSL(qsl)
    lg.DestroySUT(sut)


def list_faults(folder: Path, scenario: Scenario) -> list[str]:
    """What the judge finds in the sentences of a run."""
    run = read_loadgen_run(folder, Mode.PERFORMANCE, scenario, load_round())
    assert run.find_value("result_validity") == "INVALID"
    unknown = [each.found for each in check_unknown_lines(run)]
    return unknown + [each.found for each in check_stopping_text(run)]


def edit(file: Path, change: Callable[[str], str]) -> None:
    text = file.read_text()
    assert change(text) != text
    file.write_text(change(text))


@pytest.mark.parametrize(
    ("scenario", "answer_s", "settings", "said"), FAILING.values(), ids=FAILING
)
def test_the_judge_knows_each_sentence_of_an_invalid_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Scenario,
    answer_s: float,
    settings: dict[str, Any],
    said: str,
) -> None:
    """A run that is shorter than asked for says the truth of its speed: two sides may be compared
    by it. An invented sentence is found in either file.
    """
    monkeypatch.setattr(LoadGenRun, "rule", ROW)
    run_loadgen(tmp_path, scenario, answer_s, settings)
    assert said in (tmp_path / SUMMARY_LOG).read_text()
    assert list_faults(tmp_path, scenario) == []
    edit(tmp_path / SUMMARY_LOG, lambda text: text.replace(said, "Sold out:", 1))
    assert list_faults(tmp_path, scenario) != []


@pytest.mark.parametrize("key", ["result_invalid_reason", "early_stopping_result"])
def test_the_detail_log_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(LoadGenRun, "rule", ROW)
    scenario, answer_s, settings, _ = FAILING["SingleStream, short"]
    run_loadgen(tmp_path, scenario, answer_s, settings)
    edit(
        tmp_path / DETAIL_LOG,
        lambda text: text.replace(f'"{key}", "value": "', f'"{key}", "value": "Sold out. '),
    )
    (found,) = list_faults(tmp_path, scenario)
    assert "Sold out" in found
