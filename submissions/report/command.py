"""`podium report`: builds the document and writes it in the requested format."""

import json
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from submissions.output_file import check_output_target
from submissions.pack.bundle import BUNDLE_SUFFIX
from submissions.report import build, exports
from submissions.report.document import Document, convert_document_to_data, parse_document_data
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import DISK_FULL_ERRORS, replace_atomically

HTML_FORM: Final = "html"


def write_results_report(
    paths: Sequence[Path],
    *,
    output: Path | None,
    against: Sequence[Path],
    output_format: str,
    show: bool,
) -> None:
    """Write the report on some paths, then raise JudgedError if one is not valid; the page states
    that too.
    """
    target = output or (choose_report_path(paths) if output_format == HTML_FORM else None)
    if target is not None:
        check_output_target("-o", target, [*paths, *against])
    document, problems = build.judge_and_build_report(paths, against)
    text = DOCUMENT_FORMATTERS[output_format](
        parse_document_data(convert_document_to_data(document))
    )
    if target is None:
        click.echo(text, nl=False)
    else:
        write_report_file(target, text)
        click.echo(f"report: {target}")
        if show:
            webbrowser.open(target.absolute().as_uri())
    if problems:
        raise JudgedError("\n  ".join(["some results are not valid:", *problems]))


def write_bundle_report(bundle: Path) -> Path:
    """Write a bundle's report next to it; return the report's path."""
    target = bundle.with_name(bundle.name.removesuffix(BUNDLE_SUFFIX) + ".html")
    document, _ = build.judge_and_build_report([bundle])
    write_report_file(
        target, render_document_html(parse_document_data(convert_document_to_data(document)))
    )
    return target


def choose_report_path(paths: Sequence[Path]) -> Path:
    """Return the page's path in the current folder: named after the bundle if there is only one."""
    single = paths[0].name if len(paths) == 1 else ""
    return Path(
        f"{single.removesuffix(BUNDLE_SUFFIX)}.html"
        if single.endswith(BUNDLE_SUFFIX)
        else "report.html"
    )


def write_report_file(target: Path, text: str) -> None:
    """Write a file atomically; MissingError if the disk is full, RequestError if writing is not
    permitted.
    """
    try:
        with replace_atomically(target) as partial:
            partial.write_text(text, "utf-8")
    except OSError as error:
        kind = MissingError if error.errno in DISK_FULL_ERRORS else RequestError
        raise kind(f"{target}: not written: {error.strerror or error}") from error


def render_document_html(document: Document) -> str:
    """Render the page."""
    from submissions.report.page import render_report_page

    return render_report_page(document)


def format_document_json(document: Document) -> str:
    """Format the document as JSON."""
    return (
        json.dumps(
            convert_document_to_data(document), indent=1, ensure_ascii=False, allow_nan=False
        )
        + "\n"
    )


DOCUMENT_FORMATTERS: Final[dict[str, Callable[[Document], str]]] = {
    HTML_FORM: render_document_html,
    "json": format_document_json,
    "markdown": exports.render_document_markdown,
    "trace": exports.format_trace_events,
}
"""Values of `--format`."""
