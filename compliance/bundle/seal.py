"""The seal at the end of a bundle's archive: a zstd skippable frame with the SHA-256 of every byte before it.

zstd's own checksum holds the content, not the compressed bytes: some bits of a frame may change and it unpacks all the same.
Unpacking tools pass over a skippable frame. Source: RFC 8878, section 3.1.2.
"""

from typing import Final

DIGEST_SIZE: Final = 32
"""Bytes of a SHA-256."""
HEAD: Final = b"\x50\x2a\x4d\x18" + DIGEST_SIZE.to_bytes(4, "little")
"""Magic number of a skippable frame, and the size of what it holds."""
SIZE: Final = len(HEAD) + DIGEST_SIZE
"""Bytes of the seal."""


def seal(digest: bytes) -> bytes:
    """Make the seal of a SHA-256 digest, 32 bytes."""
    return HEAD + digest
