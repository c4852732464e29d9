"""Reference summaries of the user's articles, which may have several lines; imports no framework,
since the judge reads them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from suite.files.untrusted_files import UnreadableError, read_untrusted_file

SUMMARIES_FILE: Final = "summaries.json"
MAX_SUMMARIES_BYTES: Final = 64 << 20
"""Size limit; the 13,368 summaries of CNN/DailyMail have 4 MB."""


def write_summaries(folder: Path, summaries: Sequence[str]) -> None:
    """Write summaries in sample order."""
    (folder / SUMMARIES_FILE).write_text(json.dumps(summaries, ensure_ascii=False), "utf-8")


def read_summaries(folder: Path) -> list[str]:
    """Read summaries, by sample number; ValueError if there are none, or if they are malformed."""
    path = folder / SUMMARIES_FILE
    try:
        summaries = read_untrusted_file(
            path, msgspec.json.Decoder(list[str]).decode, MAX_SUMMARIES_BYTES
        )
    except UnreadableError as error:
        raise ValueError(f"{path}: no readable summaries ({error.reason})") from error
    if not summaries:
        raise ValueError(f"{path}: no summaries")
    return summaries
