"""The forgeries of `benchmarks/forgeries.py`: each edit does something, and the judge finds it."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
from forged_runs.edits import LEFT_OUT, TIMES, Forgery  # noqa: E402 - from that folder
from forgeries import (  # noqa: E402
    FOUND_BY_ERROR,
    FOUND_BY_WARNING,
    INAPPLICABLE,
    MISSED,
    SAMPLE,
    copy_result,
    iterate_attempts,
    list_findings,
)

sys.path.remove(BENCHMARKS)  # its openai.py would be taken for the package
from judged_examples import EXAMPLES, ensure_examples  # noqa: E402

NOT_THERE = {"Y01", "Y02", "Y03", "Y04", "T16", "X07"}
"""What needs a result in tokens, or longer epochs."""


@pytest.mark.parametrize("forgery", (*TIMES, *LEFT_OUT), ids=lambda forgery: forgery.id)
def test_what_is_left_out_or_squeezed_is_an_error(forgery: Forgery, tmp_path: Path) -> None:
    """In its largest size, on a small tree as podium leaves it. Its run takes half a minute, so
    smaller ones are within the slack.
    """
    ensure_examples()
    first, *_ = iterate_attempts(EXAMPLES / "base" / "recorded-tree", [forgery.id], tmp_path)
    wanted = INAPPLICABLE if forgery.id in NOT_THERE else FOUND_BY_ERROR
    assert first.outcome == wanted, first


@pytest.mark.slow
def test_every_forgery_of_the_example_is_found(tmp_path: Path) -> None:
    """In each of its sizes; the result as it is has no error."""
    original = copy_result(SAMPLE, tmp_path / "original")
    assert not [rule for severity, rule, _ in list_findings(original) if severity == "error"]
    attempts = list(iterate_attempts(original, [], tmp_path))
    assert [each for each in attempts if each.outcome == MISSED] == []
    times = {each.id for each in (*TIMES, *LEFT_OUT)}
    warned = [each for each in attempts if each.outcome == FOUND_BY_WARNING]
    assert [each for each in warned if each.id in times] == []


def test_an_edit_relinks_the_ledger(tmp_path: Path) -> None:
    """Else the ledger would find every edit, and the rules that are there for it would not be
    tried.
    """
    ensure_examples()
    tree = EXAMPLES / "base" / "recorded-tree"
    attempts = list(iterate_attempts(tree, ["V03", "Z03b"], tmp_path))
    assert attempts
    for each in attempts:
        assert not {"ledger.kept", "ledger.links"} & {*each.rules}
