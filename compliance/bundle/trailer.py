"""The trailer of a bundle's archive: the seal, then at most 16 frames of signatures and time
stamps, and nothing else.

Each is a zstd skippable frame (RFC 8878, section 3.1.2), which unpacking tools ignore. The seal
covers the bytes before it, so a
signature does not change a bundle's identity.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Final

from compliance.bundle import seal
from suite.errors import JudgedError

FRAMES: Final = 16
"""Maximum number of signatures and time stamps of a bundle. Source: podium."""
FRAME_LIMIT: Final = 64 << 10
"""Maximum size of each frame's content in bytes; a statement has about 5,000, an Ed25519 signature
300, a time stamp 1,600. Source: podium.
"""
HEAD_SIZE: Final = 8
"""Bytes before a skippable frame's content: magic number and size. Source: RFC 8878, section
3.1.2.
"""
LIMIT: Final = seal.SIZE + FRAMES * (HEAD_SIZE + FRAME_LIMIT)
"""Maximum number of bytes after an archive."""
FRAME_HEADER: Final = 18
"""Maximum size of a zstd frame header in bytes, including the magic number. Source: RFC 8878,
section 3.1.1.1.
"""
BLOCK_HEADER, CHECKSUM_SIZE, RLE = 3, 4, 1
"""Size in bytes of a block header and of the content checksum; the type of a block that repeats one
byte. Source: RFC 8878, section 3.1.1.2.
"""
CHUNK: Final = 1 << 20


class Kind(IntEnum):
    """Magic numbers of the frames after the seal, whose own is 0x184D2A50."""

    SIGNATURE = 0x184D2A51
    """A statement with its SSH signature."""
    TIME = 0x184D2A52
    """An RFC 3161 time stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One signature or time stamp."""

    kind: Kind
    content: bytes

    def encode(self) -> bytes:
        """Encode the frame as it appears in the bundle."""
        return (
            int(self.kind).to_bytes(4, "little")
            + len(self.content).to_bytes(4, "little")
            + self.content
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """The trailer found after an archive of `sealed` bytes."""

    sealed: int
    digest: bytes
    """The SHA-256 in the seal, 32 bytes."""
    frames: tuple[Frame, ...]


def problem_of(rest: bytes) -> str | None:
    """Describe invalid bytes after an archive; None if nothing follows it, or only a seal and
    frames.
    """
    try:
        if rest:
            parse(rest)
    except JudgedError as error:
        return str(error)
    return None


def parse(rest: bytes) -> tuple[bytes, tuple[Frame, ...]]:
    """Return the seal's digest and the frames after it; JudgedError if anything else is there."""
    if not rest:
        raise JudgedError("no seal at its end")
    if not rest.startswith(seal.HEAD) or len(rest) < seal.SIZE:
        raise JudgedError("bytes follow the end of the archive, and they are no whole seal")
    found, place = [], seal.SIZE
    while place < len(rest):
        found.append(frame_at(rest, place))
        place += HEAD_SIZE + len(found[-1].content)
        if len(found) > FRAMES:
            raise JudgedError(f"more than {FRAMES} signatures and time stamps follow the seal")
    return rest[len(seal.HEAD) : seal.SIZE], tuple(found)


def frame_at(rest: bytes, place: int) -> Frame:
    """Parse one frame; JudgedError if there is none."""
    head = rest[place : place + HEAD_SIZE]
    magic, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
    content = rest[place + HEAD_SIZE : place + HEAD_SIZE + size]
    if (
        len(head) < HEAD_SIZE
        or magic not in list(Kind)
        or size > FRAME_LIMIT
        or len(content) < size
    ):
        raise JudgedError("bytes follow the seal that are no signature and no time stamp")
    return Frame(kind=Kind(magic), content=content)


def read(bundle: Path) -> Trailer:
    """Read the trailer of a bundle's archive; JudgedError if it is invalid or there is no archive.
    OSError is not caught.
    """
    import zstandard

    with bundle.open("rb") as stream:
        try:
            size = archive_size(stream)
        except zstandard.ZstdError as error:
            raise JudgedError(f"cannot be unpacked: {error}") from error
        stream.seek(size)
        digest, frames = parse(stream.read(LIMIT + 1))
    return Trailer(sealed=size, digest=digest, frames=frames)


def archive_size(stream: BinaryIO) -> int:
    """Return the size in bytes of a file's first zstd frame, from the sizes of its blocks, without
    unpacking.
    """
    import zstandard

    head = stream.read(FRAME_HEADER)
    place, closing = (
        zstandard.frame_header_size(head),
        CHECKSUM_SIZE * zstandard.get_frame_parameters(head).has_checksum,
    )
    last = 0
    while not last:
        stream.seek(place)
        block = stream.read(BLOCK_HEADER)
        if len(block) < BLOCK_HEADER:
            raise JudgedError("cut short")
        last, kind = block[0] & 1, block[0] >> 1 & 3
        place += BLOCK_HEADER + (1 if kind == RLE else int.from_bytes(block, "little") >> 3)
    return place + closing


def problem(bundle: Path) -> str | None:
    """Describe the problem with a bundle's seal: it is missing, or the bytes before it have
    changed; None if it is valid.
    """
    try:
        found = read(bundle)
    except JudgedError as error:
        return str(error)
    return (
        None
        if digest_of(bundle, found.sealed) == found.digest
        else "some byte was changed after it was sealed"
    )


def digest_of(path: Path, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(min(size, CHUNK)):
            digest.update(piece)
            size -= len(piece)
    return digest.digest()
