"""Prompts that begin otherwise than any before, so that no cache has them: words of the prompt
itself come first, in a random order. Their number is the same for all, so that prompts stay alike.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from harness.serving.network.openai.prompt_requests import OwnRequests, PromptApi
from suite.workload import ChatMessage, PromptSource

SALT_WORDS: Final = 8
"""House rule: of ten different words, a hundred million beginnings can be made.
"""
TEXT_MARK: Final = "podium-salt"
TOKEN_MARK: Final = 987_654_321
"""In place of the words until a prompt is sent; no vocabulary has such a token."""
WORD_PATTERN: Final = re.compile(r"[A-Za-z0-9]+")
"""Words that JSON writes as they are."""
SPARE_WORDS: Final = tuple("0123456789")
"""For prompts with fewer than ten different words of this kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaltedBody:
    """A request's body whose prompt begins with words that are drawn when it is sent."""

    begin: bytes
    words: tuple[bytes, ...]
    joint: bytes
    end: bytes

    def fill_in(self, random: Random) -> bytes:
        """Return the body with words that are drawn."""
        drawn = self.joint.join(random.choices(self.words, k=SALT_WORDS))
        return b"%b%b%b" % (self.begin, drawn, self.end)


class MarkedPrompts:
    """A workload's prompts, with a mark where each is salted."""

    def __init__(self, source: PromptSource) -> None:
        self.source, self.max_new_tokens = source, source.max_new_tokens

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        """Return the messages of a prompt, the first with the mark."""
        first, *others = self.source.build_messages(sample)
        return (replace(first, content=f"{TEXT_MARK} {first.content}"), *others)

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        """Return the tokens of a prompt, with the mark behind the first, which begins the text."""
        first, *others = self.source.tokenize_prompt(sample)
        return (first, TOKEN_MARK, *others)

    def split_body(self, body: bytes, sample: int) -> SaltedBody:
        """Split a body at its mark."""
        token_mark = str(TOKEN_MARK).encode()
        if token_mark in body:
            begin, _, end = body.partition(token_mark)
            _, *others = self.source.tokenize_prompt(sample)
            tokens = tuple(str(each).encode() for each in others)
            return SaltedBody(begin=begin, words=tokens, joint=b",", end=end)
        begin, _, end = body.partition(TEXT_MARK.encode())
        content = self.source.build_messages(sample)[0].content
        words = WORD_PATTERN.findall(content)
        if len(set(words)) < len(SPARE_WORDS):
            words += SPARE_WORDS
        encoded = tuple(each.encode() for each in words)
        return SaltedBody(begin=begin, words=encoded, joint=b" ", end=end)


class MarkedOwnPrompts(MarkedPrompts):
    """Prompts whose samples decide more of their requests (OwnRequests), with a mark in each."""

    def __init__(self, source: PromptSource, own: OwnRequests) -> None:
        super().__init__(source)
        self.own = own

    def build_fields(self, sample: int, api: PromptApi) -> Mapping[str, Any]:
        """Return the fields of a request, with the mark in its text or first message."""
        fields = dict(self.own.build_fields(sample, api))
        if "prompt" in fields:
            return {**fields, "prompt": f"{TEXT_MARK} {fields['prompt']}"}
        first, *others = fields["messages"]
        marked = {**first, "content": f"{TEXT_MARK} {first['content']}"}
        return {**fields, "messages": [marked, *others]}

    def limit_answer(self, sample: int) -> int:
        """Return the tokens after which an answer is cut."""
        return self.own.limit_answer(sample)


def mark_prompts(source: PromptSource) -> MarkedPrompts:
    """Return prompts with a mark where each is salted."""
    if isinstance(source, OwnRequests):
        return MarkedOwnPrompts(source, source)
    return MarkedPrompts(source)


def salt_sample(body: SaltedBody, sample: int) -> bytes:
    """Return a body that is the same whenever its sample is asked."""
    return body.fill_in(Random(sample))  # noqa: S311 - no secret
