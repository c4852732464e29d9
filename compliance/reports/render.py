"""Render the judge's report in each format; a format's module is loaded on demand."""

from collections.abc import Sequence
from importlib import import_module

from compliance.verdict import PathJudgement


def render_judge_report(
    results: Sequence[PathJudgement], output_format: str, *, verbose: bool = False
) -> bytes:
    """Render a report as bytes for stdout; `form` names a module of `compliance.reports`. If
    `verbose`, the text lists everything; the other formats list what programs read.

    Text that UTF-8 cannot encode, as in file names in another encoding, is escaped.
    """
    render = getattr(
        import_module(f"compliance.reports.{output_format}"), f"render_{output_format}_report"
    )
    text: str
    if verbose and output_format == "text":
        text = render(results, verbose=True)
    else:
        text = render(results)
    return text.encode("utf-8", "backslashreplace")
