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
        return f"{number!r} is not above {format_bound(setting.above)}"
    if setting.minimum is not None and not number >= setting.minimum:
        return f"{number!r} is below {format_bound(setting.minimum)}, the smallest legal value"
    if setting.maximum is not None and not number <= setting.maximum:
        return f"{number!r} is above {format_bound(setting.maximum)}, the largest legal value"
    return None


def describe_range(setting: Setting) -> str:
    """Describe the range in a few words; empty if there is none."""
    above, minimum, maximum = (
        None if bound is None else format_bound(bound)
        for bound in (setting.above, setting.minimum, setting.maximum)
    )
    if above:
        low = f"above {above}"
    elif minimum:
        low = f"at least {minimum}"
    else:
        low = ""
    if not maximum:
        return low
    if minimum:
        return f"{minimum} to {maximum}"
    if low:
        return f"{low}, at most {maximum}"
    return f"at most {maximum}"


def format_bound(bound: float) -> str:
    """Write a bound with all its digits; whole numbers with separators."""
    if float(bound).is_integer():
        return f"{bound:,.0f}"
    return f"{bound:g}"
