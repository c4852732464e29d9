"""`podium report`: builds the document and writes it in the requested format."""

import json
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from submissions.compare.per_unit import FigureRequest, parse_figure_request
from submissions.output_file import check_output_target, write_report_file
from submissions.pack.bundle import BUNDLE_SUFFIX
from submissions.report import build, exports
from submissions.report.document import Document, convert_document_to_data, parse_document_data
from submissions.report.pictures import PictureRequest
from submissions.report.sections.beside import build_beside_sections
from submissions.tradeoff.exports import format_tradeoff_csv
from submissions.tradeoff.figures import explain_missing_points
from suite.errors import JudgedError, RequestError

HTML_FORM: Final = "html"
CSV_FORM: Final = "csv"


def write_results_report(
    paths: Sequence[Path],
    *,
    output: Path | None,
    against: Sequence[Path],
    beside: Sequence[Path],
    output_format: str,
    show: bool,
    pictures: PictureRequest,
    per: str | None,
    prices: Path | None,
) -> None:
    """Write the report on some paths, and the pictures asked for, then raise JudgedError if one is
    not valid; page and pictures state that too. With pictures alone there is no page.
    """
    page_wanted = output is not None or output_format != HTML_FORM or show or not pictures
    target = output or (
        choose_report_path(paths) if output_format == HTML_FORM and page_wanted else None
    )
    if target is not None:
        check_output_target("-o", target, [*paths, *against, *beside])
    pictures.check_targets(paths, [*paths, *against, *beside, *filter(None, [target])])
    request = parse_figure_request(per, prices)
    sections = tuple(build_beside_sections(paths, beside))
    document, problems, _ = build.judge_and_build_report(paths, against, per=request)
    document = replace(document, sections=(*document.sections, *sections))
    check_tradeoff_points(document, request, output_format)
    safe_document = parse_document_data(convert_document_to_data(document))
    pictures.write_files(safe_document, told_on_stderr=page_wanted and target is None)
    text = ""
    if page_wanted:
        text = DOCUMENT_FORMATTERS[output_format](safe_document)
    if target is None:
        click.echo(text, nl=False)
    else:
        write_report_file(target, text.encode())
        click.echo(f"report: {target}")
        if show:
            webbrowser.open(target.absolute().as_uri())
    if problems:
        raise JudgedError("\n  ".join(["some results are not valid:", *problems]))


def check_tradeoff_points(
    document: Document, request: FigureRequest | None, output_format: str
) -> None:
    """Raise RequestError if throughput against latency is asked for and there is none."""
    reason = explain_missing_points(document.tradeoffs)
    if reason and request is not None:
        raise RequestError(f"--per {request.basis}: nothing to derive; {reason}")
    if reason and output_format == CSV_FORM:
        raise RequestError(f"--format csv: {reason}")


def write_bundle_report(bundle: Path) -> Path:
    """Write a bundle's report next to it; return the report's path."""
    target = bundle.with_name(bundle.name.removesuffix(BUNDLE_SUFFIX) + ".html")
    document, *_ = build.judge_and_build_report([bundle])
    html = render_document_html(parse_document_data(convert_document_to_data(document)))
    write_report_file(target, html.encode())
    return target


def choose_report_path(paths: Sequence[Path]) -> Path:
    """Return the page's path in the current folder: named after the bundle if there is only one."""
    if len(paths) == 1 and paths[0].name.endswith(BUNDLE_SUFFIX):
        return Path(f"{paths[0].name.removesuffix(BUNDLE_SUFFIX)}.html")
    return Path("report.html")


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
    CSV_FORM: lambda document: format_tradeoff_csv(document.tradeoffs),
    "markdown": exports.render_document_markdown,
    "trace": exports.format_trace_events,
}
"""Values of `--format`."""
