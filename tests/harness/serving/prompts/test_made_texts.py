"""Texts of a given size: as long as asked for, each another one, the same for the same seed."""

from collections.abc import Callable

import pytest

from harness.serving.prompts.made_texts import TokenCounter, make_texts
from harness.serving.prompts.text_sizes import MADE_PROMPTS, parse_text_sizes
from suite.errors import RequestError


def count_words(text: str) -> int:
    return len(text.split())


def count_halves(text: str) -> int:
    """Words of more than five letters have two tokens, and a text one of its own."""
    return 1 + sum(1 + (len(word) > 5) for word in text.split())


@pytest.mark.parametrize("count", [count_words, count_halves])
@pytest.mark.parametrize("text", ["64x16", "uniform:20-40x8-12", "1x1"])
def test_texts_have_the_sizes_asked_for(count: Callable[[str], int], text: str) -> None:
    sizes = parse_text_sizes(text)
    assert sizes is not None
    found = make_texts(sizes, TokenCounter(count=count, name="counter"), seed=3)
    assert len(found) == MADE_PROMPTS and found.source == text and found.tokenizer == "counter"
    own = 1 if count is count_halves else 0
    lengths = {count(each.text) - own for each in found.prompts}
    assert lengths <= set(sizes.inputs) and max(lengths) == max(sizes.inputs)
    assert {each.max_tokens for each in found.prompts} <= set(sizes.outputs)


def test_each_text_begins_in_its_own_way_and_follows_from_the_seed() -> None:
    sizes = parse_text_sizes("64x16")
    assert sizes is not None
    counter = TokenCounter(count=count_words, name="counter")
    first, again, other = (make_texts(sizes, counter, seed) for seed in (1, 1, 2))
    assert len({each.text[:80] for each in first.prompts}) == MADE_PROMPTS
    assert first == again and first.sha256 != other.sha256


@pytest.mark.parametrize("text", ["a.jsonl", "64", "64x", "x16", "64x16.txt", "prompts/64x16"])
def test_other_words_are_paths(text: str) -> None:
    assert parse_text_sizes(text) is None


@pytest.mark.parametrize("text", ["0x5", "5x0", "10-5x3", "1-5x3", "uniform:0-3x4"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--prompts"):
        parse_text_sizes(text)


def test_a_tokenizer_whose_counts_do_not_add_up_is_refused() -> None:
    sizes = parse_text_sizes("100x1")
    assert sizes is not None
    odd = TokenCounter(count=lambda text: len(text.split()) ** 2, name="odd")
    with pytest.raises(RequestError, match="the tokenizer gives"):
        make_texts(sizes, odd, seed=0)
