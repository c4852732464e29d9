"""The byte format of a bundle: a canonical tar in one zstd frame, manifest first, and the seal;
writes and inspects bundles.

The manifest determines every other byte of the tar, so inspection compares with the expected bytes
and trusts no header.
"""

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from compliance.bundle import trailer
from compliance.bundle.archive import (
    MAX_EXPANSION_RATIO,
    MAX_UNPACKED_BYTES,
    SMALL_ARCHIVE_BYTES,
    ZstdFrameReader,
    find_member_problem,
)
from compliance.bundle.manifest import MAX_MANIFEST_BYTES as MANIFEST_LIMIT
from compliance.bundle.manifest import Manifest, check_manifest_format, encode_manifest
from compliance.bundle.seal import build_bundle_seal
from suite.errors import JudgedError
from suite.files.layout import MANIFEST_FILE
from suite.files.untrusted_files import describe_parse_failure, replace_unprintable

ZSTD_LEVEL: Final = 11
"""Compression level of zstd. The next level takes longer for small bundles and gives the same size.
One thread is used, since several produce different blocks.
"""
READ_CHUNK_BYTES: Final = 1 << 20
TAR_BLOCK_BYTES: Final = tarfile.BLOCKSIZE


def build_tar_header(name: str, size: int) -> bytes:
    """Return the only valid header of a member: a regular file, mode 0644, owner 0/0, time 0; whole
    blocks.
    """
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def build_tar_padding(size: int) -> bytes:
    """Fill a member's last block."""
    return b"\0" * (-size % TAR_BLOCK_BYTES)


def build_tar_end(size: int) -> bytes:
    """End the archive after `size` bytes: two empty blocks, padded to a full record."""
    return b"\0" * (2 * TAR_BLOCK_BYTES + -(size + 2 * TAR_BLOCK_BYTES) % tarfile.RECORDSIZE)


def write_bundle(bundle: Path, manifest: Manifest, sources: Mapping[str, Path | bytes]) -> None:
    """Write a bundle; `sources` gives the path or the bytes of each file in the manifest. Equal
    files give equal bytes.
    """
    import zstandard

    text = encode_manifest(manifest)
    sizes = [
        (MANIFEST_FILE, len(text)),
        *((name, manifest.files[name].size) for name in sorted(manifest.files)),
    ]
    length = sum(
        len(build_tar_header(name, size)) + size + len(build_tar_padding(size))
        for name, size in sizes
    )
    end = build_tar_end(length)
    packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True, threads=0)
    with bundle.open("wb") as raw:
        frame = packer.stream_writer(raw, size=length + len(end), closefd=False)
        for piece in chain(
            *(iterate_member_bytes(name, size, sources.get(name, text)) for name, size in sizes),
            [end],
        ):
            frame.write(piece)
        frame.flush(zstandard.FLUSH_FRAME)  # `with` would hide why writing failed
    digest = trailer.hash_leading_bytes(bundle, bundle.stat().st_size)
    with bundle.open("ab") as raw:
        raw.write(build_bundle_seal(digest))


def iterate_member_bytes(name: str, size: int, source: Path | bytes) -> Iterator[bytes]:
    """Yield the bytes of one member; JudgedError if the file's length has changed."""
    yield build_tar_header(name, size)
    if isinstance(source, bytes):
        yield source
    else:
        yield from iterate_file_chunks(name, size, source)
    yield build_tar_padding(size)


def iterate_file_chunks(name: str, size: int, source: Path) -> Iterator[bytes]:
    """Yield a file in chunks."""
    with source.open("rb") as stream:
        while piece := stream.read(min(size, READ_CHUNK_BYTES)):
            yield piece
            size -= len(piece)
        if size or stream.read(1):
            raise JudgedError(f"{name}: changed during packing")


def inspect_bundle(bundle: Path) -> Iterator[str]:
    """Yield one sentence per difference between a bundle and what was sealed; extracts nothing."""
    yield from map(replace_unprintable, inspect_bundle_unescaped(bundle))


def inspect_bundle_unescaped(bundle: Path) -> Iterator[str]:
    """Yield the sentences, with names as they appear in the archive."""
    import zstandard

    if bundle.is_dir():
        yield (
            f"{bundle}: a directory, not a bundle; `podium check` checks it as it is, `podium "
            "pack` makes a bundle of results"
        )
        return
    if bundle.exists() and not bundle.is_file():
        yield f"{bundle}: not a regular file"
        return
    try:
        with bundle.open("rb") as packed:
            yield from inspect_tar_members(open_bundle_archive(bundle, packed), bundle.name)
        yield from inspect_bundle_seal(bundle)
    except JudgedError as error:
        yield str(error)
    except zstandard.ZstdError as error:
        yield f"{bundle.name}: cannot be unpacked: {error}"
    except OSError as error:
        yield f"{bundle}: {error.strerror or error}"


def inspect_bundle_seal(bundle: Path) -> Iterator[str]:
    """Check what follows the archive: the seal must match this file, and only signatures and time
    stamps may follow it.
    """
    found = trailer.find_seal_problem(bundle)
    if found:
        yield f"{bundle.name}: {found}"


def read_bundle_manifest(bundle: Path) -> Manifest:
    """Read the manifest of an undamaged bundle without unpacking it; JudgedError if the manifest is
    missing.
    """
    with bundle.open("rb") as packed:
        return read_manifest_member(open_bundle_archive(bundle, packed).read, bundle.name)[1]


def open_bundle_archive(bundle: Path, packed: BinaryIO) -> ZstdFrameReader:
    """Return the content of a bundle's archive, up to a limit based on its size."""
    return ZstdFrameReader(
        packed,
        min(
            MAX_UNPACKED_BYTES,
            max(SMALL_ARCHIVE_BYTES, bundle.stat().st_size * MAX_EXPANSION_RATIO),
        ),
        bundle.name,
    )


def inspect_tar_members(stream: BinaryIO | ZstdFrameReader, bundle: str) -> Iterator[str]:
    """Compare the tar with its manifest, byte for byte; stops at the first misplaced member."""
    text, manifest = read_manifest_member(stream.read, bundle)
    if encode_manifest(manifest) != text:
        yield f"{MANIFEST_FILE}: not in the form that podium writes"
    length = (
        len(build_tar_header(MANIFEST_FILE, len(text)))
        + len(text)
        + len(build_tar_padding(len(text)))
    )
    for name in sorted(manifest.files):
        sealed = manifest.files[name]
        expected = build_tar_header(name, sealed.size)
        found = stream.read(len(expected))
        if found != expected or is_unsafe_member_name(name):
            yield describe_misplaced_member(found, name, manifest)
            return
        yield from inspect_member_content(stream.read, name, sealed.size, sealed.sha256)
        length += len(expected) + sealed.size + len(build_tar_padding(sealed.size))
    rest = stream.read(len(build_tar_end(length)) + 1)
    if rest != build_tar_end(length):
        yield describe_misplaced_member(rest, "", manifest)


def is_unsafe_member_name(name: str) -> bool:
    """Return whether a path in a manifest is not allowed in a bundle."""
    return find_member_problem(tarfile.TarInfo(name)) is not None or name == MANIFEST_FILE


def read_manifest_member(read: Callable[[int], bytes], bundle: str) -> tuple[bytes, Manifest]:
    """Read the first member; JudgedError if it is not a manifest, RequestError for another format
    than this version's.
    """
    block = read(TAR_BLOCK_BYTES)
    try:
        size = tarfile.TarInfo.frombuf(block, "utf-8", "strict").size
        if not 0 < size <= MANIFEST_LIMIT or block != build_tar_header(MANIFEST_FILE, size):
            raise JudgedError(f"the first member is not {MANIFEST_FILE}")
        text = read(size)
        if read(len(build_tar_padding(size))) != build_tar_padding(size):
            raise JudgedError(f"{MANIFEST_FILE}: its padding is not empty")
        check_manifest_format(text, bundle)
        return text, msgspec.json.decode(text, type=Manifest)
    except (tarfile.TarError, ValueError, RecursionError) as error:
        raise JudgedError(f"{MANIFEST_FILE}: {describe_parse_failure(error)}") from error


def inspect_member_content(
    read: Callable[[int], bytes], name: str, size: int, sha256: str
) -> Iterator[str]:
    """Compare one file with its checksum, and its padding with zeros."""
    digest, left = hashlib.sha256(), size
    while piece := read(min(left, READ_CHUNK_BYTES)):
        digest.update(piece)
        left -= len(piece)
    if digest.hexdigest() != sha256:
        yield f"{name}: changed: its SHA-256 is {digest.hexdigest()}, the sealed one {sha256}"
    if read(len(build_tar_padding(size))) != build_tar_padding(size):
        yield f"{name}: its padding is not empty"


def describe_misplaced_member(block: bytes, expected: str, manifest: Manifest) -> str:
    """Describe what was found where another member, or the end of the archive, was expected."""
    if not block.strip(b"\0"):
        if expected:
            return f"'{expected}' is missing: the archive ends before it"
        return "the end of the archive is cut off or not empty"
    if expected:
        position = f"where '{expected}' should be"
    else:
        position = "where the archive should end"
    try:
        found = tarfile.TarInfo.frombuf(
            block[:TAR_BLOCK_BYTES].ljust(TAR_BLOCK_BYTES, b"\0"), "utf-8", "replace"
        )
    except tarfile.TarError:
        return f"{position}, there is no member"
    problem = find_member_problem(found)
    if problem:
        return f"'{found.name}' {problem}"
    if found.name not in manifest.files:
        return f"'{found.name}' was added: the manifest does not name it"
    return f"{position}, '{found.name}' was found, or a header was changed"
