"""The checks of TEST06."""

from array import array

import pytest

from suite.audits.names import GENERAL_TESTS, AuditTest, list_required_tests
from suite.audits.tokens import (
    LoggedTokens,
    TokenCheck,
    check_token_answers,
    find_token_contradictions,
    format_token_checks,
)

END = 9


def log_answer(*tokens: int, first: int | None = None, count: int | None = None) -> LoggedTokens:
    """An answer as LoadGen logs it, with what it was told, or with its own first token and count."""
    return LoggedTokens(
        sample=0,
        answer=array("i", tokens).tobytes(),
        first=array("i", [tokens[0] if first is None else first]).tobytes(),
        count=len(tokens) if count is None else count,
    )


@pytest.mark.parametrize(
    ("logged", "failed"),
    [
        (log_answer(1, 2, END), set()),
        (log_answer(1, 2, 3), set()),
        (log_answer(1, 2, END, first=2), {TokenCheck.FIRST}),
        (log_answer(1, 2, END, count=4), {TokenCheck.LENGTH}),
        (log_answer(1, END, END), {TokenCheck.END}),
        (log_answer(1, END, 2), {TokenCheck.END}),
        (
            LoggedTokens(sample=0, answer=b"\1\0\0", first=b"", count=None),
            {TokenCheck.LENGTH},
        ),
    ],
)
def test_each_contradiction_is_found(logged: LoggedTokens, failed: set[TokenCheck]) -> None:
    """A padded answer, another first token and an inflated count are the exploits of TEST06."""
    assert find_token_contradictions(logged, {END}) == failed


def test_the_outcome_is_told_in_the_words_of_the_script() -> None:
    """In Offline no first token is reported, so that check is skipped."""
    offline = LoggedTokens(sample=0, answer=array("i", [1, END]).tobytes(), first=b"", count=2)
    answers, wrong, passed = check_token_answers([offline], {END})
    assert (answers, wrong) == (1, 0)
    assert format_token_checks(passed, complete=True) == (
        "First token check pass: Skipped\nEOS check pass: True\n"
        "Sample length check pass: True\nTEST06 verification complete\n"
    )
    padded = log_answer(1, END, END)
    answers, wrong, passed = check_token_answers([offline, padded], {END})
    assert (answers, wrong, passed[TokenCheck.END]) == (2, 1, False)
    assert passed[TokenCheck.FIRST] is True


def test_tokens_are_checked_where_loadgen_measures_them() -> None:
    assert list_required_tests(tokens=False) == GENERAL_TESTS
    assert list_required_tests(tokens=True) == (*GENERAL_TESTS, AuditTest.TEST06)
