"""Typed access to settings, one by one or as a record: the command line has validated them, but the
type checker cannot know that. Imports no framework.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self, TypeVar

from suite.errors import RequestError
from suite.rounds import HyperValue

T = TypeVar("T")
Settings = Mapping[str, HyperValue]
FIELD_READER: Final = "reader"
"""Key of a field's metadata: the function of the settings that returns its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsRecord:
    """A record whose fields each name the setting that they are read from:
    `width: int = declare_positive("model.width")`.
    """

    @classmethod
    def build_from_settings(cls, settings: Settings) -> Self:
        """Read the settings; RequestError names an invalid one."""
        return cls(**{each.name: each.metadata[FIELD_READER](settings) for each in fields(cls)})


def declare_field(read_value: Callable[[Settings], T]) -> T:
    """Declare a field by the function of the settings that returns its value."""
    declared: T = field(metadata={FIELD_READER: read_value})
    return declared


def declare_integer(key: str) -> int:
    """Declare a field that is a whole number of at least 0."""
    return declare_field(lambda settings: require_integer_setting(settings, key))


def declare_positive(key: str, default_key: str = "") -> int:
    """Declare a field that is a whole number above 0; without its setting, that of another one."""
    return declare_field(
        lambda settings: require_positive_setting(
            settings, default_key if default_key and key not in settings else key
        )
    )


def declare_number(key: str) -> float:
    """Declare a field that is a number."""
    return declare_field(lambda settings: require_number_setting(settings, key))


def declare_flag(key: str) -> bool:
    """Declare a field that is true or false."""
    return declare_field(lambda settings: require_flag_setting(settings, key))


def declare_text(key: str) -> str:
    """Declare a field that is a text."""
    return declare_field(lambda settings: require_text_setting(settings, key))


def declare_numbers(key: str) -> tuple[float, ...]:
    """Declare a field that is a list of numbers."""
    return declare_field(lambda settings: require_numbers_setting(settings, key))


def select_present_settings(settings: Settings, keys: Iterable[str]) -> dict[str, HyperValue]:
    """Return the settings of these keys; those without a value are left out."""
    return {key: settings[key] for key in keys if key in settings}


def _require_setting_value(settings: Settings, key: str) -> HyperValue:
    if key not in settings:
        raise RequestError(
            f"setting {key} has no value in this profile: set it with --set {key}=VALUE"
        )
    return settings[key]


def require_integer_setting(settings: Settings, key: str) -> int:
    """Return an integer setting that may not be negative."""
    value = _require_setting_value(settings, key)
    if type(value) is not int or value < 0:
        raise RequestError(f"setting {key}: {value!r} is not a whole number of at least 0")
    return value


def require_positive_setting(settings: Settings, key: str) -> int:
    """Return an integer setting above 0."""
    value = require_integer_setting(settings, key)
    if value == 0:
        raise RequestError(f"setting {key}: must be at least 1")
    return value


def require_number_setting(settings: Settings, key: str) -> float:
    """Return a numeric setting."""
    value = _require_setting_value(settings, key)
    if type(value) not in (int, float):
        raise RequestError(f"setting {key}: {value!r} is not a number")
    return float(value)  # type: ignore[arg-type]  # the check above leaves int and float


def require_flag_setting(settings: Settings, key: str) -> bool:
    """Return a boolean setting."""
    value = _require_setting_value(settings, key)
    if type(value) is not bool:
        raise RequestError(f"setting {key}: {value!r} is neither true nor false")
    return value


def require_text_setting(settings: Settings, key: str) -> str:
    """Return a text setting."""
    return str(_require_setting_value(settings, key))


def require_numbers_setting(settings: Settings, key: str) -> tuple[float, ...]:
    """Return a setting that is a list of numbers."""
    value = _require_setting_value(settings, key)
    if not isinstance(value, tuple | list):
        raise RequestError(f"setting {key}: {value!r} is not a list of numbers")
    return tuple(float(entry) for entry in value)
