"""What stands behind a bundle's archive: the seal, then at most 16 frames of signatures and time stamps, and nothing else.

Each is a zstd skippable frame (RFC 8878, section 3.1.2): unpacking tools pass over it. The seal holds for the bytes before it, so
that a signature changes no bundle's identity.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO, Final

from compliance.bundle import seal
from suite.errors import JudgedError

FRAMES: Final = 16
"""Signatures and time stamps that a bundle may carry. Source: podium."""
FRAME_LIMIT: Final = 64 << 10
"""Bytes that one of them may hold; a statement has about 5,000, an Ed25519 signature 300, a time stamp 1,600. Source: podium."""
HEAD_SIZE: Final = 8
"""Bytes before what a skippable frame holds: magic number and size. Source: RFC 8878, section 3.1.2."""
LIMIT: Final = seal.SIZE + FRAMES * (HEAD_SIZE + FRAME_LIMIT)
"""Bytes that may follow an archive at most."""
FRAME_HEADER: Final = 18
"""Bytes of a zstd frame's header at most, the magic number included. Source: RFC 8878, section 3.1.1.1."""
BLOCK_HEADER, CHECKSUM_SIZE, RLE = 3, 4, 1
"""Bytes of a block's header and of the content's checksum; the type of a block that repeats one byte. Source: RFC 8878, section 3.1.1.2."""
CHUNK: Final = 1 << 20


class Kind(IntEnum):
    """Magic numbers of what may stand behind the seal, which has 0x184D2A50 itself."""

    SIGNATURE = 0x184D2A51
    """A statement and its SSH signature."""
    TIME = 0x184D2A52
    """A time stamp of RFC 3161."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One signature or time stamp."""

    kind: Kind
    content: bytes

    def encode(self) -> bytes:
        """Return its bytes in the bundle."""
        return int(self.kind).to_bytes(4, "little") + len(self.content).to_bytes(4, "little") + self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """What was found behind an archive of `sealed` bytes."""

    sealed: int
    digest: bytes
    """The SHA-256 that the seal names, 32 bytes."""
    frames: tuple[Frame, ...]


def problem_of(rest: bytes) -> str | None:
    """Say what stands where nothing may behind an archive; None for nothing at all, or a seal and frames."""
    try:
        if rest:
            parse(rest)
    except JudgedError as error:
        return str(error)
    return None


def parse(rest: bytes) -> tuple[bytes, tuple[Frame, ...]]:
    """Return the seal's digest and the frames behind it; JudgedError where anything else stands there."""
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
    """Read one frame; JudgedError if none stands there."""
    head = rest[place : place + HEAD_SIZE]
    magic, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
    content = rest[place + HEAD_SIZE : place + HEAD_SIZE + size]
    if len(head) < HEAD_SIZE or magic not in list(Kind) or size > FRAME_LIMIT or len(content) < size:
        raise JudgedError("bytes follow the seal that are no signature and no time stamp")
    return Frame(kind=Kind(magic), content=content)


def read(bundle: Path) -> Trailer:
    """Read what stands behind a bundle's archive; JudgedError if it may not, or there is no archive. OSError goes through."""
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
    """Return the size in bytes of the zstd frame that a file begins with, from the sizes of its blocks; nothing is unpacked."""
    import zstandard

    head = stream.read(FRAME_HEADER)
    place, closing = zstandard.frame_header_size(head), CHECKSUM_SIZE * zstandard.get_frame_parameters(head).has_checksum
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
    """Say what is wrong with a bundle's seal: it is missing, or the bytes before it are not those that were sealed; None if it holds."""
    try:
        found = read(bundle)
    except JudgedError as error:
        return str(error)
    return None if digest_of(bundle, found.sealed) == found.digest else "some byte was changed after it was sealed"


def digest_of(path: Path, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(min(size, CHUNK)):
            digest.update(piece)
            size -= len(piece)
    return digest.digest()
