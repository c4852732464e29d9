"""Salted prompts: hardly two requests begin alike, and all have as many words."""

import json
from collections.abc import Sequence
from random import Random

import pytest

from harness.serving.network.openai.prompt_requests import PromptApi, RequestStyle
from harness.serving.network.salts import SALT_WORDS, MarkedPrompts, SaltedBody, salt_sample
from suite.workload import ChatMessage

TEXT = 'Anna ranks before "Bruno", caf\u00e9 Dora sells 12 boats'


class OneText:
    """A prompt of two messages."""

    max_new_tokens = 8

    def __init__(self, text: str = TEXT) -> None:
        self.text = text

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        return (
            ChatMessage(role="system", content=self.text),
            ChatMessage(role="user", content="?"),
        )

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        return (1, *range(100, 140))


def build_salted(api: PromptApi, source: OneText) -> SaltedBody:
    style = RequestStyle(api=api, model="m", streamed=True, headers={})
    marked = MarkedPrompts(source)  # type: ignore[arg-type]
    return marked.split_body(style.build_body(marked, 0), 0)  # type: ignore[arg-type]


def test_words_of_the_prompt_come_first():
    salted = build_salted(PromptApi.CHAT, OneText())
    body = json.loads(salted.fill_in(Random(1)))
    first, second = body["messages"]
    words, rest = (
        first["content"].split()[:SALT_WORDS],
        first["content"].split(None, SALT_WORDS)[-1],
    )
    assert rest == TEXT and set(words) <= {
        *["Anna", "ranks", "before", "Bruno", "caf", "Dora", "sells", "12", "boats"],
        *"0123456789",
    }
    assert second["content"] == "?"


def test_tokens_of_the_prompt_come_behind_the_first():
    salted = build_salted(PromptApi.COMPLETIONS, OneText())
    prompt = json.loads(salted.fill_in(Random(1)))["prompt"]
    assert prompt[0] == 1 and prompt[1 + SALT_WORDS :] == [*range(100, 140)]
    assert set(prompt[1 : 1 + SALT_WORDS]) <= {*range(100, 140)}


@pytest.mark.parametrize("api", PromptApi)
def test_hardly_two_requests_begin_alike(api: PromptApi):
    """Of ten words, a hundred million beginnings can be made."""
    salted, random = build_salted(api, OneText()), Random(3)
    assert len({salted.fill_in(random) for _ in range(10_000)}) >= 9_990


def test_a_sample_has_its_own_words():
    salted = build_salted(PromptApi.CHAT, OneText())
    assert salt_sample(salted, 3) == salt_sample(salted, 3) != salt_sample(salted, 4)


def test_a_prompt_without_such_words_gets_digits():
    salted = build_salted(PromptApi.CHAT, OneText("\u4f60\u597d"))
    content = json.loads(salted.fill_in(Random(1)))["messages"][0]["content"]
    assert content.split()[-1] == "\u4f60\u597d" and content.split()[0].isdigit()
