"""The seal at the end of a bundle's archive: a zstd skippable frame with the SHA-256 of all bytes
before it.

zstd's own checksum covers the content, not the compressed bytes: some bits of a frame can change
without affecting the content. Unpacking tools ignore skippable frames. Source: RFC 8878, section
3.1.2.
"""

from typing import Final

SEAL_DIGEST_BYTES: Final = 32
"""Size of a SHA-256 in bytes."""
SEAL_FRAME_HEADER: Final = b"\x50\x2a\x4d\x18" + SEAL_DIGEST_BYTES.to_bytes(4, "little")
"""Magic number of a skippable frame, and the size of its content."""
SEAL_BYTES: Final = len(SEAL_FRAME_HEADER) + SEAL_DIGEST_BYTES
"""Size of the seal in bytes."""


def build_bundle_seal(digest: bytes) -> bytes:
    """Build the seal for a SHA-256 digest of 32 bytes."""
    return SEAL_FRAME_HEADER + digest
