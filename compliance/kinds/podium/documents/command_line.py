"""Parse a logged command line: workload, profile and settings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

PROGRAM_NAME: Final = "podium"
ONE_PROFILE_COMMANDS: Final = frozenset({"train", "infer", "run"})
"""Commands that take one profile, `smoke` by default: suite/console/options.py."""
DEFAULT_PROFILE: Final = "smoke"
BOOLEAN_WORDS: Final = {"true": True, "false": False}
TYPED_SETTING_TOLERANCE: Final = 1e-9
"""Relative: a setting is as its user typed it in the command, and as Python prints it in
the log.
"""


def find_command_contradictions(
    command: Sequence[str],
    known: Collection[str],
    workload: object,
    profile: object,
    settings: Mapping[str, Any],
) -> Iterator[tuple[str, str]]:
    """Yield contradictions between a command line and the log: the command's value, and the log's.

    Other programs' command lines are not read: a program that embeds podium has its own.
    """
    words = select_podium_arguments(command)
    if not words or words[0] not in ONE_PROFILE_COMMANDS:
        return
    named = [word for word in words[1:] if word in known]
    if named and workload not in named:
        yield f"command line for {named[0]}", f"{workload}"
    profile_option = (list_option_values(words, "--profile") or [DEFAULT_PROFILE])[-1]
    if profile_option != profile:
        yield f"command line for profile {profile_option}", f"{profile}"
    for key, text in dict(
        each.partition("=")[::2] for each in list_option_values(words, "--set") if "=" in each
    ).items():
        if key in settings and not is_same_setting_value(text, settings[key]):
            yield f"command line with {key}={text}", f"{settings[key]!r}, as in the settings"


def select_podium_arguments(command: Sequence[str]) -> Sequence[str]:
    """Return the words after the program's name; none for another program."""
    if len(command) > 1 and PurePath(command[0]).name == PROGRAM_NAME:
        return command[1:]
    return ()


def list_option_values(words: Sequence[str], name: str) -> list[str]:
    """Return an option's values, in both spellings: `--profile full` and `--profile=full`."""
    apart = [value for word, value in zip(words, words[1:], strict=False) if word == name]
    return apart or [word.partition("=")[2] for word in words if word.startswith(f"{name}=")]


def is_same_setting_value(text: str, value: Any) -> bool:
    """Return whether a typed setting may have the logged value; lists are not compared."""
    if isinstance(value, bool):
        return BOOLEAN_WORDS.get(text.strip().lower(), value) == value
    if isinstance(value, int | float):
        try:
            return abs(float(text) - value) <= TYPED_SETTING_TOLERANCE * max(abs(value), 1.0)
        except ValueError:
            return True
    return not isinstance(value, str) or text.strip("\"' ") == value
