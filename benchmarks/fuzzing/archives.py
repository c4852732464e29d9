"""Malicious bundles: members that leave the folder, links, devices, decompression bombs,
inconsistent headers and frames.
"""

import hashlib
import io
import random
import tarfile
from collections.abc import Sequence
from typing import Final

import zstandard

from compliance.bundle.seal import SEAL_BYTES, build_bundle_seal
from fuzzing.changes import ODD, changed

NAMES: Final = (
    "../outside",
    "../../outside",
    "a/../../outside",
    "/tmp/podium-fuzz-outside",
    "//outside",
    "a\\..\\outside",
    "C:\\outside",
    "~/outside",
    ".",
    "..",
    "",
    "a//b",
    "./a",
    "a\0b",
    "a\nb",
    "\x1b[2J",
    "\ud800",
    "a" * 300,
    "/".join("a" * 200),
    "manifest.json",
    "manifest.json/x",
    "truth",
    "closed/x/results/y/z/result_0.txt",
)
KINDS: Final = (
    tarfile.REGTYPE,
    tarfile.REGTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CONTTYPE,
    tarfile.GNUTYPE_SPARSE,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    b"V",
    b"M",
    b"\xff",
)
BOMB: Final = 80 << 20
"""Bytes of zeros, a little more than any small archive may unpack to."""


def bundles(dice: random.Random, content: bytes, others: Sequence[bytes]) -> bytes:
    """Spoil the packed bytes, the tar within, or its members; some of them sealed anew."""
    if dice.random() < 0.25:
        return changed(dice, content, others)
    try:
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    except zstandard.ZstdError:
        return changed(dice, content, others)
    raw = dice.choice((headers, members, members, manifests, changed_tar))(dice, raw, others)
    packed = zstandard.ZstdCompressor(
        level=1, write_content_size=dice.random() < 0.8, write_checksum=dice.random() < 0.8
    ).compress(raw)
    match dice.randrange(8):
        case 0:
            return packed
        case 1:
            return (
                packed
                + zstandard.compress(dice.randbytes(64))
                + build_bundle_seal(hashlib.sha256(packed).digest())
            )
        case 2:
            return packed + build_bundle_seal(dice.randbytes(32))[: dice.randrange(SEAL_BYTES + 1)]
        case _:
            return packed + build_bundle_seal(hashlib.sha256(packed).digest())


def changed_tar(dice: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """Spoil the tar as bytes."""
    return changed(dice, raw, others)


def headers(dice: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """Spoil some bytes of one header and make its sum right, so that what it says is believed."""
    found = bytearray(raw)
    starts = [at for at in range(0, len(raw) - 512, 512) if raw[at + 257 : at + 262] == b"ustar"]
    if not starts:
        return raw
    at = dice.choice(starts)
    for _ in range(dice.choice((1, 2, 6))):
        place, odd = (
            dice.randrange(500),
            dice.choice((*ODD, b"\x80" + dice.randbytes(11), b"77777777777", dice.choice(KINDS)))[
                :32
            ],
        )
        place = dice.choice((place, 0, 124, 156, 157, 345))
        found[at + place : at + place + len(odd)] = odd
    found[at + 148 : at + 156] = b" " * 8
    found[at + 148 : at + 156] = b"%06o\0 " % (sum(found[at : at + 512]) & 0o777777)
    return bytes(found[: len(raw)])


def members(dice: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """Add members that no bundle may have, before, behind or in place of the others."""
    text = b"".join(member(dice) for _ in range(dice.choice((1, 1, 3))))
    at = 512 * dice.randrange(len(raw) // 512 + 1)
    return dice.choice(
        (
            text + raw,
            raw.rstrip(b"\0") + b"\0" * (-len(raw.rstrip(b"\0")) % 512) + text,
            raw[:at] + text + raw[at:],
            text + b"\0" * 1024,
        )
    )


def member(dice: random.Random) -> bytes:
    """Make one such member."""
    name = dice.choice(NAMES)
    found = tarfile.TarInfo(name)
    found.type, found.linkname = dice.choice(KINDS), dice.choice(NAMES)
    found.mode, found.uid, found.mtime = (
        dice.choice((0o644, 0o7777, 0)),
        dice.choice((0, 1 << 20)),
        dice.choice((0, 1e9, -1)),
    )
    pax = (b"20 path=../outside\n", b"30 GNU.sparse.major=1\n20 size=999\n")
    body = dice.choice(
        (b"", b"x" * 700, b"[" * 100_000, b'{"a":' * 50_000, dice.randbytes(100), *pax)
    )
    if dice.random() < 0.01:
        body = b"\0" * BOMB
    found.size = len(body) if dice.random() < 0.9 else dice.choice((0, 1, 10**9, 10**15))
    if dice.random() < 0.2:
        found.pax_headers = {
            dice.choice(
                ("path", "linkpath", "size", "GNU.sparse.map", "hdrcharset", "x")
            ): dice.choice((*NAMES[:8], "9" * 5000, "-1", "1,2"))
        }
    try:
        head = found.tobuf(
            dice.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT)),
            "utf-8",
            "surrogatepass",
        )
    except (ValueError, OverflowError):
        head = tarfile.TarInfo("x").tobuf()
    return head + body + b"\0" * (-len(body) % 512)


def manifests(dice: random.Random, raw: bytes, others: Sequence[bytes]) -> bytes:
    """Spoil the manifest's text, or another member's, in a tar that is well-formed."""
    whole = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(raw)) as source,
        tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        found = source.getmembers()
        chosen = 0 if dice.random() < 0.5 else dice.randrange(len(found))
        for number, each in enumerate(found):
            stream = source.extractfile(each)
            body = stream.read() if stream else b""
            body = changed(dice, body, others) if number == chosen else body
            each.size = len(body)
            target.addfile(each, io.BytesIO(body))
    return whole.getvalue()
