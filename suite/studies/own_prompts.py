"""Servers that are measured with the user's own prompts: what tells their runs, and where records
keep the prompts.
"""

from typing import Final

from suite.records import SystemUnderTest
from suite.studies.kind import StudiedSystem

SUBJECT_PREFIX: Final = "served-"
"""Of the name in the place of a workload's: no workload is called so, even if the model has its
name.
"""
PROMPTS_HASH_SETTING: Final = "prompts.sha256"
"""Of the system: what it was asked."""

COUNTER_SETTING: Final = "prompts.tokenizer"
"""Of the system: what counted the tokens of made texts. Each of these begins otherwise."""


def is_prompted(system: StudiedSystem) -> bool:
    """Return whether a study's system is one of servers that answer the user's own prompts."""
    return system.is_bare and PROMPTS_HASH_SETTING in system.settings


def has_own_prompts(system: SystemUnderTest) -> bool:
    """Return whether a system was asked the user's own prompts."""
    return system.workload.startswith(SUBJECT_PREFIX) and PROMPTS_HASH_SETTING in system.settings


def has_made_prompts(system: SystemUnderTest) -> bool:
    """Return whether a system was asked texts that were made, of which no two begin alike."""
    return COUNTER_SETTING in system.settings
