"""Tables on a terminal."""

import os
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from suite.files.untrusted_files import replace_unprintable

ANSWER_COLOURS: Final = {"yes": "green", "no": "red"}
NON_TERMINAL_WIDTH: Final = 160
"""Width in columns of a table written to a file or a pipe."""


def apply_answer_colour(cell: str) -> str:
    """Colour yes and no."""
    answer = cell.strip()
    if answer not in ANSWER_COLOURS:
        return cell
    return cell.replace(answer, click.style(answer, fg=ANSWER_COLOURS[answer]))


class TextConsole(Console):
    """A console whose texts are somebody else's: they cannot move the cursor or give commands to
    the terminal.
    """

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a string to the text that is printed."""
        return super().render_str("\n".join(map(replace_unprintable, text.split("\n"))), **options)


def create_table_console() -> TextConsole:
    """Create a console as wide as the terminal; without one, as wide as a table needs."""
    console = TextConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        return TextConsole(width=NON_TERMINAL_WIDTH)
    return console


def print_table(table: Table) -> None:
    """Print a table as wide as the terminal; without one, as wide as its content needs."""
    create_table_console().print(table)
