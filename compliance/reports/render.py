"""Renders the judge's report in each format; a format's module is loaded on demand."""

from collections.abc import Sequence
from importlib import import_module

from compliance.verdict import Result


def render(results: Sequence[Result], form: str) -> bytes:
    """Return a report as it goes to stdout; `form` names a module of `compliance.reports`.

    What UTF-8 cannot hold, as in names of files in another encoding, is escaped.
    """
    text: str = import_module(f"compliance.reports.{form}").render(results)
    return text.encode("utf-8", "backslashreplace")
