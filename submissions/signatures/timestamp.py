"""`podium timestamp`: writes the request for a time stamp of a bundle's seal, and appends an
authority's reply after the seal. Needs no network.
"""

from pathlib import Path

from compliance.bundle.trailer import MAX_FRAME_CONTENT_BYTES, FrameKind, TrailerFrame
from submissions.output_file import check_output_target
from submissions.signatures.signing import (
    append_trailer_frame,
    convert_write_errors,
    require_intact_bundle,
)
from submissions.signatures.time_stamps import (
    OPENSSL_MISSING,
    TimeStamp,
    find_last_output_line,
    is_openssl_installed,
    run_openssl_ts,
    verify_time_stamp,
)
from suite.errors import MissingError, RequestError
from suite.files import untrusted_files
from suite.files.layout import replace_atomically


def write_time_stamp_request(bundle: Path, file: Path) -> Path:
    """Write the request for any authority; JudgedError for a damaged bundle, MissingError without
    openssl.
    """
    if not is_openssl_installed():
        raise MissingError(f"time-stamp request not written: {OPENSSL_MISSING}")
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
    if not is_openssl_installed():
        raise MissingError(f"time stamp not added: {OPENSSL_MISSING}")
    found = require_intact_bundle(bundle)
    content = untrusted_files.read_untrusted_file(reply, bytes, MAX_FRAME_CONTENT_BYTES)
    stamp = verify_time_stamp(content, found.digest, authorities)
    if any(frame.content == content for frame in found.frames):
        raise RequestError(f"{bundle}: already contains this time stamp")
    with convert_write_errors(bundle):
        append_trailer_frame(bundle, TrailerFrame(kind=FrameKind.TIME, content=content))
    return stamp
