"""Time stamps of RFC 3161: an authority states that a bundle's seal existed at a time. Made and
checked by `openssl ts`, without a network.

The time stamp is of the SHA-256 in the seal, so that `openssl ts -verify -digest SEAL` checks a
reply without podium.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from compliance.bundle.trailer import Kind, Trailer
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import printable

PROGRAM: Final = "openssl"
LACKING: Final = f"{PROGRAM} is not installed (Debian's package openssl)"
WAIT_S: Final = 60
TIME: Final = re.compile(
    r"^Time stamp: (\w{3} +\d+ \d\d:\d\d:\d\d)(?:\.\d+)? (\d{4}) GMT$", re.MULTILINE
)
AUTHORITY: Final = re.compile(r"^TSA: (.+)$", re.MULTILINE)
"""Lines in the output of `openssl ts -reply -text`."""
UNSPECIFIED: Final = "unspecified"
"""Printed by openssl if a time stamp does not name its authority, which is optional. Source: RFC
3161, section 2.4.2, field tsa.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Content of a time stamp."""

    utc: datetime
    authority: str


def available() -> bool:
    """Return whether openssl is installed."""
    return shutil.which(PROGRAM) is not None


def run(arguments: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Run `openssl ts`; RequestError if it does not terminate."""
    command, quiet = [PROGRAM, "ts", *arguments], {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=quiet,
            timeout=WAIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(f"{PROGRAM} ts did not end within {WAIT_S} s") from error


def checked(content: bytes, digest: bytes, authorities: Path | None) -> Stamp:
    """Parse a time stamp of the bundle with this seal; JudgedError if it is invalid, or not from
    one of these authorities. None: any authority.
    """
    with TemporaryDirectory(prefix="podium-") as folder:
        file = Path(folder) / "reply"
        file.write_bytes(content)
        stamp = read(file, digest)
        if authorities is not None:
            done = run(
                ["-verify", "-digest", digest.hex(), "-in", str(file), "-CAfile", str(authorities)]
            )
            if done.returncode:
                raise JudgedError(
                    f"its time stamp is of no authority in {authorities}: {last_line(done.stderr)}"
                )
    return stamp


def problems(found: Trailer) -> Iterator[str]:
    """Yield what is wrong with the time stamps behind a seal, whoever made them; nothing where
    openssl is not installed.
    """
    for frame in found.frames if available() else ():
        if frame.kind is Kind.TIME:
            try:
                checked(frame.content, found.digest, None)
            except JudgedError as error:
                yield str(error)


def read(file: Path, digest: bytes) -> Stamp:
    """Read a reply; JudgedError if it is not a granted time stamp of this seal.

    Its token alone is read: the status around it is not signed, and may hold any text.
    """
    token = file.with_suffix(".token")
    taken = run(["-reply", "-in", str(file), "-token_out", "-out", str(token)])
    done = taken if taken.returncode else run(["-reply", "-in", str(token), "-token_in", "-text"])
    text = done.stdout.decode("utf-8", "replace")
    time = TIME.search(text)
    if done.returncode or not time:
        raise JudgedError("its time stamp is no reply of RFC 3161 that grants one")
    if imprint(text) != digest:
        raise JudgedError("its time stamp is of another bundle")
    authority = AUTHORITY.search(text)
    utc = datetime.strptime(f"{time[1]} {time[2]}", "%b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    named = authority[1].removeprefix("DirName:/") if authority else UNSPECIFIED
    return Stamp(utc=utc, authority="not named in it" if named == UNSPECIFIED else printable(named))


def imprint(text: str) -> bytes:
    """Read the stamped bytes from the dump that follows `Message data:`."""
    dump = text.partition("Message data:")[2].partition("Serial number:")[0]
    rows = re.findall(r"^\s*[0-9a-f]{4} - ((?:[0-9a-f]{2}[ -]?){1,16})", dump, re.MULTILINE)
    return bytes.fromhex("".join(re.sub(r"[ -]", "", row) for row in rows))


def last_line(words: bytes) -> str:
    """Return the last line that is not empty."""
    lines = [line.strip() for line in words.decode("utf-8", "replace").splitlines() if line.strip()]
    return printable(lines[-1]) if lines else "no reason given"
