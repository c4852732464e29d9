"""The byte format of a bundle: a canonical tar in one zstd frame, manifest first, and the seal;
writing and inspection.

The manifest determines every other byte of the tar, so inspection compares with the expected bytes
and trusts no header.
"""

import hashlib
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from compliance.bundle import trailer
from compliance.bundle.archive import EXPANSION_LIMIT, SIZE_LIMIT, SMALL_ARCHIVE, Unzipped, refusal
from compliance.bundle.manifest import SIZE_LIMIT as MANIFEST_LIMIT
from compliance.bundle.manifest import Manifest
from compliance.bundle.seal import seal
from suite.errors import JudgedError
from suite.files.layout import MANIFEST
from suite.files.untrusted_files import complaint, printable

LEVEL: Final = 11
"""Level of zstd; one thread, since several produce other blocks. The next one takes longer for
small bundles, and comes to the same size.
"""
CHUNK: Final = 1 << 20
BLOCK: Final = tarfile.BLOCKSIZE


def encode(manifest: Manifest) -> bytes:
    """Return the only valid text of a manifest."""
    told = msgspec.to_builtins(manifest)
    if not manifest.ledger:  # format 1 has no such field
        del told["ledger"]
    return (json.dumps(told, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()


def header(name: str, size: int) -> bytes:
    """Return the only valid header of a member: a regular file, mode 0644, owner 0/0, time 0; whole
    blocks.
    """
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def padding(size: int) -> bytes:
    """Fill a member's last block."""
    return b"\0" * (-size % BLOCK)


def closing(size: int) -> bytes:
    """End the archive after `size` bytes: two empty blocks, padded to a full record."""
    return b"\0" * (2 * BLOCK + -(size + 2 * BLOCK) % tarfile.RECORDSIZE)


def write(bundle: Path, manifest: Manifest, sources: Mapping[str, Path | bytes]) -> None:
    """Write a bundle; `sources` gives the path or the bytes of each file in the manifest. Equal
    files give equal bytes.
    """
    import zstandard

    text = encode(manifest)
    sizes = [
        (MANIFEST, len(text)),
        *((name, manifest.files[name].size) for name in sorted(manifest.files)),
    ]
    length = sum(len(header(name, size)) + size + len(padding(size)) for name, size in sizes)
    end = closing(length)
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, threads=0)
    with bundle.open("wb") as raw:
        frame = packer.stream_writer(raw, size=length + len(end), closefd=False)
        for piece in chain(
            *(member(name, size, sources.get(name, text)) for name, size in sizes), [end]
        ):
            frame.write(piece)
        frame.flush(zstandard.FLUSH_FRAME)  # not by `with`, which would hide why writing failed
    digest = trailer.digest_of(bundle, bundle.stat().st_size)
    with bundle.open("ab") as raw:
        raw.write(seal(digest))


def member(name: str, size: int, source: Path | bytes) -> Iterator[bytes]:
    """Yield one member; JudgedError if the file's length has changed."""
    yield header(name, size)
    if isinstance(source, bytes):
        yield source
    else:
        yield from content(name, size, source)
    yield padding(size)


def content(name: str, size: int, source: Path) -> Iterator[bytes]:
    """Yield a file in chunks."""
    with source.open("rb") as stream:
        while piece := stream.read(min(size, CHUNK)):
            yield piece
            size -= len(piece)
        if size or stream.read(1):
            raise JudgedError(f"{name}: changed during packing")


def inspect(bundle: Path) -> Iterator[str]:
    """Yield one sentence per difference between a bundle and what was written; extracts nothing."""
    yield from map(printable, inspect_bytes(bundle))


def inspect_bytes(bundle: Path) -> Iterator[str]:
    """Yield the sentences, with names as they appear in the archive."""
    import zstandard

    if bundle.is_dir():
        yield (
            f"{bundle}: a directory, no bundle: `podium check` judges it as it lies there, `podium"
            " pack` makes a bundle of results"
        )
        return
    if bundle.exists() and not bundle.is_file():
        yield f"{bundle}: no regular file"
        return
    try:
        with bundle.open("rb") as packed:
            yield from inspect_members(unzipped(bundle, packed))
        yield from inspect_seal(bundle)
    except JudgedError as error:
        yield str(error)
    except zstandard.ZstdError as error:
        yield f"{bundle.name}: cannot be unpacked: {error}"
    except OSError as error:
        yield f"{bundle}: {error.strerror or error}"


def inspect_seal(bundle: Path) -> Iterator[str]:
    """Check what follows the archive: that the seal is this file's, and that only signatures and
    time stamps follow it.
    """
    found = trailer.problem(bundle)
    if found:
        yield f"{bundle.name}: {found}"


def manifest_of(bundle: Path) -> Manifest:
    """Read the manifest of an undamaged bundle without unpacking it; JudgedError if it has none."""
    with bundle.open("rb") as packed:
        return read_manifest(unzipped(bundle, packed).read)[1]


def unzipped(bundle: Path, packed: BinaryIO) -> Unzipped:
    """Return the content of a bundle's archive, up to a limit based on its size."""
    return Unzipped(
        packed,
        min(SIZE_LIMIT, max(SMALL_ARCHIVE, bundle.stat().st_size * EXPANSION_LIMIT)),
        bundle.name,
    )


def inspect_members(stream: BinaryIO | Unzipped) -> Iterator[str]:
    """Compare the tar with its manifest, byte for byte; stops at the first misplaced member."""
    text, manifest = read_manifest(stream.read)
    if encode(manifest) != text:
        yield f"{MANIFEST}: not written as podium writes it"
    length = len(header(MANIFEST, len(text))) + len(text) + len(padding(len(text)))
    for name in sorted(manifest.files):
        sealed = manifest.files[name]
        expected = header(name, sealed.size)
        found = stream.read(len(expected))
        if found != expected or unsafe(name):
            yield misplaced(found, name, manifest)
            return
        yield from inspect_content(stream.read, name, sealed.size, sealed.sha256)
        length += len(expected) + sealed.size + len(padding(sealed.size))
    rest = stream.read(len(closing(length)) + 1)
    if rest != closing(length):
        yield misplaced(rest, "", manifest)


def unsafe(name: str) -> bool:
    """Return whether a path in a manifest is not allowed in a bundle."""
    return refusal(tarfile.TarInfo(name)) is not None or name == MANIFEST


def read_manifest(read: Callable[[int], bytes]) -> tuple[bytes, Manifest]:
    """Read the first member; JudgedError if it is not a manifest."""
    block = read(BLOCK)
    try:
        size = tarfile.TarInfo.frombuf(block, "utf-8", "strict").size
        if not 0 < size <= MANIFEST_LIMIT or block != header(MANIFEST, size):
            raise JudgedError(f"the first member is not {MANIFEST}")
        text = read(size)
        if read(len(padding(size))) != padding(size):
            raise JudgedError(f"{MANIFEST}: its padding is not empty")
        return text, msgspec.json.decode(text, type=Manifest)
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise JudgedError(f"{MANIFEST}: {complaint(error)}") from error


def inspect_content(
    read: Callable[[int], bytes], name: str, size: int, sha256: str
) -> Iterator[str]:
    """Compare one file with its checksum, and its padding with zeros."""
    digest, left = hashlib.sha256(), size
    while piece := read(min(left, CHUNK)):
        digest.update(piece)
        left -= len(piece)
    if digest.hexdigest() != sha256:
        yield f"{name}: changed: its SHA-256 is {digest.hexdigest()}, sealed was {sha256}"
    if read(len(padding(size))) != padding(size):
        yield f"{name}: its padding is not empty"


def misplaced(block: bytes, expected: str, manifest: Manifest) -> str:
    """Describe what was found in place of another member or the end."""
    if not block.strip(b"\0"):
        return (
            f"'{expected}' is missing: the archive ends before it"
            if expected
            else "the archive's end is cut or filled"
        )
    place = f"where '{expected}' should stand" if expected else "where the archive should end"
    try:
        found = tarfile.TarInfo.frombuf(block[:BLOCK].ljust(BLOCK, b"\0"), "utf-8", "replace")
    except tarfile.TarError:
        return f"{place}, there is no member"
    problem = refusal(found)
    if problem:
        return f"'{found.name}' {problem}"
    if found.name not in manifest.files:
        return f"'{found.name}' was added: the manifest does not name it"
    return f"{place}, '{found.name}' stands, or its header was changed"
