"""The tokens that end an answer; imports no framework, since the judge calls it."""

from collections.abc import Collection
from typing import Final

from suite.terms import Profile
from workloads.llama.vocabulary import END_ID

LLAMA3_END_IDS: Final = (128_001, 128_008, 128_009)
"""<|end_of_text|>, <|eom_id|> and <|eot_id|>. Source: meta-llama/Llama-3.1-8B-Instruct,
generation_config.json, eos_token_id.
"""


def list_answer_ends(profile: str) -> Collection[int]:
    """Return the ids by profile: smoke's tokenizer is that of the generated news."""
    return (END_ID,) if profile == Profile.SMOKE else LLAMA3_END_IDS
