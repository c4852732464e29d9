"""`podium timestamp`: asks an authority for a time stamp of a bundle's seal, and puts its reply
behind the seal. Works without a network.
"""

from pathlib import Path

from compliance.bundle.trailer import FRAME_LIMIT, Frame, Kind
from submissions.output_file import refuse_target
from submissions.signatures.signing import append, told_of, whole
from submissions.signatures.time_stamps import LACKING, Stamp, available, checked, last_line, run
from suite.errors import MissingError, RequestError
from suite.files import untrusted_files
from suite.files.layout import written


def query(bundle: Path, file: Path) -> Path:
    """Write the request for any authority; JudgedError for a damaged bundle, MissingError without
    openssl.
    """
    if not available():
        raise MissingError(f"no request for a time stamp: {LACKING}")
    refuse_target("--query", file, [bundle])
    digest = whole(bundle).digest
    with told_of(file), written(file) as partial:
        done = run(["-query", "-digest", digest.hex(), "-sha256", "-cert", "-out", str(partial)])
        if done.returncode:
            raise RequestError(f"{file}: no request for a time stamp: {last_line(done.stderr)}")
    return file


def attach(bundle: Path, reply: Path, authorities: Path) -> Stamp:
    """Append an authority's reply after a bundle's seal, once verified; `authorities` are
    certificates in PEM.

    JudgedError for a damaged bundle, or a reply that is not for this bundle or not from one of
    these authorities.
    """
    if not available():
        raise MissingError(f"no time stamp: {LACKING}")
    found = whole(bundle)
    content = untrusted_files.read(reply, bytes, FRAME_LIMIT)
    stamp = checked(content, found.digest, authorities)
    if any(frame.content == content for frame in found.frames):
        raise RequestError(f"{bundle}: holds this time stamp already")
    with told_of(bundle):
        append(bundle, Frame(kind=Kind.TIME, content=content))
    return stamp
