"""Whether two answers may come from one model: near ties are, another model's or another sentence's
are not.
"""

import pytest

from workloads.common.text.agreement import agree
from workloads.common.text.token_answers import pack_token_ids

ANSWER = [17, 4, 9, 22, 31, 5, 8, 3]


@pytest.mark.parametrize(
    "other",
    [ANSWER, [17, 4, 9, 23, 31, 5, 8, 3], [17, 9, 22, 31, 5, 3], [17, 4, 9, 22, 40, 41, 42, 8, 3]],
)
def test_a_word_chosen_otherwise_may_be_rounding(other: list[int]) -> None:
    """Where two words are nearly as likely, the batch's size decides."""
    assert agree(pack_token_ids(ANSWER), pack_token_ids(other)) and agree(
        pack_token_ids(other), pack_token_ids(ANSWER)
    )


@pytest.mark.parametrize(
    "other", [[], [3], [50, 51, 52, 53, 54, 5, 8, 3], [8, 5, 31, 22, 9, 4, 17, 3], [17, 4, 3]]
)
def test_another_sentence_is_none(other: list[int]) -> None:
    """A few common tokens, or the same in another order, are not enough: answers of a performance
    run prove which model ran.
    """
    assert not agree(pack_token_ids(ANSWER), pack_token_ids(other)) and not agree(
        pack_token_ids(other), pack_token_ids(ANSWER)
    )


@pytest.mark.parametrize("odd", [b"", b"\1\2\3"])
def test_what_is_no_answer_agrees_with_itself_alone(odd: bytes) -> None:
    assert (
        agree(odd, odd)
        and not agree(odd, pack_token_ids(ANSWER))
        and not agree(pack_token_ids(ANSWER), odd)
    )
