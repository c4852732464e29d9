"""Typed access to settings: the command line has validated them, but the type checker cannot know
that.
"""

from collections.abc import Mapping

from suite.errors import RequestError
from suite.rounds import HyperValue

Settings = Mapping[str, HyperValue]


def _wanted(settings: Settings, key: str) -> HyperValue:
    if key not in settings:
        raise RequestError(
            f"setting {key} has no value in this profile: set it with --set {key}=VALUE"
        )
    return settings[key]


def whole(settings: Settings, key: str) -> int:
    """Return an integer setting that may not be negative."""
    value = _wanted(settings, key)
    if type(value) is not int or value < 0:
        raise RequestError(f"setting {key}: {value!r} is not a whole number of at least 0")
    return value


def positive(settings: Settings, key: str) -> int:
    """Return an integer setting above 0."""
    value = whole(settings, key)
    if value == 0:
        raise RequestError(f"setting {key}: must be at least 1")
    return value


def number(settings: Settings, key: str) -> float:
    """Return a numeric setting."""
    value = _wanted(settings, key)
    if type(value) not in (int, float):
        raise RequestError(f"setting {key}: {value!r} is not a number")
    return float(value)  # type: ignore[arg-type]  # the check above leaves int and float


def flag(settings: Settings, key: str) -> bool:
    """Return a boolean setting."""
    value = _wanted(settings, key)
    if type(value) is not bool:
        raise RequestError(f"setting {key}: {value!r} is neither true nor false")
    return value


def text(settings: Settings, key: str) -> str:
    """Return a text setting."""
    return str(_wanted(settings, key))


def numbers(settings: Settings, key: str) -> tuple[float, ...]:
    """Return a setting that is a list of numbers."""
    value = _wanted(settings, key)
    if not isinstance(value, tuple | list):
        raise RequestError(f"setting {key}: {value!r} is not a list of numbers")
    return tuple(float(entry) for entry in value)
