"""What `podium submit` advises, and where its parts know one another by name."""

from collections.abc import Mapping

import pytest

from compliance.rules import load_rules
from submissions.submit import endpoints, inference, training
from submissions.submit.official import parse_checker_log
from submissions.submit.shortfalls import join_places


@pytest.mark.parametrize("hints", [endpoints.HINTS, inference.HINTS, training.HINTS])
def test_each_hint_is_about_a_rule(hints: Mapping[str, str]) -> None:
    """One about a rule that was renamed is never shown."""
    assert hints.keys() <= load_rules().keys()


def test_places_that_differ_in_one_name_are_joined() -> None:
    places = ["a/r1/point.yaml", "a/r4/point.yaml", "b/r1", "b/r4", "c"]
    assert join_places(places) == ["a/{r1,r4}/point.yaml", "b/{r1,r4}", "c"]
    many = join_places([f"a/r{number}/x" for number in range(10)])
    assert many == ["a/{r0,r1,r2,r3,r4,r5,r6,r7,2 more}/x"]


@pytest.mark.parametrize(
    "line",
    [
        "ERROR - closed/acme has no code",
        "ERROR:main:closed/acme has no code",
        "[2026-04-01 10:00:00,123 submission_checker.py:99 ERROR] closed/acme has no code",
    ],
)
def test_lines_of_each_checker_are_read(
    line: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (found,) = parse_checker_log(f"INFO - fine\n{line}\n", tmp_path_factory.getbasetemp())
    assert found.text == "closed/acme has no code" and found.severity == "error"
