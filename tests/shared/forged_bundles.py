"""What a forger does to the bytes of a bundle: other content under a new seal, members more and
fewer, bytes where nobody looks.
"""

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import zstandard

from compliance.bundle.seal import SEAL_BYTES, build_bundle_seal

BLOCK = tarfile.BLOCKSIZE
LABELS = "open/acme/truth/resnet50/labels.txt"


def raw_of(bundle: Path) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(bundle.read_bytes())


def reseal(bundle: Path, raw: bytes) -> Path:
    """Do what a forger would: compress other content and seal it anew."""
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(raw)
    bundle.write_bytes(packed + build_bundle_seal(hashlib.sha256(packed).digest()))
    return bundle


def member(
    name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, target: str = ""
) -> bytes:
    info = tarfile.TarInfo(name)
    is_file = kind == tarfile.REGTYPE
    info.type, info.linkname, info.size = kind, target, len(content) if is_file else 0
    return info.tobuf(tarfile.PAX_FORMAT) + (content.ljust(BLOCK, b"\0") if is_file else b"")


def members_of(raw: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        return archive.getmembers()


def end_of(info: tarfile.TarInfo) -> int:
    """Where the next member begins."""
    return info.offset_data + -(-info.size // BLOCK) * BLOCK


def with_member(raw: bytes, extra: bytes, place: str) -> bytes:
    """Put a member behind the manifest, or behind the last one."""
    members = members_of(raw)
    at = members[1].offset if place == "first" else end_of(members[-1])
    return raw[:at] + extra + raw[at:]


def without_member(raw: bytes, which: int) -> bytes:
    gone = members_of(raw)[which]
    return raw[: gone.offset] + raw[end_of(gone) :]


def with_padding(raw: bytes, name: str) -> bytes:
    """Write into the blanks behind a member."""
    info = next(each for each in members_of(raw) if each.name == name)
    at = info.offset_data + info.size
    return raw[:at] + b"\1" + raw[at + 1 :]


def with_time(raw: bytes) -> bytes:
    """Another time in a header: no content changed."""
    info = members_of(raw)[3]
    info.mtime = 1
    return raw[: info.offset] + info.tobuf(tarfile.PAX_FORMAT) + raw[info.offset_data :]


ADDED: dict[str, tuple[bytes, str]] = {
    "added": (member("open/acme/more.txt"), "was added"),
    "absolute": (member("/etc/x"), "absolute"),
    "dots": (member("../x"), "leaves"),
    "inner dots": (member("open/../../x"), "leaves"),
    "symlink": (member("x", kind=tarfile.SYMTYPE, target="/etc/passwd"), "link"),
    "hardlink": (member("x", kind=tarfile.LNKTYPE, target="manifest.json"), "link"),
    "device": (member("x", kind=tarfile.CHRTYPE), "device"),
    "manifest twice": (member("manifest.json"), "manifest.json"),
    "twice": (member(LABELS), "labels.txt"),
    "garbage": (b"garbage".ljust(BLOCK), "no member"),
}
"""A member that is put in, and a word of what is said about it."""
TAILS: dict[str, bytes] = {
    "zero": b"\0",
    "text": b"more",
    "frame": zstandard.compress(b"\0" * BLOCK),
    "seal": build_bundle_seal(b"\0" * 32),
    "empty frame": zstandard.compress(b""),
}
"""Bytes before or behind the seal."""
GARBAGE: dict[str, bytes] = {
    "empty": b"",
    "zip": b"PK\x03\x04",
    "magic": b"\x28\xb5\x2f\xfd",
    "nothing": zstandard.compress(b""),
    "no tar": zstandard.compress(b"no tar at all" * 100),
    "zeros": zstandard.compress(b"\0" * (80 << 20)),
}
"""What is no bundle."""


def sealed_behind(bundle: Path, tail: bytes) -> None:
    """Put bytes behind the archive and seal both."""
    body = bundle.read_bytes()[:-SEAL_BYTES] + tail
    bundle.write_bytes(body + build_bundle_seal(hashlib.sha256(body).digest()))


def list_forgeries() -> dict[str, Callable[[Path], object]]:
    """List all of them by name: each changes a bundle in its place."""
    found: dict[str, Callable[[Path], object]] = {}
    for name, tail in TAILS.items():
        found[f"{name} behind the seal"] = lambda bundle, tail=tail: bundle.write_bytes(
            bundle.read_bytes() + tail
        )
        found[f"{name} before a new seal"] = lambda bundle, tail=tail: sealed_behind(bundle, tail)
    for name, content in GARBAGE.items():
        found[f"no bundle: {name}"] = lambda bundle, content=content: bundle.write_bytes(content)
    changes: dict[str, Callable[[bytes], bytes]] = {
        **{
            f"member {name}, {place}": lambda raw, extra=extra, place=place: with_member(
                raw, extra, place
            )
            for name, (extra, _) in ADDED.items()
            for place in ("first", "last")
        },
        **{
            f"without member {which}": lambda raw, which=which: without_member(raw, which)
            for which in (1, 5, -1)
        },
        **{
            f"in the padding of {name}": lambda raw, name=name: with_padding(raw, name)
            for name in ("manifest.json", LABELS)
        },
        "in the last record": lambda raw: raw[:-1] + b"\1",
        "a block fewer": lambda raw: raw[:-BLOCK],
        "a block more": lambda raw: raw + b"\0" * BLOCK,
        "another time": with_time,
    }
    for name, change in changes.items():
        found[name] = lambda bundle, change=change: reseal(bundle, change(raw_of(bundle)))
    return found
