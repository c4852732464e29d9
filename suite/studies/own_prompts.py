"""Servers that are measured with the user's own prompts: what tells their runs, and where records
keep the prompts.
"""

from typing import TYPE_CHECKING, Final

from suite.records import SystemUnderTest

if TYPE_CHECKING:
    from suite.studies.kind import StudiedSystem

SUBJECT_PREFIX: Final = "served-"
"""Of the name in the place of a workload's: no workload is called so, even if the model has its
name.
"""
PROMPTS_HASH_SETTING: Final = "prompts.sha256"
"""Of the system: what it was asked."""
PROMPTS_SOURCE_SETTING: Final = "prompts.source"
PROMPTS_COUNT_SETTING: Final = "prompts.count"
PROMPTS_LENGTH_SETTING: Final = "prompts.max_tokens"
PROMPTS_FIELDS_SETTING: Final = "prompts.fields"
PROMPTS_SALTED_SETTING: Final = "prompts.salted"
"""Whether each request begins with words of its own; only of systems that are asked so."""
TASK_SETTINGS: Final = (
    PROMPTS_HASH_SETTING,
    PROMPTS_COUNT_SETTING,
    PROMPTS_LENGTH_SETTING,
    PROMPTS_FIELDS_SETTING,
    PROMPTS_SALTED_SETTING,
    "endpoint.temperature",
)
"""What must be equal where two servers are compared."""
SHOWN_HASH_DIGITS: Final = 16
NO_FIELDS: Final = "{}"

COUNTER_SETTING: Final = "prompts.tokenizer"
"""Of the system: what counted the tokens of made texts. Each of these begins otherwise."""


def is_prompted(system: "StudiedSystem") -> bool:
    """Return whether a study's system is one of servers that answer the user's own prompts."""
    return system.is_bare and PROMPTS_HASH_SETTING in system.settings


def has_own_prompts(system: SystemUnderTest) -> bool:
    """Return whether a system was asked the user's own prompts."""
    return system.workload.startswith(SUBJECT_PREFIX) and PROMPTS_HASH_SETTING in system.settings


def has_salted_prompts(system: SystemUnderTest) -> bool:
    """Return whether each request to a system was to begin with words of its own."""
    return bool(system.settings.get(PROMPTS_SALTED_SETTING))


def has_distinct_prompts(system: SystemUnderTest) -> bool:
    """Return whether a system was asked texts of which no two begin alike: made, or salted."""
    return COUNTER_SETTING in system.settings or has_salted_prompts(system)


def describe_own_prompts(system: SystemUnderTest) -> str:
    """Name the user's own prompts, and how they were asked; empty of a workload's."""
    if not has_own_prompts(system):
        return ""
    settings = system.settings
    count, most = settings.get(PROMPTS_COUNT_SETTING), settings.get(PROMPTS_LENGTH_SETTING)
    fields = str(settings.get(PROMPTS_FIELDS_SETTING, NO_FIELDS))
    temperature = settings.get("endpoint.temperature")
    return ", ".join(
        (
            f"prompts {settings.get(PROMPTS_SOURCE_SETTING)} ({count}, SHA-256"
            f" {str(settings[PROMPTS_HASH_SETTING])[:SHOWN_HASH_DIGITS]})",
            f"at most {most} tokens",
            *(("salted",) if has_salted_prompts(system) else ()),
            *((fields,) if fields != NO_FIELDS else ()),
            *((f"temperature {temperature}",) if temperature is not None else ()),
        )
    )
