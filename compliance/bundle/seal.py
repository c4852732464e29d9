"""The seal at the end of a bundle's archive: a zstd skippable frame with the SHA-256 of all bytes
before it.

zstd's own checksum covers the content, not the compressed bytes: some bits of a frame can change
without affecting the content.
Unpacking tools ignore skippable frames. Source: RFC 8878, section 3.1.2.
"""

from typing import Final

DIGEST_SIZE: Final = 32
"""Size of a SHA-256 in bytes."""
HEAD: Final = b"\x50\x2a\x4d\x18" + DIGEST_SIZE.to_bytes(4, "little")
"""Magic number of a skippable frame, and the size of its content."""
SIZE: Final = len(HEAD) + DIGEST_SIZE
"""Size of the seal in bytes."""


def seal(digest: bytes) -> bytes:
    """Build the seal for a SHA-256 digest of 32 bytes."""
    return HEAD + digest
