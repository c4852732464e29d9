"""Names that operating systems and programs put into folders of data without being asked."""

from typing import Final

FOREIGN_PREFIXES: Final = (".", "@")
"""Hidden files, macOS's `._x.JPEG`, `.ipynb_checkpoints`; `@eaDir` and its like of a NAS."""
FOREIGN_NAMES: Final = frozenset(
    {
        "lost+found",
        "thumbs.db",
        "ehthumbs.db",
        "desktop.ini",
        "$recycle.bin",
        "recycler",
        "system volume information",
        "__macosx",
        "network trash folder",
        "temporary items",
        "#recycle",
        "#snapshot",
        "~snapshot",
    }
)
"""In small letters: ext4's folder of recovered files, what Windows writes, what macOS puts into zip
files and onto shared disks, and the recycle bins and snapshots of a NAS.
"""


def is_foreign_name(name: str) -> bool:
    """Return whether a file or folder of this name is no part of anybody's data set."""
    return name.startswith(FOREIGN_PREFIXES) or name.lower() in FOREIGN_NAMES
