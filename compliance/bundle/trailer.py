"""The trailer of a bundle's archive: the seal, then at most 16 frames of signatures and time
stamps, and nothing else.

Each is a zstd skippable frame (RFC 8878, section 3.1.2), which unpacking tools ignore. The seal
covers the bytes before it, so a signature does not change a bundle's identity.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Final

from compliance.bundle import seal
from suite.errors import JudgedError

MAX_TRAILER_FRAMES: Final = 16
"""Maximum number of signatures and time stamps of a bundle. Source: podium."""
MAX_FRAME_CONTENT_BYTES: Final = 64 << 10
"""Maximum size of each frame's content in bytes; a statement has about 5,000, an Ed25519 signature
300, a time stamp 1,600. Source: podium.
"""
SKIPPABLE_HEADER_BYTES: Final = 8
"""Bytes before a skippable frame's content: magic number and size. Source: RFC 8878, section
3.1.2.
"""
MAX_TRAILER_BYTES: Final = seal.SEAL_BYTES + MAX_TRAILER_FRAMES * (
    SKIPPABLE_HEADER_BYTES + MAX_FRAME_CONTENT_BYTES
)
"""Maximum number of bytes after an archive."""
MAX_ZSTD_HEADER_BYTES: Final = 18
"""Maximum size of a zstd frame header in bytes, including the magic number. Source: RFC 8878,
section 3.1.1.1.
"""
BLOCK_HEADER_BYTES, CHECKSUM_BYTES, RLE_BLOCK_TYPE = 3, 4, 1
"""Size in bytes of a block header and of the content checksum; the type of a block that repeats one
byte. Source: RFC 8878, section 3.1.1.2.
"""
HASHED_CHUNK_BYTES: Final = 1 << 20


class FrameKind(IntEnum):
    """Magic numbers of the frames after the seal, whose own is 0x184D2A50."""

    SIGNATURE = 0x184D2A51
    """A statement with its SSH signature."""
    TIME = 0x184D2A52
    """An RFC 3161 time stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailerFrame:
    """One signature or time stamp."""

    kind: FrameKind
    content: bytes

    def encode_frame(self) -> bytes:
        """Encode the frame as it appears in the bundle."""
        return (
            int(self.kind).to_bytes(4, "little")
            + len(self.content).to_bytes(4, "little")
            + self.content
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleTrailer:
    """The trailer found after an archive of `sealed` bytes."""

    sealed: int
    digest: bytes
    """The SHA-256 in the seal, 32 bytes."""
    frames: tuple[TrailerFrame, ...]


def find_trailer_problem(rest: bytes) -> str | None:
    """Describe invalid bytes after an archive; None if nothing follows it, or only a seal and
    frames.
    """
    try:
        if rest:
            parse_trailer(rest)
    except JudgedError as error:
        return str(error)
    return None


def parse_trailer(rest: bytes) -> tuple[bytes, tuple[TrailerFrame, ...]]:
    """Return the seal's digest and the frames after it; JudgedError if anything else is there."""
    if not rest:
        raise JudgedError("no seal at its end")
    if not rest.startswith(seal.SEAL_FRAME_HEADER) or len(rest) < seal.SEAL_BYTES:
        raise JudgedError("bytes after the end of the archive that are not a complete seal")
    frames, offset = [], seal.SEAL_BYTES
    while offset < len(rest):
        frames.append(parse_trailer_frame(rest, offset))
        offset += SKIPPABLE_HEADER_BYTES + len(frames[-1].content)
        if len(frames) > MAX_TRAILER_FRAMES:
            raise JudgedError(
                f"more than {MAX_TRAILER_FRAMES} signatures and time stamps follow the seal"
            )
    return rest[len(seal.SEAL_FRAME_HEADER) : seal.SEAL_BYTES], tuple(frames)


def parse_trailer_frame(rest: bytes, offset: int) -> TrailerFrame:
    """Parse one frame; JudgedError if there is none."""
    head = rest[offset : offset + SKIPPABLE_HEADER_BYTES]
    magic, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
    content = rest[offset + SKIPPABLE_HEADER_BYTES : offset + SKIPPABLE_HEADER_BYTES + size]
    if (
        len(head) < SKIPPABLE_HEADER_BYTES
        or magic not in list(FrameKind)
        or size > MAX_FRAME_CONTENT_BYTES
        or len(content) < size
    ):
        raise JudgedError("bytes after the seal that are neither a signature nor a time stamp")
    return TrailerFrame(kind=FrameKind(magic), content=content)


def read_bundle_trailer(bundle: Path) -> BundleTrailer:
    """Read the trailer of a bundle's archive; JudgedError if it is invalid or there is no archive.
    OSError is not caught.
    """
    import zstandard

    with bundle.open("rb") as stream:
        try:
            size = compute_archive_bytes(stream)
        except zstandard.ZstdError as error:
            raise JudgedError(f"cannot be unpacked: {error}") from error
        stream.seek(size)
        digest, frames = parse_trailer(stream.read(MAX_TRAILER_BYTES + 1))
    return BundleTrailer(sealed=size, digest=digest, frames=frames)


def compute_archive_bytes(stream: BinaryIO) -> int:
    """Return the size in bytes of a file's first zstd frame, from the sizes of its blocks, without
    unpacking.
    """
    import zstandard

    head = stream.read(MAX_ZSTD_HEADER_BYTES)
    offset, checksum_size = (
        zstandard.frame_header_size(head),
        CHECKSUM_BYTES * zstandard.get_frame_parameters(head).has_checksum,
    )
    last = 0
    while not last:
        stream.seek(offset)
        block = stream.read(BLOCK_HEADER_BYTES)
        if len(block) < BLOCK_HEADER_BYTES:
            raise JudgedError("truncated")
        last, kind = block[0] & 1, block[0] >> 1 & 3
        offset += BLOCK_HEADER_BYTES + (
            1 if kind == RLE_BLOCK_TYPE else int.from_bytes(block, "little") >> 3
        )
    return offset + checksum_size


def find_seal_problem(bundle: Path) -> str | None:
    """Describe the problem with a bundle's seal: it is missing, or the bytes before it have
    changed; None if it is valid.
    """
    try:
        found = read_bundle_trailer(bundle)
    except JudgedError as error:
        return str(error)
    if hash_leading_bytes(bundle, found.sealed) == found.digest:
        return None
    return "changed after it was sealed"


def hash_leading_bytes(path: Path, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(min(size, HASHED_CHUNK_BYTES)):
            digest.update(piece)
            size -= len(piece)
    return digest.digest()
