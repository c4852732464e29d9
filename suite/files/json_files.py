"""JSON documents as files, and as text to read."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.files.layout import replace_atomically

UNUSUAL_LETTERS: Final = re.compile(r"[^ -~\n]")
"""Letters that are not in ASCII, or control characters."""


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a JSON document atomically: sorted keys, synced, renamed."""
    with replace_atomically(path) as partial:
        partial.write_text(format_json_document(document), "utf-8")


def format_json_document(document: Mapping[str, object]) -> str:
    """Format a document as podium's own files have it: sorted keys, indented."""
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def format_json(document: Any) -> str:
    """Format a document with its keys in their order, and file names in another encoding as Python
    holds them. What a terminal would obey or a reader would not see is escaped.

    `json.dumps` with an indent is written in Python, and takes three times as long.
    """
    text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    formatted = msgspec.json.format(text, indent=2).decode("utf-8", "surrogatepass") + "\n"
    return UNUSUAL_LETTERS.sub(lambda letter: encode_unseen_letter(letter[0]), formatted)


def encode_unseen_letter(letter: str) -> str:
    """Return a letter as it is, or as its escape sequence if nobody would see it."""
    if letter.isprintable() or 0xD800 <= ord(letter) < 0xE000:
        return letter
    return json.dumps(letter)[1:-1]
