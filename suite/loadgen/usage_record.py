"""The usage record of a performance run, `usage.npy`: what servers count beside an answer's tokens.

One row per answer, in the order of `tokens.npy`. NumPy format, version 1.0, two dimensions, int64,
no pickled objects. The harness writes it where a server of OpenAI's API states one of the counts.
"""

from dataclasses import dataclass
from typing import Any, Final

USAGE_RECORD_FIELDS: Final = ("prompt_tokens", "cached_tokens")
"""Columns: tokens of the prompt (`usage.prompt_tokens`), and how many of them the server had in its
cache (`usage.prompt_tokens_details.cached_tokens`).
"""
NOT_STATED: Final = -1
"""In place of a count that the server does not state."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptUsage:
    """The rows, as memory-mapped NumPy arrays (answers,)."""

    prompt_tokens: Any
    cached_tokens: Any

    def __len__(self) -> int:
        return len(self.prompt_tokens)


def format_cached_tokens(cached: int, asked: int | None) -> str:
    """Say how many tokens of prompts servers had in a cache; `asked`: of all, as far as stated."""
    share = f" of {asked:,}" if asked else ""
    return f"{cached:,}{share} tokens of the prompts were in a cache, by the servers' own count"


def sum_stated_counts(counts: Any) -> int | None:
    """Return the sum of the counts that are stated, of an array (answers,); None if none is."""
    stated = counts[counts != NOT_STATED]
    return int(stated.sum()) if len(stated) else None
