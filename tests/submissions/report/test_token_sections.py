"""A report of generated answers: the distributions of their tokens' times, from records that lie
beside each other, and the loss over the tokens trained.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compliance.results.training_runs import list_token_evaluations
from submissions.report.records.queries import RecordedQueries, read_recorded_queries
from submissions.report.records.tokens import RecordedTokens, read_recorded_tokens
from submissions.report.sections.tokens import build_token_charts, describe_token_bounds
from suite.errors import JudgedError
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario
from suite.registry import load_round
from suite.rounds import ScenarioRow

MS = 1_000_000
ROWS = np.array([[0, 12, 16, 3], [1, 25, 25, 1], [0, 31, 37, 4]]) * [1, MS, MS, 1]
"""sample, first, last and tokens of three answers."""


def write_records(folder: Path, tokens: Any) -> RecordedQueries:
    """Three queries that were issued at 10, 20 and 30 ms, and a record of tokens."""
    rows = np.zeros(3, list(QUERY_RECORD_FIELDS))
    rows["issued_ns"], rows["done_ns"], rows["samples"] = (
        np.array([10, 20, 30]) * MS,
        ROWS[:, 2],
        1,
    )
    np.save(folder / "queries.npy", rows)
    np.save(folder / "tokens.npy", np.asarray(tokens, "<i8"))
    found = read_recorded_queries(folder / "queries.npy")
    assert found is not None
    return found


def read_tokens(folder: Path) -> RecordedTokens:
    found = read_recorded_tokens(folder, write_records(folder, ROWS))
    assert found is not None
    return found


def test_times_are_from_issue_and_per_further_token(tmp_path: Path) -> None:
    found = read_tokens(tmp_path)
    assert found.first_token_Q.tolist() == [2 * MS, 5 * MS, 1 * MS]
    assert found.per_token_S.tolist() == [2 * MS, 2 * MS], "one token has no further ones"
    assert found.tokens_Q.tolist() == [3, 1, 4]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (ROWS[:2], "not a record of the run's answers"),
        (ROWS - [0, 9 * MS, 0, 0], "end before they begin"),
        (ROWS * [1, 1, 1, 0], "without tokens"),
    ],
)
def test_a_record_of_something_else_is_refused(tmp_path: Path, rows: Any, reason: str) -> None:
    queries = write_records(tmp_path, rows)
    with pytest.raises(JudgedError, match=reason):
        read_recorded_tokens(tmp_path, queries)


def test_a_run_without_tokens_has_no_record(tmp_path: Path) -> None:
    queries = write_records(tmp_path, ROWS)
    (tmp_path / "tokens.npy").unlink()
    assert read_recorded_tokens(tmp_path, queries) is None


def build_row(**bounds: Any) -> ScenarioRow:
    """A row of a scenario, with bounds of tokens."""
    half = next(iter(load_round().benchmarks["resnet50"].inference.values()))
    row = half.scenarios[Scenario.SERVER]
    fields = {name: getattr(row, name) for name in row.__slots__}
    return ScenarioRow(**{**fields, "bound_ns": None, "percentile": 99.0, **bounds})


def test_bounds_and_the_percentile_that_counts_are_marked(tmp_path: Path) -> None:
    row = build_row(first_token_ns=200 * MS, per_token_ns=10 * MS)
    found = read_tokens(tmp_path)
    first, further = build_token_charts(found, "here", "", Scenario.SERVER, row)
    assert (first.id, further.id) == ("ttft-here", "tpot-here")
    assert [mark.name for mark in first.marks] == [
        "p50 2 ms",
        "p99 5 ms",
        "bound 200.00 ms",
    ]
    assert sum(share for _, share in first.lines[0].points) == pytest.approx(100.0)
    assert "within 200.00 ms" in describe_token_bounds(row)
    assert "10.00 ms per further token" in describe_token_bounds(row)


def test_in_offline_only_further_tokens_are_drawn(tmp_path: Path) -> None:
    """Its queries are issued at once, so that a first token's time is mostly waiting."""
    (chart,) = build_token_charts(read_tokens(tmp_path), "here", "", Scenario.OFFLINE, None)
    assert chart.id == "tpot-here"
    assert describe_token_bounds(None) == ""


def test_the_loss_is_drawn_over_sequences_times_their_length() -> None:
    """Without a length, or with one that is none, there is no axis of tokens."""
    evaluations = [(3072, {"loss": 1.9}), (6144, {"loss": 1.4, "other": None}), ("x", {"loss": 1})]
    assert list_token_evaluations(64, evaluations) == (
        (196_608.0, {"loss": 1.9}),
        (393_216.0, {"loss": 1.4}),
    )
    assert list_token_evaluations(None, evaluations) == ()
    assert list_token_evaluations(-1, evaluations) == ()
