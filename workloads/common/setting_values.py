"""Typed access to settings: the command line has validated them, but the type checker cannot know
that.
"""

from collections.abc import Mapping

from suite.errors import RequestError
from suite.rounds import HyperValue

Settings = Mapping[str, HyperValue]


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
