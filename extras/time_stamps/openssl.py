"""RFC 3161 time stamps: an authority states that a bundle's seal existed at a time. `openssl ts`
makes and checks them, without a network.

The time stamp covers the SHA-256 in the seal, so that `openssl ts -verify -digest SEAL` checks a
reply without podium.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from suite.errors import JudgedError, RequestError
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import replace_unprintable
from suite.time_stamps import TimeStamp

OPENSSL_PROGRAM: Final = "openssl"
OPENSSL_MISSING: Final = f"{OPENSSL_PROGRAM} is not installed (Debian's package openssl)"
OPENSSL_TIMEOUT_S: Final = 60
STAMP_TIME_PATTERN: Final = re.compile(
    r"^Time stamp: (\w{3} +\d+ \d\d:\d\d:\d\d)(?:\.\d+)? (\d{4}) GMT$", re.MULTILINE
)
STAMP_AUTHORITY_PATTERN: Final = re.compile(r"^TSA: (.+)$", re.MULTILINE)
"""Lines in the output of `openssl ts -reply -text`."""
UNSPECIFIED_AUTHORITY: Final = "unspecified"
"""Printed by openssl if a time stamp does not name its authority, which is optional. Source: RFC
3161, section 2.4.2, field tsa.
"""


def run_openssl_ts(arguments: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Run `openssl ts`; RequestError if it does not terminate."""
    command, quiet = [OPENSSL_PROGRAM, "ts", *arguments], {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=quiet,
            timeout=OPENSSL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(
            f"{OPENSSL_PROGRAM} ts did not end within {OPENSSL_TIMEOUT_S} s"
        ) from error


class OpensslVerifier:
    """Verifies time stamps by `openssl ts`."""

    def describe_obstacle(self) -> str:
        """Say that openssl is not installed; empty if it is."""
        if shutil.which(OPENSSL_PROGRAM) is None:
            return OPENSSL_MISSING
        return ""

    def verify_time_stamp(
        self, content: bytes, digest: bytes, authorities: Path | None
    ) -> TimeStamp:
        """Parse a time stamp of the bundle with this seal; JudgedError if it is invalid, or not
        from one of these authorities. None: any authority.
        """
        with create_temporary_folder() as folder:
            file = folder / "reply"
            file.write_bytes(content)
            stamp = read_time_stamp_reply(file, digest)
            if authorities is not None:
                check_stamping_authority(file, digest, authorities)
        return stamp


def check_stamping_authority(file: Path, digest: bytes, authorities: Path) -> None:
    """JudgedError if a reply is not from one of these authorities."""
    done = run_openssl_ts(
        ["-verify", "-digest", digest.hex(), "-in", str(file), "-CAfile", str(authorities)]
    )
    if done.returncode:
        raise JudgedError(
            f"its time stamp is not from an authority in {authorities}:"
            f" {find_last_output_line(done.stderr)}"
        )


def read_time_stamp_reply(file: Path, digest: bytes) -> TimeStamp:
    """Read a reply; JudgedError if it is not a granted time stamp of this seal.

    Only its token is read: the status around it is not signed and may contain any text.
    """
    token = file.with_suffix(".token")
    taken = run_openssl_ts(["-reply", "-in", str(file), "-token_out", "-out", str(token)])
    if taken.returncode:
        done = taken
    else:
        done = run_openssl_ts(["-reply", "-in", str(token), "-token_in", "-text"])
    text = done.stdout.decode("utf-8", "replace")
    time = STAMP_TIME_PATTERN.search(text)
    if done.returncode or not time:
        raise JudgedError("the reply does not grant an RFC 3161 time stamp")
    if parse_stamped_digest(text) != digest:
        raise JudgedError("its time stamp is for another bundle")
    authority = STAMP_AUTHORITY_PATTERN.search(text)
    utc = datetime.strptime(f"{time[1]} {time[2]}", "%b %d %H:%M:%S %Y").replace(tzinfo=UTC)
    if authority:
        named = authority[1].removeprefix("DirName:/")
    else:
        named = UNSPECIFIED_AUTHORITY
    return TimeStamp(
        utc=utc,
        authority=("not named" if named == UNSPECIFIED_AUTHORITY else replace_unprintable(named)),
    )


def parse_stamped_digest(text: str) -> bytes:
    """Parse the stamped digest from the hex dump that follows `Message data:`."""
    dump = text.partition("Message data:")[2].partition("Serial number:")[0]
    rows = re.findall(r"^\s*[0-9a-f]{4} - ((?:[0-9a-f]{2}[ -]?){1,16})", dump, re.MULTILINE)
    return bytes.fromhex("".join(re.sub(r"[ -]", "", row) for row in rows))


def find_last_output_line(words: bytes) -> str:
    """Return the last line that is not empty."""
    lines = [line.strip() for line in words.decode("utf-8", "replace").splitlines() if line.strip()]
    if lines:
        return replace_unprintable(lines[-1])
    return "no reason given"
