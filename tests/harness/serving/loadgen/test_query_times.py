"""The record of a run's queries: one row for each, whatever the batches were."""

from array import array
from pathlib import Path

import numpy
import pytest
from podium_fakes.served import job

from harness.serving.loadgen import query_times
from harness.serving.loadgen.query_times import (
    NUMBERS_PER_COMPLETION,
    WorkerCompletions,
    build_query_table,
    write_query_times,
)
from harness.serving.loadgen.session import run_loadgen_in_child
from suite.files.layout import (
    ARRIVAL_RECORD_FILE,
    GAP_RECORD_FILE,
    PARTIAL_SUFFIX,
    QUERY_RECORD_FILE,
    TELEMETRY_FILE,
)
from suite.loadgen.arrival_record import build_answer_arrivals
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

ISSUED = array("q", range(10, 100, 10))


def completions(*rows: tuple[int, int, int, int, int]) -> WorkerCompletions:
    """Each row: done, batch, first query, queries, samples."""
    found = WorkerCompletions()
    for row in rows:
        found.add_completion(*row)
    return found


def test_each_query_of_a_batch_has_its_row_in_the_order_of_issue():
    """Workers finish in any order; the judge holds the rows against the schedule one by one."""
    first, second = completions((90, 0, 0, 2, 2), (95, 2, 5, 1, 1)), completions((80, 1, 2, 3, 3))
    found = build_query_table(Scenario.SERVER, ISSUED, [first, second])
    assert found.tolist() == [
        (10, 90, 0, 1),
        (20, 90, 0, 1),
        (30, 80, 1, 1),
        (40, 80, 1, 1),
        (50, 80, 1, 1),
        (60, 95, 2, 1),
    ]


def test_the_parts_of_a_query_become_one_row():
    """A MultiStream query that takes three batches is done with the last one."""
    found = build_query_table(
        Scenario.MULTI_STREAM,
        ISSUED,
        [
            completions((50, 0, 0, 1, 4), (90, 3, 1, 1, 4)),
            completions((55, 1, 0, 1, 3), (52, 2, 0, 1, 1)),
        ],
    )
    assert found.tolist() == [(10, 55, 1, 8), (20, 90, 3, 4)]


def test_offline_has_one_row_a_chunk():
    """Offline has one query: its rows are the chunks, so that a trend within the run can be
    seen.
    """
    found = build_query_table(
        Scenario.OFFLINE,
        ISSUED,
        [completions((50, 0, 0, 1, 256), (60, 0, 0, 1, 44)), completions((55, 1, 0, 1, 256))],
    )
    assert found.tolist() == [(10, 50, 0, 256), (10, 55, 1, 256), (10, 60, 0, 44)]


def test_a_run_without_queries_has_an_empty_table():
    """LoadGen may end before it issues any."""
    assert len(build_query_table(Scenario.MULTI_STREAM, array("q"), [WorkerCompletions()])) == 0


def test_a_record_has_at_most_so_many_rows(monkeypatch: pytest.MonkeyPatch):
    """A night's run must not fill memory and disk; its first rows are kept."""
    monkeypatch.setattr(query_times, "MAX_QUERY_RECORD_ROWS", 3)
    found = completions(*((20 * n + 25, n, 2 * n, 2, 2) for n in range(4)))
    assert len(found.numbers) == 3 * NUMBERS_PER_COMPLETION and build_query_table(
        Scenario.SERVER, ISSUED, [found]
    ).tolist() == [(10, 25, 0, 1), (20, 25, 0, 1), (30, 45, 1, 1)]


def test_a_full_disk_costs_the_record_and_says_so(tmp_path: Path):
    """The run is kept without what could not be written."""
    (tmp_path / f"{QUERY_RECORD_FILE}{PARTIAL_SUFFIX}").symlink_to("/dev/full")
    assert (
        write_query_times(tmp_path, Scenario.SERVER, ISSUED, [completions((90, 0, 0, 2, 2))])
        == "queries.npy is lost: No space left on device"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("scenario", Scenario)
def test_a_run_leaves_the_times_of_all_its_queries(scenario: Scenario, tmp_path: Path):
    """Rows as many as LoadGen counted, done after they were issued; telemetry lies beside them."""
    with run_loadgen_in_child(job(tmp_path, scenario, max_batch=3)) as (folder, outcome):
        facts = read_detail_log(folder)
    rows = numpy.load(tmp_path / "run" / QUERY_RECORD_FILE, mmap_mode="r", allow_pickle=False)
    assert outcome.lost == () and (tmp_path / "run" / TELEMETRY_FILE).is_file()
    assert (
        rows.dtype.descr == list(QUERY_RECORD_FIELDS) and rows["samples"].sum() == outcome.samples
    )
    assert (rows["done_ns"] > rows["issued_ns"]).all() and rows[
        "batch"
    ].max() == outcome.batches - 1
    if scenario is not Scenario.OFFLINE:
        assert (
            len(rows) == facts.require_number("result_query_count")
            and (numpy.diff(rows["issued_ns"]) > 0).all()
        )


def test_an_accuracy_run_leaves_no_times(tmp_path: Path):
    """Nothing is timed there."""
    with run_loadgen_in_child(job(tmp_path, Scenario.SERVER, Mode.ACCURACY)):
        pass
    assert not {QUERY_RECORD_FILE, TELEMETRY_FILE} & {
        path.name for path in (tmp_path / "run").iterdir()
    }


def test_times_between_arrivals_follow_the_order_of_the_answers(tmp_path: Path):
    """Answers end in any order; each keeps its own times, and one of a single arrival has none."""
    worker = completions((90, 0, 2, 1, 1), (91, 1, 0, 1, 1), (92, 2, 1, 1, 1))
    rows, gaps = array("q", [1, 2, 1, 0, 3, 1]), array("q", [21, 22, 11])
    said = [*query_times.write_arrivals(tmp_path, ISSUED, [worker], rows, gaps)]
    found = build_answer_arrivals(
        numpy.load(tmp_path / ARRIVAL_RECORD_FILE), numpy.load(tmp_path / GAP_RECORD_FILE)
    )
    assert said == ["", ""] and found is not None
    assert found.first_tokens.tolist() == [1, 3, 1] and found.counts.tolist() == [0, 1, 2]
    assert found.gaps_ns.tolist() == [11, 21, 22]
    assert found.sum_gaps_ns().tolist() == [0, 11, 43]


def test_too_many_times_between_arrivals_are_lost_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(query_times, "MAX_QUERY_RECORD_ROWS", 2)
    worker = completions((90, 0, 0, 1, 1))
    rows, gaps = array("q", [1, 3]), array("q", [1, 2, 3])
    assert [*query_times.write_arrivals(tmp_path, ISSUED, [worker], rows, gaps)] == [
        "gaps.npy is lost: more than 2 times"
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("table", [None, numpy.zeros((2, 3), "<i8"), numpy.ones((2, 2), "<i8")])
def test_records_of_arrivals_that_do_not_fit_are_none(table: numpy.ndarray | None):
    assert build_answer_arrivals(table, numpy.zeros(3, "<i8")) is None
