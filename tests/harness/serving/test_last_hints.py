"""The last words about a performance run that stayed INVALID."""

import pytest

from harness.serving.performance_runs import describe_last_hints
from suite.loadgen.advice import (
    LATENCY_BOUND_RULE,
    LOADGEN_QUERIES_SETTING,
    SERVER_RATE_SETTING,
    Hint,
)

FOUND = "p99 of 11.2 ms"
BOUND = Hint(rule=LATENCY_BOUND_RULE, found=FOUND, knob=SERVER_RATE_SETTING, value=1.8, sentence="")
COUNT = Hint(
    rule="minimum queries", found="3 of 64", knob=LOADGEN_QUERIES_SETTING, value=64.0, sentence=""
)


@pytest.mark.parametrize(
    ("hints", "changed", "has_tried"),
    [
        ([BOUND], {SERVER_RATE_SETTING: 3.6}, True),
        ([BOUND], {}, False),
        ([COUNT], {SERVER_RATE_SETTING: 3.6}, False),
    ],
)
def test_a_bound_that_every_rate_missed_is_not_answered_by_a_lower_rate(
    hints: list[Hint], changed: dict[str, float], has_tried: bool
) -> None:
    """At 0.4 queries in flight, one request alone is too slow on a crowded machine."""
    words = describe_last_hints(hints, changed)
    assert words.startswith(f"; {hints[0].rule}: {hints[0].found}")
    assert ("missed at every rate down to 3.6 queries/s" in words) is has_tried
    assert ("end other programs on these cores" in words) is has_tried


def test_a_run_without_hints_ends_without_a_reason_of_its_own() -> None:
    """LoadGen's errors stand there already."""
    assert describe_last_hints([], {}) == ""
