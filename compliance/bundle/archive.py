"""Unpack an untrusted bundle, a zstd-compressed tar, as regular files below one folder, or reject
it.

Nothing is created before it passes the checks: no links, no devices, no absolute or `..` paths, no
repeated members, no decompression bombs, and no bytes after the archive's end except the seal,
signatures and time stamps.
"""

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from compliance.bundle import trailer
from compliance.bundle.manifest import check_unpacked_format, read_unpacked_manifest_or_none
from compliance.recognition.path_kind import ZSTD_MAGIC
from suite.errors import JudgedError, MissingError
from suite.files.layout import DISK_FULL_ERRORS, MANIFEST_FILE
from suite.files.untrusted_files import describe_parse_failure, replace_unprintable

MAX_EXPANSION_RATIO: Final = 4000
"""Maximum ratio of unpacked to packed bytes; zstd reaches about 1,000 on LoadGen accuracy logs of
equal answers.
"""
MAX_UNPACKED_BYTES: Final = 256 << 30
"""Maximum size in bytes when unpacked; a full campaign contains logs and answers, no weights."""
SMALL_ARCHIVE_BYTES: Final = 64 << 20
"""Size in bytes up to which any archive may unpack, however small it is."""
MAX_ARCHIVE_MEMBERS: Final = 20_000
"""Maximum number of files and folders; campaigns of all workloads with their audits and studies
have about 3,000.
"""
MAX_UNNAMED_MEMBERS: Final = 1_000
"""Maximum number of files and folders that the manifest does not name; podium writes none."""
MAX_UNNAMED_BYTES: Final = 64 << 20
"""Maximum size in bytes of the files that the manifest does not name, all together."""
MAX_HEADER_BYTES: Final = 64 << 10
"""Maximum number of bytes that describe one member. podium writes 512, and 1,536 for a name of more
than 100 characters; tarfile reads an extension header whole, whatever size it states.
"""
MAX_MEMBER_DEPTH: Final = 64
"""Maximum number of folders within one another; results have 10."""
UNPACKED_CHUNK_BYTES: Final = 1 << 20
PACKED_CHUNK_BYTES: Final = 1024
"""Bytes of input unpacked at once: at most 256 blocks of 128 KiB."""
MAX_ZSTD_WINDOW_BYTES: Final = 128 << 20
"""Memory in bytes that a frame may request; zstd level 19 requests 8 MiB."""
CONTROL_CHARACTERS: Final = re.compile("[\x00-\x1f\x7f]")


class ZstdFrameReader(io.BufferedIOBase):
    """The content of one zstd frame, read on demand; JudgedError if it exceeds the limit or bytes
    follow the frame.
    """

    def __init__(self, packed: BinaryIO, limit: int, name: str) -> None:
        import zstandard

        self.packed, self.left, self.name = packed, limit, name
        self.frame = zstandard.ZstdDecompressor(
            max_window_size=MAX_ZSTD_WINDOW_BYTES
        ).decompressobj()
        self.waiting = bytearray()
        self.header_left: int | None = None
        """Bytes that may still be read for the headers of a member; None while anything may be."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Return `size` bytes, fewer at the end; without a size, everything that is left."""
        if size is None or size < 0:
            wanted = self.left + 1
        else:
            wanted = size
        while len(self.waiting) < wanted and not self.frame.eof:
            self.unpack_more()
        piece = bytes(self.waiting[:wanted])
        del self.waiting[:wanted]
        if self.header_left is not None:
            self.header_left -= len(piece)
            if self.header_left < 0:
                raise JudgedError(
                    f"{self.name}: a member's header is larger than {MAX_HEADER_BYTES:,} bytes"
                )
        return piece

    def unpack_more(self) -> None:
        """Unpack a few more bytes of input, since each may expand to 32 KiB."""
        data = self.packed.read(PACKED_CHUNK_BYTES)
        if not data:
            raise JudgedError(f"{self.name}: truncated")
        piece = self.frame.decompress(data)
        self.left -= len(piece)
        if self.left < 0:
            raise JudgedError(f"{self.name}: unpacks to far more than its size allows")
        if self.frame.eof and (
            problem := trailer.find_trailer_problem(
                self.frame.unused_data + self.packed.read(trailer.MAX_TRAILER_BYTES + 1)
            )
        ):
            raise JudgedError(f"{self.name}: {problem}")
        self.waiting += piece


def unpack_bundle(bundle: Path, folder: Path) -> None:
    """Unpack a `.tar.zst` below `folder`; if JudgedError rejects the bundle, `folder` may hold a
    part of it.

    Members are plain files and folders with relative paths; nothing is written outside `folder`,
    and modes and owners are not kept.
    """
    import zstandard

    try:
        with bundle.open("rb") as packed:
            if packed.read(len(ZSTD_MAGIC)) != ZSTD_MAGIC:
                raise JudgedError(f"{bundle.name}: not a zstd archive")
            packed.seek(0)
            limit = min(
                MAX_UNPACKED_BYTES,
                max(SMALL_ARCHIVE_BYTES, bundle.stat().st_size * MAX_EXPANSION_RATIO),
            )
            extract_archive_members(
                ZstdFrameReader(packed, limit, bundle.name), folder, bundle.name
            )
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            raise MissingError(
                f"{bundle.name}: not enough space to unpack it below {folder.parent}:"
                f" {error.strerror}; TMPDIR can name another folder"
            ) from error
        raise JudgedError(
            f"{bundle.name}: cannot be unpacked: {error.strerror or describe_parse_failure(error)}"
        ) from error
    except (
        EOFError,
        ValueError,
        ArithmeticError,
        RecursionError,
        tarfile.TarError,
        zstandard.ZstdError,
    ) as error:  # tarfile lets many through
        raise JudgedError(
            f"{bundle.name}: cannot be unpacked: {describe_parse_failure(error)}"
        ) from error


@dataclass(slots=True, kw_only=True)
class MemberCount:
    """What has been unpacked so far; JudgedError for a member too many."""

    bundle: str
    files: set[PurePosixPath] = field(default_factory=set)
    folders: set[PurePosixPath] = field(default_factory=set)
    """Also folders that only the path of a member names."""
    named: frozenset[str] = frozenset()
    """Files that the manifest names, once it is unpacked."""
    unnamed: int = 0
    unnamed_bytes: int = 0

    def add_member(self, member: tarfile.TarInfo, path: PurePosixPath) -> None:
        """Count a member, and the folders that it creates."""
        if path in self.files:
            raise JudgedError(f"{self.bundle}: contains '{replace_unprintable(member.name)}' twice")
        created = [folder for folder in path.parents if folder not in self.folders]
        self.folders.update(created)
        self.files.add(path)
        if len(self.files) + len(self.folders) > MAX_ARCHIVE_MEMBERS:
            raise JudgedError(f"{self.bundle}: more than {MAX_ARCHIVE_MEMBERS:,} files and folders")
        if str(path) in self.named or str(path) == MANIFEST_FILE:
            return
        self.unnamed += 1 + len(created)
        self.unnamed_bytes += member.size
        if self.unnamed > MAX_UNNAMED_MEMBERS or self.unnamed_bytes > MAX_UNNAMED_BYTES:
            raise JudgedError(
                f"{self.bundle}: more than {MAX_UNNAMED_MEMBERS:,} files and folders or"
                f" {MAX_UNNAMED_BYTES:,} bytes that its {MANIFEST_FILE} does not name"
            )


def extract_archive_members(stream: ZstdFrameReader, folder: Path, name: str) -> None:
    """Write each member that passes the checks, then check that only zeros follow. Read in blocks
    of 512 bytes, so that every byte is checked.
    """
    counted = MemberCount(bundle=name)
    stream.header_left = MAX_HEADER_BYTES
    with tarfile.open(
        fileobj=stream, mode="r|", bufsize=tarfile.BLOCKSIZE, encoding="utf-8", errors="strict"
    ) as archive:
        for member in iterate_safe_members(archive, name):
            path = PurePosixPath(member.name)
            counted.add_member(member, path)
            stream.header_left = None
            write_archive_member(archive, member, folder.joinpath(*path.parts))
            stream.header_left = MAX_HEADER_BYTES
            if str(path) == MANIFEST_FILE:
                check_unpacked_format(folder, name)
                manifest = read_unpacked_manifest_or_none(folder)
                counted.named = frozenset(manifest.files if manifest else ())
    stream.header_left = None
    while rest := stream.read(UNPACKED_CHUNK_BYTES):
        if rest.strip(b"\0"):
            raise JudgedError(f"{name}: bytes follow the end of the archive")


def iterate_safe_members(archive: tarfile.TarFile, name: str) -> Iterator[tarfile.TarInfo]:
    """Yield the members; JudgedError for the first that is not a plain file or folder with a path
    below the root.
    """
    try:
        for member in archive:
            problem = find_member_problem(member)
            if problem:
                raise JudgedError(f"{name}: '{replace_unprintable(member.name)}' {problem}")
            yield member
    except UnicodeError as error:
        raise JudgedError(f"{name}: a member's name is not UTF-8") from error


def find_member_problem(member: tarfile.TarInfo) -> str | None:
    """Return why a member is rejected; None if it is accepted."""
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or member.issparse():
        return "is a link, a device or something else that is not a plain file"
    if path.is_absolute() or "\\" in member.name or any(":" in part for part in path.parts[:1]):
        return "has an absolute or foreign path"
    if not path.parts or ".." in member.name.split("/"):
        return "leaves the folder"
    if len(path.parts) > MAX_MEMBER_DEPTH:
        return f"lies more than {MAX_MEMBER_DEPTH} folders deep"
    if CONTROL_CHARACTERS.search(member.name):
        return "has control characters in its name"
    return None


def write_archive_member(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write one member; an existing file is never opened again."""
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    source = archive.extractfile(member)
    if source is None:
        raise JudgedError(f"'{replace_unprintable(member.name)}' cannot be read")
    with path.open("xb") as target:
        while piece := source.read(UNPACKED_CHUNK_BYTES):
            target.write(piece)
    if path.stat().st_size != member.size:
        raise JudgedError(f"'{replace_unprintable(member.name)}' is truncated")
