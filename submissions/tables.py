"""Lines and cells on a terminal."""

import shutil
import sys
import textwrap
from typing import Final

import click

from suite.files.untrusted_files import replace_unprintable

ANSWER_COLOURS: Final = {"yes": "green", "no": "red"}
WRAPPED_INDENT: Final = "    "


def apply_answer_colour(cell: str) -> str:
    """Colour yes and no."""
    answer = cell.strip()
    if answer not in ANSWER_COLOURS:
        return cell
    return cell.replace(answer, click.style(answer, fg=ANSWER_COLOURS[answer]))


def find_terminal_width() -> int | None:
    """Return the columns of the terminal; None in a file or a pipe, where lines are as long as
    their content.
    """
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def print_wrapped_line(text: str) -> None:
    """Print a line of somebody else's text, in several lines on a terminal that is narrower."""
    line, width = replace_unprintable(text), find_terminal_width()
    if width is None:
        click.echo(line)
        return
    indent = WRAPPED_INDENT + " " * (len(line) - len(line.lstrip()))
    click.echo("\n".join(textwrap.wrap(line, width, subsequent_indent=indent)))
