"""Honest runs on a busy machine, as LoadGen and podium write them: what a wait between two stamps
makes of the figures, and what it cannot make of them.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from examples import result_of
from kinds.records import recorded
from making import LOADS, wall
from spoiling import MULTI, SINGLE, SRV, set_value

from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario

Rows = Any


def run_of(folder: Path) -> Path:
    """The only run."""
    return next(folder.rglob(DETAIL_LOG)).parent


def list_severities(folder: Path, rule: str) -> set[Severity]:
    """How grave the findings of a rule are."""
    return {each.severity for each in result_of(folder).findings if each.rule == rule}


def wait_between(folder: Path, gaps_ns: Callable[[int], Any]) -> None:
    """Let LoadGen's thread wait behind each query: later queries, and a later end."""
    path = run_of(folder) / QUERY_RECORD_FILE
    rows = numpy.load(path)
    gaps = gaps_ns(len(rows))
    shift = numpy.concatenate([[0], numpy.cumsum(gaps)[:-1]]).astype("i8")
    rows["issued_ns"] += shift
    rows["done_ns"] += shift
    numpy.save(path, rows)
    last_ms = (float(rows["done_ns"].max() - rows["issued_ns"].min()) + 20_000) / 1e6
    log = path.with_name(DETAIL_LOG)
    set_value(log, "power_begin", wall(0))
    set_value(log, "power_end", wall(last_ms))
    set_value(log, "test_datetime", "2023-11-14T23:00:00Z")
    text = log.read_text()
    log.write_text(re.sub(r'(?<="time_ms": )\d{4,}\.\d+', f"{last_ms + 25:.6f}", text))
    if "result_qps_with_loadgen_overhead" in log.read_text():
        issued_s = float(rows["issued_ns"][-1] - rows["issued_ns"][0]) / 1e9
        set_value(
            log, "result_qps_with_loadgen_overhead", float(f"{(len(rows) - 1) / issued_s:.6g}")
        )


def slices_ns(count: int) -> Any:
    """Two of three wake-ups are prompt, the third waits for a slice of others."""
    return numpy.where(numpy.arange(count) % 3 == 0, 60_000_000, 20_000)


def stops_ns(count: int) -> Any:
    """The process is stopped for two seconds, five times."""
    return numpy.where(numpy.arange(count) % 140 == 70, 2_000_000_000, 20_000)


def shares_ns(count: int) -> Any:
    """A forger's gaps: each query is told shorter by as much."""
    return numpy.full(count, 9_000_000)


@pytest.mark.parametrize("scenario", [SINGLE, MULTI])
@pytest.mark.parametrize("gaps_ns", [slices_ns, stops_ns])
def test_a_thread_that_waits_for_a_core_is_no_finding(
    tmp_path: Path, scenario: Scenario, gaps_ns: Callable[[int], Any]
) -> None:
    """A query of a millisecond beside eight busy programs: more time between the queries than in
    them, and the record shows that most gaps are short.
    """
    recorded(scenario)(tmp_path)
    wait_between(tmp_path, gaps_ns)
    assert list_severities(tmp_path, "loadgen.streams") == set()
    assert list_severities(tmp_path, "loadgen.span") == set()
    assert list_severities(tmp_path, "queries.latencies") == set()


@pytest.mark.parametrize("scenario", [SINGLE, MULTI])
def test_latencies_told_shorter_in_both_records_are_found(
    tmp_path: Path, scenario: Scenario
) -> None:
    """Then there is a gap behind each query, and a thread that waits does not wait each time."""
    recorded(scenario)(tmp_path)
    wait_between(tmp_path, shares_ns)
    assert list_severities(tmp_path, "loadgen.streams") == {Severity.ERROR}


def test_few_queries_with_a_wait_behind_each_are_a_warning(tmp_path: Path) -> None:
    """Of two or three gaps each may be long by chance."""
    recorded(SINGLE)(tmp_path)
    path = run_of(tmp_path) / QUERY_RECORD_FILE
    rows = numpy.load(path)[:24]
    numpy.save(path, rows)
    log = path.with_name(DETAIL_LOG)
    set_value(log, "result_query_count", len(rows))
    set_value(log, "result_mean_latency_ns", 7_046_000)
    wait_between(tmp_path, shares_ns)
    assert list_severities(tmp_path, "loadgen.streams") == {Severity.WARNING}


@pytest.mark.parametrize("scenario", [SINGLE, MULTI])
@pytest.mark.parametrize("step_ns", [-10_000_000_000, 10_000_000_000])
def test_a_clock_that_telemetry_says_was_set_hides_no_shorter_latencies(
    tmp_path: Path, scenario: Scenario, step_ns: int
) -> None:
    """A clock set back within the queries shortens LoadGen's time of the run as well."""
    recorded(scenario)(tmp_path)
    log = run_of(tmp_path) / DETAIL_LOG
    per_query = "query_" if scenario is MULTI else ""
    mean = sum(LOADS[scenario].latencies) // LOADS[scenario].queries
    set_value(log, f"result_mean_{per_query}latency_ns", int(0.8 * mean))
    telemetry = log.with_name(TELEMETRY_FILE)
    *lines, end = telemetry.read_text().splitlines()
    told = json.loads(end)
    told["end"]["clocks_ns"][1] += step_ns
    telemetry.write_text("\n".join([*lines, json.dumps(told)]) + "\n")
    assert Severity.ERROR in list_severities(tmp_path, "loadgen.streams")


@pytest.mark.parametrize("scenario", [SINGLE, MULTI])
@pytest.mark.parametrize("share", [0.49, 0.9, 0.99])
def test_latencies_below_the_record_are_found(
    tmp_path: Path, scenario: Scenario, share: float
) -> None:
    """podium's stamps lie within LoadGen's: no wait makes LoadGen's latencies shorter."""
    recorded(scenario)(tmp_path)
    path = run_of(tmp_path) / QUERY_RECORD_FILE
    per_query = "query_" if scenario is MULTI else ""
    mean = sum(LOADS[scenario].latencies) // LOADS[scenario].queries
    set_value(path.with_name(DETAIL_LOG), f"result_mean_{per_query}latency_ns", int(share * mean))
    assert Severity.ERROR in list_severities(tmp_path, "loadgen.streams")


@pytest.mark.parametrize("scenario", [SINGLE, MULTI, SRV, Scenario.OFFLINE])
def test_a_run_that_is_told_shorter_than_its_record_is_found(
    tmp_path: Path, scenario: Scenario
) -> None:
    """LoadGen's clock begins before podium's first stamp, and ends behind the last one."""
    recorded(scenario)(tmp_path)
    log = run_of(tmp_path) / DETAIL_LOG
    rows = numpy.load(log.with_name(QUERY_RECORD_FILE))
    span_ms = float(rows["done_ns"].max() - rows["issued_ns"].min()) / 1e6
    set_value(log, "power_begin", wall(0))
    for share, found in ((1.0, set()), (0.95, {Severity.ERROR})):
        set_value(log, "power_end", wall(share * span_ms + 1))
        told = [
            each.severity
            for each in result_of(tmp_path).findings
            if each.rule == "loadgen.span" and QUERY_RECORD_FILE in each.required
        ]
        assert set(told) == found


def test_arrivals_behind_a_stop_are_no_finding(tmp_path: Path) -> None:
    """LoadGen's thread was stopped, and issued what was due in one go."""
    recorded(SRV)(tmp_path)
    path = run_of(tmp_path) / QUERY_RECORD_FILE
    rows = numpy.load(path)
    due, began = rows["issued_ns"].copy(), rows["issued_ns"][0]
    for stop in range(0, 6):
        end = began + stop * 1_000_000_000 + 900_000_000
        held = (due >= end - 900_000_000) & (due < end)
        rows["issued_ns"][held] = end + 10_000 * numpy.arange(held.sum())
    rows["done_ns"] = numpy.maximum(rows["done_ns"], rows["issued_ns"] + 1_000_000)
    rows["issued_ns"][0] = began
    numpy.save(path, rows)
    assert list_severities(tmp_path, "queries.arrivals") == set()
