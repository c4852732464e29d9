"""podium's records of a point, beside the summary that was computed from them: each difference is
told, and records that no run wrote end no judge.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from kinds.endpoints import edited
from kinds.endpoints_curves import ORGANISATION, RECORDED_POINT, SUBMISSION, in_curve, record_point
from kinds.endpoints_curves import submission as build_submission
from system_records import put_system

from compliance.judge import Judge
from compliance.verdict import Finding
from suite.files.layout import (
    ARRIVAL_RECORD_FILE,
    DETAIL_LOG,
    GAP_RECORD_FILE,
    RUN_RECORD,
    START_RECORD_FILE,
    SYSTEM_RECORD,
    TOKEN_RECORD_FILE,
)

pytestmark = pytest.mark.slow

SUMMARY = "result_summary.json"


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission with podium's records of one point."""
    root = tmp_path_factory.mktemp("recorded")
    build_submission(record_point)(root)
    return root


@pytest.fixture
def point(recorded: Path, tmp_path: Path) -> Path:
    """That point in a copy that a test may change."""
    root = Path(shutil.copytree(recorded, tmp_path / "tree"))
    return root.joinpath(ORGANISATION, SUBMISSION, *in_curve(f"r{RECORDED_POINT}"))


def list_findings(point: Path) -> list[Finding]:
    """What the judge finds of a point's records."""
    found = Judge().judge_path(str(point)).findings
    return [each for each in found if each.rule == "endpoints.records"]


def test_the_summary_of_the_records_is_told_nothing_of(point: Path) -> None:
    assert list_findings(point) == []


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("latency", "std_dev"), lambda old: 1.03 * old, "latency.std_dev"),
        (("tpot", "percentiles", "90.0"), lambda old: 1.0001 * old, "tpot.percentiles.90.0"),
        (("n_samples_issued",), lambda old: old + 1, "n_samples_issued"),
        (("run_config", "load_pattern", "target_concurrency"), 7, "run_config.load_pattern"),
        (("run_config", "scheduler_random_seed"), 7, "run_config.scheduler_random_seed"),
        (("legacy_loadgen_window_duration_ns",), 7, "legacy_loadgen_window_duration_ns 7"),
        (("ttft",), {}, "no ttft.avg"),
    ],
)
def test_each_value_is_that_of_the_records(
    point: Path, path: tuple[str, ...], value: Any, named: str
) -> None:
    edited(SUMMARY, *path, value=value)(point)
    assert named in " ".join(each.found for each in list_findings(point))


@pytest.mark.parametrize("factor", [1 + 1e-13, 1])
def test_rounding_is_no_difference(point: Path, factor: float) -> None:
    edited(SUMMARY, "latency", "avg", value=lambda old: old * factor)(point)
    assert list_findings(point) == []


def save(name: str, build: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Replace an array by what a function makes of it."""

    def change(home: Path) -> None:
        numpy.save(home / name, build(numpy.load(home / name)))

    return change


def save_arrivals(home: Path) -> None:
    """Record arrivals that are words."""
    rows = len(numpy.load(home / START_RECORD_FILE))
    numpy.save(home / ARRIVAL_RECORD_FILE, numpy.full((rows, 2), "a few"))
    numpy.save(home / GAP_RECORD_FILE, numpy.zeros(rows, "<i8"))


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "no tokens": lambda home: (home / TOKEN_RECORD_FILE).unlink(),
    "no starts": lambda home: (home / START_RECORD_FILE).unlink(),
    "cut tokens": lambda home: (home / TOKEN_RECORD_FILE).write_bytes(
        (home / TOKEN_RECORD_FILE).read_bytes()[:-9]
    ),
    "an answer less": save(TOKEN_RECORD_FILE, lambda table: table[:-1]),
    "fewer starts": save(START_RECORD_FILE, lambda starts: starts[:-1]),
    "no answers": lambda home: [
        save(name, lambda table: table[:0])(home) for name in (TOKEN_RECORD_FILE, START_RECORD_FILE)
    ],
    "words": save(START_RECORD_FILE, lambda starts: starts.astype("U9")),
    "parts of nanoseconds": save(TOKEN_RECORD_FILE, lambda table: table.astype(float)),
    "a table of starts": save(START_RECORD_FILE, lambda starts: starts.reshape(-1, 2)),
    "no time": save(TOKEN_RECORD_FILE, lambda table: table * 0),
    "no tokens in answers": save(TOKEN_RECORD_FILE, lambda table: table * [1, 1, 1, 0]),
    "endless times": save(
        TOKEN_RECORD_FILE, lambda table: numpy.full_like(table, numpy.iinfo("<i8").max)
    ),
    "words of arrivals": save_arrivals,
    "no record": lambda home: (home / RUN_RECORD).unlink(),
    "another record": lambda home: (home / RUN_RECORD).write_text("[]"),
    "another system": lambda home: (home / SYSTEM_RECORD).write_text("{}"),
    "no log": lambda home: (home / DETAIL_LOG).unlink(),
    "a garbled log": lambda home: (home / DETAIL_LOG).write_text(":::MLLOG {"),
    "another concurrency": lambda home: put_system(**{"settings__batching.max_batch": "a few"})(
        home / SYSTEM_RECORD
    ),
    "nothing": shutil.rmtree,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_records_that_no_run_wrote_are_told(point: Path, name: str) -> None:
    DAMAGES[name](point / "loadgen")
    assert list_findings(point), name


def test_records_of_another_client_are_nothing_to_compare(point: Path) -> None:
    """A folder of that name may hold anything, and a summary of the client has no records."""
    document = json.loads((point / SUMMARY).read_text())
    (point / SUMMARY).write_text(json.dumps({**document, "version": "0.1.0"}))
    (point / "loadgen" / RUN_RECORD).unlink()
    edited(SUMMARY, "latency", "std_dev", value=lambda old: 1.03 * old)(point)
    assert list_findings(point) == []
