"""JSON documents as files."""

import json
from collections.abc import Mapping
from pathlib import Path

from suite.files.layout import written


def write_json(path: Path, document: Mapping[str, object]) -> None:
    """Write a JSON document atomically: sorted keys, synced, renamed."""
    with written(path) as partial:
        partial.write_text(json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n", "utf-8")
