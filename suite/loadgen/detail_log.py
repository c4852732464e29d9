"""Reads the detail log of a LoadGen run: the last value of every key, and its errors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.errors import JudgedError
from suite.files.layout import DETAIL_LOG
from suite.files.untrusted_files import describe_parse_failure, read_untrusted_file
from suite.loadgen import loadgen_errors
from suite.loadgen.headline import (
    REQUESTED_TOKENS_KEY,
    SCENARIO_KEY,
    VALID_RUN,
    VERDICT_KEY,
    LoggedHeadline,
    select_headline_metric,
)
from suite.loadgen.scenario import Scenario

DETAIL_LINE_TOKEN: Final = b":::MLLOG "
MAX_DETAIL_BYTES: Final = 1 << 30
"""House rule: a detail log has some hundred lines, and one for each error."""
NON_FINITE_VALUE_PATTERN: Final = re.compile(rb'"value": -?(nan|inf), ')
"""A rate over zero time, as C++ prints it: of a Server run of one query."""


class EventMarkers(msgspec.Struct, frozen=True):
    """Event markers of the detail log."""

    is_error: bool = False


class DetailEvent(msgspec.Struct):
    """One line of the detail log."""

    key: str
    value: Any
    metadata: EventMarkers = EventMarkers()


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailLog:
    """Content of the detail log: the last value of every key, and its errors."""

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    """Errors that void the run, in LoadGen's words."""

    def require_number(self, key: str) -> float:
        """Return a numeric value; JudgedError if the log lacks it."""
        value = self.find_number(key)
        if value is None:
            raise JudgedError(f"LoadGen's detail log has no numeric '{key}'")
        return value

    def find_number(self, key: str) -> float | None:
        """Return a numeric value; None if the log has none."""
        value = self.values.get(key)
        if isinstance(value, int | float):
            return float(value)
        return None

    def find_scenario(self) -> Scenario | None:
        """Return the scenario that LoadGen ran; None if the log has none."""
        label = self.values.get(SCENARIO_KEY)
        return next((each for each in Scenario if each.label == label), None)

    def require_headline(self, scenario: Scenario | None) -> LoggedHeadline:
        """Return the result of a performance run; JudgedError if the log has none."""
        if scenario is None:
            raise JudgedError("LoadGen's detail log names no scenario")
        metric, key = select_headline_metric(scenario, self.measures_tokens)
        return LoggedHeadline(metric=metric, value=self.require_number(key))

    @property
    def is_valid(self) -> bool:
        """Whether LoadGen calls the run VALID, and logged no error that voids it."""
        return self.values.get(VERDICT_KEY) == VALID_RUN and not self.errors

    @property
    def measures_tokens(self) -> bool:
        """Whether LoadGen measured first and further tokens."""
        return bool(self.values.get(REQUESTED_TOKENS_KEY))

    def is_flag_set(self, key: str) -> bool:
        """Return a boolean; a key that the log lacks counts as true."""
        return bool(self.values.get(key, True))


def read_detail_log(folder: Path) -> DetailLog:
    """Read the detail log; JudgedError if it is missing or damaged."""
    decoder = msgspec.json.Decoder(DetailEvent)
    values: dict[str, Any] = {}
    errors: list[str] = []
    text = read_untrusted_file(folder / DETAIL_LOG, bytes, MAX_DETAIL_BYTES)
    for line in text.splitlines():
        if line.startswith(DETAIL_LINE_TOKEN):
            event = decode_log_line(
                decoder,
                NON_FINITE_VALUE_PATTERN.sub(
                    b'"value": null, ', line.removeprefix(DETAIL_LINE_TOKEN)
                ),
                DETAIL_LOG,
            )
            values[event.key] = event.value
            if event.metadata.is_error and not loadgen_errors.is_harmless_error(str(event.value)):
                errors.append(str(event.value))
    return DetailLog(values=values, errors=tuple(errors))


def is_logged_valid(folder: Path) -> bool:
    """Return whether LoadGen calls a run VALID, without an error that voids it; False without its
    log.
    """
    try:
        return read_detail_log(folder).is_valid
    except (OSError, JudgedError):
        return False


def decode_log_line(decoder: Any, line: bytes, name: str) -> Any:
    """Decode one line; JudgedError names the file."""
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise JudgedError(f"{name}: {describe_parse_failure(error)}") from error
