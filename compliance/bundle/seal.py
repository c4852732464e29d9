"""The seal at the end of a bundle: a zstd skippable frame with the SHA-256 of every byte before it.

zstd's own checksum holds the content, not the compressed bytes: some bits of a frame may change and it unpacks all the same.
Unpacking tools pass over a skippable frame. Source: RFC 8878, section 3.1.2.
"""

import hashlib
from pathlib import Path
from typing import Final

DIGEST_SIZE: Final = 32
"""Bytes of a SHA-256."""
HEAD: Final = b"\x50\x2a\x4d\x18" + DIGEST_SIZE.to_bytes(4, "little")
"""Magic number of a skippable frame, and the size of what it holds."""
SIZE: Final = len(HEAD) + DIGEST_SIZE
"""Bytes of the seal."""
CHUNK: Final = 1 << 20


def seal(digest: bytes) -> bytes:
    """Make the seal of a SHA-256 digest, 32 bytes."""
    return HEAD + digest


def is_seal_or_nothing(rest: bytes) -> bool:
    """Tell whether what follows a bundle's zstd frame may stand there."""
    return not rest or (len(rest) == SIZE and rest.startswith(HEAD))


def problem(bundle: Path) -> str | None:
    """Say what is wrong with a bundle's seal: it is missing, or the bytes before it are not those that were sealed; None where it holds."""
    size, digest = bundle.stat().st_size - SIZE, hashlib.sha256()
    with bundle.open("rb") as stream:
        left = max(size, 0)
        while piece := stream.read(min(left, CHUNK)):
            digest.update(piece)
            left -= len(piece)
        tail = stream.read()
    if not tail.startswith(HEAD) or len(tail) != SIZE:
        return "no seal at its end"
    return None if tail == seal(digest.digest()) else "its bytes are not those that were sealed"
