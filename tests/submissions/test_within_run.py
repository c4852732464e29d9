"""Scores carry what a run's record of its queries says of it; comparisons show it, and decide
nothing by it.
"""

from pathlib import Path

import numpy
import pytest
from changed_results import make_result

from compliance.judge import Judge
from compliance.kinds.podium.results.within_run import iterate_within_run_figures
from submissions.compare.comparison import ComparedResult
from submissions.compare.table_rows import describe_within_runs, iterate_result_remarks
from submissions.compliance_check import list_noise_rules
from suite.files.layout import QUERY_RECORD_FILE
from suite.loadgen.scenario import Scenario
from suite.result import WithinRun

BASES = Path(__file__).parents[1] / "examples" / "base"
SERVER = BASES / "recorded" / "Server" / "performance" / "run_1"


def words(found: WithinRun) -> str:
    (told,) = describe_within_runs([found])
    return told


def test_a_run_with_its_record_is_sliced():
    """Server's latencies begin when a query was due; the interval is of this run alone."""
    (found,) = iterate_within_run_figures([SERVER], Scenario.SERVER)
    assert (found.run, found.metric, found.unit, len(found.slices)) == (1, "latency_p99", "ns", 10)
    assert found.value == pytest.approx(15_080_000, rel=0.02) and words(found).startswith(
        "within this run: "
    )


def test_a_run_that_is_too_short_says_so():
    """Four chunks of Offline are no rate over time."""
    (found,) = iterate_within_run_figures(
        [BASES / "recorded-offline" / "Offline" / "performance" / "run_1"], Scenario.OFFLINE
    )
    assert found.low is None and words(found).startswith(
        "within this run: its batches are sorted by length"
    )


def test_a_run_without_a_record_is_scored_as_before():
    """Results from before the record was kept."""
    assert (
        list(
            iterate_within_run_figures(
                [BASES / "server" / "Server" / "performance" / "run_1"], Scenario.SERVER
            )
        )
        == []
    )


@pytest.mark.parametrize("fault", ["damaged", "of another run"])
def test_a_record_that_does_not_fit_is_left_out(tmp_path: Path, fault: str):
    """The judge names it; the result is scored and compared without it."""
    for path in SERVER.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if fault == "damaged":
        (tmp_path / QUERY_RECORD_FILE).write_bytes(b"\x93NUMPY")
    else:
        rows = numpy.load(tmp_path / QUERY_RECORD_FILE)
        rows["done_ns"] = rows["issued_ns"] - 1
        numpy.save(tmp_path / QUERY_RECORD_FILE, rows)
    assert list(iterate_within_run_figures([tmp_path], Scenario.SERVER)) == []


def test_a_disturbed_host_is_named():
    """A ratio between a quiet and a busy host says less than it seems to."""
    found = Judge().judge_path(str(BASES.parent / "invalid" / "noise.others")).findings
    assert list_noise_rules(found) == ("noise.others",)
    assert "on a disturbed host: noise.others" in list(
        iterate_result_remarks(
            ComparedResult(path="a", result=make_result(noise=list_noise_rules(found))), "ns"
        )
    )


def test_what_several_runs_have_in_common_is_said_once():
    """Three runs of a scenario gave the same sentence three times, in each cell of a comparison."""
    (found,) = iterate_within_run_figures(
        [BASES / "recorded-offline" / "Offline" / "performance" / "run_1"], Scenario.OFFLINE
    )
    (served,) = iterate_within_run_figures([SERVER], Scenario.SERVER)
    measured = make_result(within_run=(found, found, served))
    sentences = list(iterate_result_remarks(ComparedResult(path="a", result=measured), "ns"))
    assert sentences == [f"{words(found)} (2 runs)", words(served)]
