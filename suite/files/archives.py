"""Recognise archives and compressed files by their first bytes."""

import stat
from pathlib import Path
from typing import Final

from suite.errors import RequestError

ARCHIVE_MAGICS: Final = (
    (0, b"PK\x03\x04", "zip"),
    (0, b"PK\x05\x06", "zip"),
    (0, b"\x1f\x8b\x08", "gzip"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"BZh", "bzip2"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (257, b"ustar", "tar"),
)
"""Offset, magic number and name of each format. Sources: APPNOTE.TXT 6.3.10, RFC 1952, the .xz file
format 1.2.1, bzip2's and 7-Zip's own documentation, POSIX.1-2017 (pax).
"""
BZIP2_BLOCK_MAGICS: Final = (b"1AY&SY", b"\x17rE8P\x90")
"""What follows the header of a bzip2 file, which alone could begin a text."""
HEAD_BYTES: Final = 512


def find_archive_format(path: Path) -> str | None:
    """Return the name of a file's archive format; None for any other file, for a folder and for
    what cannot be read. podium's own bundles (zstd) are none of these.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait
            return None
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
    except (OSError, ValueError):
        return None
    return find_magic_format(head)


def find_magic_format(head: bytes) -> str | None:
    """Return the name of the archive format that a file's first bytes show; None if they show
    none.
    """
    for offset, magic, name in ARCHIVE_MAGICS:
        if head.startswith(magic, offset):
            if name != "bzip2" or head.startswith(BZIP2_BLOCK_MAGICS, 4):
                return name
            return None
    return None


def refuse_archive(path: Path) -> None:
    """Raise RequestError for an archive, whose content no command reads."""
    name = find_archive_format(path)
    if name is not None:
        raise RequestError(f"{path} is an archive ({name}): unpack it first")
