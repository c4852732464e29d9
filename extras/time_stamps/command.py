"""`podium timestamp`: writes the request for a time stamp of a bundle's seal, and appends an
authority's reply after the seal. Needs no network.
"""

from pathlib import Path

import click

from compliance.bundle.trailer import MAX_FRAME_CONTENT_BYTES, FrameKind, TrailerFrame
from extras.time_stamps.openssl import OpensslVerifier, find_last_output_line, run_openssl_ts
from submissions.output_file import check_output_target
from submissions.signatures.command import check_files_exist
from submissions.signatures.signing import (
    append_trailer_frame,
    convert_write_errors,
    require_intact_bundle,
)
from suite.errors import MissingError, RequestError
from suite.files import untrusted_files
from suite.files.layout import replace_atomically
from suite.time_stamps import TimeStamp


def run_timestamp_command(
    bundle: Path, query: Path | None, reply: Path | None, authorities: Path | None
) -> None:
    """Write a time-stamp request, or attach an authority's reply; RequestError if neither or both
    are requested.
    """
    if (query is None) == (reply is None):
        raise RequestError(
            "give --query FILE to write a request, or --reply FILE --ca FILE to add the reply"
        )
    check_files_exist({"--reply": reply, "--ca": authorities})
    if query is not None:
        click.echo(
            f"{write_time_stamp_request(bundle, query)}: request written; send it to an "
            f"authority, then add its reply with podium timestamp {bundle} --reply FILE --ca FILE"
        )
    elif reply is not None and authorities is not None:
        made = attach_time_stamp(bundle, reply, authorities)
        click.echo(
            f"{bundle}: time-stamped {made.utc:%Y-%m-%d %H:%M:%S} UTC, authority {made.authority}"
        )
    else:
        raise RequestError("--reply needs --ca FILE: the authority's certificates (PEM)")


def write_time_stamp_request(bundle: Path, file: Path) -> Path:
    """Write the request for any authority; JudgedError for a damaged bundle, MissingError without
    openssl.
    """
    if obstacle := OpensslVerifier().describe_obstacle():
        raise MissingError(f"time-stamp request not written: {obstacle}")
    check_output_target("--query", file, [bundle])
    digest = require_intact_bundle(bundle).digest
    with convert_write_errors(file), replace_atomically(file) as partial:
        done = run_openssl_ts(
            ["-query", "-digest", digest.hex(), "-sha256", "-cert", "-out", str(partial)]
        )
        if done.returncode:
            raise RequestError(
                f"{file}: time-stamp request not written: {find_last_output_line(done.stderr)}"
            )
    return file


def attach_time_stamp(bundle: Path, reply: Path, authorities: Path) -> TimeStamp:
    """Append an authority's reply after a bundle's seal, once verified; `authorities` are
    certificates in PEM.

    JudgedError for a damaged bundle, or a reply that is not for this bundle or not from one of
    these authorities.
    """
    verifier = OpensslVerifier()
    if obstacle := verifier.describe_obstacle():
        raise MissingError(f"time stamp not added: {obstacle}")
    found = require_intact_bundle(bundle)
    content = untrusted_files.read_untrusted_file(reply, bytes, MAX_FRAME_CONTENT_BYTES)
    stamp = verifier.verify_time_stamp(content, found.digest, authorities)
    if any(frame.content == content for frame in found.frames):
        raise RequestError(f"{bundle}: already contains this time stamp")
    with convert_write_errors(bundle):
        append_trailer_frame(bundle, TrailerFrame(kind=FrameKind.TIME, content=content))
    return stamp
