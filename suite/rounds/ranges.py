"""The range of a numeric setting: what `--set` accepts, `podium list settings` shows, and the judge
checks.
"""

from typing import Any

from suite.rounds import Setting


def find_range_problem(setting: Setting, value: Any) -> str | None:
    """Describe how a number, or an entry of a list, is outside of the setting's range; None if it
    is inside, or no number.
    """
    entries = value if isinstance(value, list | tuple) else [value]
    return next(
        (
            problem
            for entry in entries
            if type(entry) in (int, float)
            and (problem := find_bound_problem(setting, entry)) is not None
        ),
        None,
    )


def find_bound_problem(setting: Setting, number: float) -> str | None:
    """Describe the bound that a number breaks; None if it breaks none."""
    if setting.above is not None and not number > setting.above:
        return f"{number!r} is not above {setting.above:g}"
    if setting.minimum is not None and not number >= setting.minimum:
        return f"{number!r} is below {setting.minimum:g}, the smallest legal value"
    if setting.maximum is not None and not number <= setting.maximum:
        return f"{number!r} is above {setting.maximum:g}, the largest legal value"
    return None


def describe_range(setting: Setting) -> str:
    """Describe the range in a few words; empty if there is none."""
    low = (
        f"above {setting.above:g}"
        if setting.above is not None
        else f"at least {setting.minimum:g}"
        if setting.minimum is not None
        else ""
    )
    if setting.maximum is None:
        return low
    if setting.minimum is not None:
        return f"{setting.minimum:g} to {setting.maximum:g}"
    return f"{low}, at most {setting.maximum:g}" if low else f"at most {setting.maximum:g}"
