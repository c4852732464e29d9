"""Renders the judge's report in each format; a format's module is loaded on demand."""

from collections.abc import Sequence
from importlib import import_module

from compliance.verdict import Result


def render(results: Sequence[Result], form: str) -> bytes:
    """Render a report as bytes for stdout; `form` names a module of `compliance.reports`.

    Text that UTF-8 cannot encode, as in file names in another encoding, is escaped.
    """
    text: str = import_module(f"compliance.reports.{form}").render(results)
    return text.encode("utf-8", "backslashreplace")
