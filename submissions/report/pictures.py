"""Pictures of a report: the card to share, and each figure as a file of its own."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from typing import Final

import click
from markupsafe import Markup

from submissions.output_file import check_output_target, write_report_file
from submissions.report.document import Document, Section
from submissions.report.drawing.bars import draw_bar_chart
from submissions.report.drawing.card import CARD_WIDTH, draw_result_card
from submissions.report.drawing.raster import (
    TEXT_FONTS,
    load_svg_renderer,
    render_svg_as_png,
)
from submissions.report.drawing.svg import WIDTH, draw_chart
from suite.errors import RequestError
from suite.files.layout import convert_to_slug

FIGURE_PIXELS: Final = 2 * WIDTH
"""Width of a figure's PNG: twice that of the SVG, for screens of double density."""
MAX_FIGURE_NAME_LETTERS: Final = 200
"""File systems allow 255 bytes, endings included; a system's name may take as many."""
FIGURE_STYLE: Final = (
    "svg{background:#fff;color:#1b2430}.ink,.grid,.axis{color:#566274}.mark{color:#1b2430}"
    ".s0{color:#1d5fb8}.s1{color:#b0480c}.s2{color:#12734a}.s3{color:#7a3aa8}.s4{color:#a8245c}"
    ".s5{color:#5d5a12}.bad{color:#a1221b}"
)
"""The page's colours in its light theme."""


class PictureFormat(StrEnum):
    """How a picture is written."""

    SVG = "svg"
    PNG = "png"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRequest:
    """Pictures that were asked for beside the page, or instead of it."""

    card: Path | None = None
    figures: Path | None = None
    """Folder of the figures."""
    figure_format: PictureFormat = PictureFormat.SVG

    def __bool__(self) -> bool:
        return self.card is not None or self.figures is not None

    def check_targets(self, paths: Sequence[Path], inputs: Sequence[Path]) -> None:
        """Raise RequestError for a target that cannot be written, and MissingError for PNG without
        its library, before anything is read.
        """
        if self.card is not None:
            if len(paths) > 1:
                raise RequestError(f"--card: shows one path, and {len(paths)} were given")
            check_output_target("--card", self.card, inputs)
            if choose_picture_format(self.card) is PictureFormat.PNG:
                load_svg_renderer()
        if self.figures is not None:
            if self.figures.exists() and not self.figures.is_dir():
                raise RequestError(f"--figures {self.figures}: is a file; specify a folder")
            if not self.figures.absolute().parent.is_dir():
                raise RequestError(
                    f"--figures {self.figures}: folder {self.figures.parent} does not exist"
                )
            if self.figure_format is PictureFormat.PNG:
                load_svg_renderer()

    def write_files(self, document: Document, *, told_on_stderr: bool = False) -> None:
        """Write the pictures and print their paths, on stderr where stdout has the report."""
        if self.card is not None:
            svg = draw_result_card(document.parts[0])
            write_picture(self.card, svg, CARD_WIDTH)
            click.echo(f"card: {self.card}", err=told_on_stderr)
        if self.figures is not None:
            drawn: dict[str, str] = {}
            for name, svg in iterate_document_figures(document):
                drawn[make_figure_name_unique(name, drawn)] = svg
            for name, svg in drawn.items():
                write_picture(self.figures / f"{name}.{self.figure_format}", svg, FIGURE_PIXELS)
            click.echo(f"figures: {len(drawn)} in {self.figures}", err=told_on_stderr)


def choose_picture_format(target: Path) -> PictureFormat:
    """Return the format that a file's name asks for; RequestError if it is neither."""
    try:
        return PictureFormat(target.suffix.casefold().removeprefix("."))
    except ValueError:
        raise RequestError(f"{target}: a picture is .svg or .png, by the end of its name") from None


def write_picture(target: Path, svg: str, pixels: int) -> None:
    """Write a picture as its name asks for; `pixels` is the width of a PNG."""
    if choose_picture_format(target) is PictureFormat.PNG:
        write_report_file(target, render_svg_as_png(svg, pixels))
    else:
        write_report_file(target, svg.encode())


def iterate_document_figures(document: Document) -> Iterator[tuple[str, str]]:
    """Yield name and SVG of each figure, in the order of the page."""
    several = len(document.parts) > 1
    for number, part in enumerate(document.parts, 1):
        prefix = f"p{number}-" if several else ""
        for section in part.sections:
            yield from iterate_section_figures(section, prefix)
    for section in document.sections:
        yield from iterate_section_figures(section, "")


def make_figure_name_unique(name: str, taken: Container[str]) -> str:
    """Return a figure's name as a file may have it, with a number behind it if another figure has
    it: a slug keeps no letter of most scripts, so that names of systems may become equal.
    """
    short = name[:MAX_FIGURE_NAME_LETTERS]
    numbered = (f"{short}-{number}" for number in count(2))
    return next(each for each in chain([short], numbered) if each not in taken)


def iterate_section_figures(section: Section, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield name and SVG of each figure of a section and of its parts."""
    for chart in section.charts:
        name = prefix + chart.id
        yield convert_to_slug(name), make_svg_standalone(draw_chart(chart, prefix))
    for bars in section.bar_charts:
        name = prefix + bars.id
        yield convert_to_slug(name), make_svg_standalone(draw_bar_chart(bars, prefix))
    for part in section.parts:
        yield from iterate_section_figures(part, prefix)


def make_svg_standalone(drawing: Markup) -> str:
    """Give a page's drawing the namespace, the colours and the fonts that it has there."""
    head, _, body = str(drawing).partition(">")
    head = head.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        'font-family="system-ui, sans-serif"', f'font-family="{TEXT_FONTS}"'
    )
    area = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f"{head}><style>{FIGURE_STYLE}</style>{area}{body}\n"
