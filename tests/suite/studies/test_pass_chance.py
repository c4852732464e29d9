"""What is said of the chance of a peak: nothing that the runs at its rate contradict."""

from dataclasses import replace
from pathlib import Path

import pytest

from suite.studies.measured import read_measured_study
from suite.studies.peak import build_attempt
from suite.studies.rates import RateAttempt, describe_pass_chance

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/base/peak/studies/resnet50-peak"


def tell(best: RateAttempt, *others: RateAttempt, passes: float | None) -> str:
    """What is said of a search with these runs."""
    answer = replace(
        read_measured_study(EXAMPLE).answer, valid=best.rate, folder=best.folder, passes=passes
    )
    return describe_pass_chance(answer, (best, *others))


@pytest.fixture
def best() -> RateAttempt:
    found = read_measured_study(EXAMPLE)
    attempts = map(build_attempt, found.points)
    return next(each for each in attempts if each.folder == found.answer.folder)


def test_no_chance_is_told_beside_a_run_without_a_late_query(best: RateAttempt) -> None:
    """17 % stood beside 0 of 9,818 late: the bursts of the faster runs had made it."""
    calm = replace(best, rate=32650.0, queries=9818, over=0, dispersion=1.0)
    slower = replace(calm, rate=31570.0, folder="slower")
    faster = replace(calm, rate=35180.0, folder="faster", over=1285, verdict="INVALID")
    told = tell(calm, slower, faster, passes=0.17)
    assert told == (
        "2 of 2 full runs at this rate or below were VALID, the best one without a late query"
    )


def test_the_chance_is_told_with_what_the_runs_did(best: RateAttempt) -> None:
    late = replace(best, over=3)
    failed = replace(best, folder="failed", verdict="INVALID")
    told = tell(late, failed, passes=0.8)
    assert told.startswith("1 of 2 full runs at this rate or below were VALID; by the late queries")
    assert told.endswith("in about 80 % of cases")


def test_multi_stream_has_no_chance(best: RateAttempt) -> None:
    assert tell(best, passes=None) == ""
