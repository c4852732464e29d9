"""`podium report`: reads, builds the document, writes it in the requested form."""

import json
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import click

from submissions.output_file import refuse_target
from submissions.report import build, exports
from submissions.report.document import Document, plain, read
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import FULL, written

BUNDLE: Final = ".tar.zst"
HTML: Final = "html"


def report(
    paths: Sequence[Path], *, output: Path | None, against: Sequence[Path], form: str, show: bool
) -> None:
    """Write the report of some paths; JudgedError at the end if one does not count, which the page
    states too.
    """
    target = output or (default(paths) if form == HTML else None)
    if target is not None:
        refuse_target("-o", target, [*paths, *against])
    document, problems = build.document(paths, against)
    text = FORMS[form](read(plain(document)))
    if target is None:
        click.echo(text, nl=False)
    else:
        save(target, text)
        click.echo(f"report: {target}")
        if show:
            webbrowser.open(target.absolute().as_uri())
    if problems:
        raise JudgedError("\n  ".join(["not everything counts:", *problems]))


def beside(bundle: Path) -> Path:
    """Write the report of a bundle next to it; return its path."""
    target = bundle.with_name(bundle.name.removesuffix(BUNDLE) + ".html")
    document, _ = build.document([bundle])
    save(target, html(read(plain(document))))
    return target


def default(paths: Sequence[Path]) -> Path:
    """Name the page after a single bundle, in the current folder."""
    single = paths[0].name if len(paths) == 1 else ""
    return Path(f"{single.removesuffix(BUNDLE)}.html" if single.endswith(BUNDLE) else "report.html")


def save(target: Path, text: str) -> None:
    """Write a file atomically; MissingError if the disk is full, RequestError if writing is not
    permitted.
    """
    try:
        with written(target) as partial:
            partial.write_text(text, "utf-8")
    except OSError as error:
        kind = MissingError if error.errno in FULL else RequestError
        raise kind(f"{target}: not written: {error.strerror or error}") from error


def html(document: Document) -> str:
    """Render the page."""
    from submissions.report.page import render

    return render(document)


def as_json(document: Document) -> str:
    """Format the document as JSON."""
    return json.dumps(plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


FORMS: Final[dict[str, Callable[[Document], str]]] = {
    HTML: html,
    "json": as_json,
    "markdown": exports.markdown,
    "trace": exports.trace,
}
"""Values of `--format`."""
