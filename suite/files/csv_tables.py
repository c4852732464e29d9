"""CSV for programs and spreadsheets, whose texts are somebody else's."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from suite.files.untrusted_files import replace_unprintable

FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a spreadsheet takes for the beginning of a formula, also in the width of Chinese letters.
Source: owasp.org, CSV Injection.
"""
NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|-")
"""A number of a list; a dash is an unknown one."""
TEXT_MARK: Final = "'"
"""What a spreadsheet takes for the beginning of a text."""


def format_csv_table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Format rows as CSV: an unknown value is empty, numbers have all their digits, and no text is
    a formula or moves a terminal's cursor.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: encode_csv_cell(value) for name, value in row.items()})
    return text.getvalue()


def encode_csv_cell(value: object) -> object:
    """Return a number as it is, and a text that stays one."""
    if not isinstance(value, str):
        return value
    printable = replace_unprintable(value)
    if value.startswith(FORMULA_STARTS) and not is_number_list(value):
        return TEXT_MARK + printable
    return printable


def is_number_list(text: str) -> bool:
    """Return whether a text is numbers separated by spaces, some of them unknown."""
    return all(map(NUMBER.fullmatch, text.split(" ")))
