"""JSON documents as files, and as text to read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from suite.files.layout import replace_atomically


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a JSON document atomically: sorted keys, synced, renamed."""
    with replace_atomically(path) as partial:
        partial.write_text(
            json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n", "utf-8"
        )


def format_json(document: Any) -> str:
    """Format a document with its keys in their order, and file names in another encoding as Python
    holds them.

    `json.dumps` with an indent is written in Python, and takes three times as long.
    """
    text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return msgspec.json.format(text, indent=2).decode("utf-8", "surrogatepass") + "\n"
