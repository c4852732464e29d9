"""The prompts that servers are asked, and the bytes that identify them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from suite.studies.own_prompts import (
    COUNTER_SETTING,
    PROMPTS_COUNT_SETTING,
    PROMPTS_HASH_SETTING,
    PROMPTS_SOURCE_SETTING,
)
from suite.workload import ChatMessage

MAX_PROMPTS: Final = 1 << 20
"""House rule: LoadGen's list of samples and podium's records of them stay below 100 MB."""
encode_line: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt: a text, or a conversation."""

    text: str = ""
    """Empty for a conversation."""
    messages: tuple[ChatMessage, ...] = ()
    max_tokens: int | None = None
    """Its own; None: as all others."""

    def list_messages(self) -> list[dict[str, str]]:
        """Return the conversation; a text is the user's one message."""
        messages = self.messages or (ChatMessage(role="user", content=self.text),)
        return [{"role": each.role, "content": each.content} for each in messages]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSet:
    """All prompts, and where they come from."""

    prompts: tuple[Prompt, ...]
    source: str
    """Name of the file, or the sizes."""
    sha256: str
    """Of the file's bytes; of made texts, of the lines that a file of them would have."""
    tokenizer: str = ""
    """What counted the tokens of made texts; empty for a file."""

    def __len__(self) -> int:
        return len(self.prompts)

    def describe_settings(self) -> Mapping[str, Any]:
        """Return what records keep of the prompts."""
        made = {COUNTER_SETTING: self.tokenizer} if self.tokenizer else {}
        return {
            PROMPTS_SOURCE_SETTING: self.source,
            PROMPTS_HASH_SETTING: self.sha256,
            PROMPTS_COUNT_SETTING: len(self.prompts),
            **made,
        }


def compute_lines_sha256(prompts: Sequence[Prompt]) -> str:
    """Return the SHA-256 of prompts as the lines of a JSONL file."""
    digest = hashlib.sha256()
    for each in prompts:
        digest.update(encode_line({"prompt": each.text, "max_tokens": each.max_tokens}) + b"\n")
    return digest.hexdigest()
