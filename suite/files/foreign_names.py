"""Names that operating systems and programs put into folders of data without being asked."""

from collections.abc import Iterable
from typing import Final

FOREIGN_PREFIXES: Final = (".", "@")
"""Hidden files, macOS's `._x.JPEG`, `.ipynb_checkpoints`; `@eaDir` and its like of a NAS."""
FOREIGN_NAMES: Final = frozenset(
    {"lost+found", "thumbs.db", "desktop.ini", "$recycle.bin", "system volume information"}
)
"""In small letters: ext4's folder of recovered files, and what Windows writes."""
MAX_NAMED_FOREIGN_NAMES: Final = 5
"""Names listed in a message; the rest are counted."""


def is_foreign_name(name: str) -> bool:
    """Return whether a file or folder of this name is no part of anybody's data set."""
    return name.startswith(FOREIGN_PREFIXES) or name.lower() in FOREIGN_NAMES


def format_left_out_names(names: Iterable[str]) -> str:
    """Name what a survey left out, each name once; "" if it left out nothing."""
    distinct_names = sorted(set(names))
    if not distinct_names:
        return ""
    more = len(distinct_names) - MAX_NAMED_FOREIGN_NAMES
    return f"left out: {', '.join(distinct_names[:MAX_NAMED_FOREIGN_NAMES])}" + (
        f" and {more} more" if more > 0 else ""
    )
