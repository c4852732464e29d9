"""`podium sign`: checks the bundle, has ssh-keygen sign a statement of the findings, and appends
the signature after the seal.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compliance.bundle import trailer
from compliance.bundle.trailer import BundleTrailer, FrameKind, TrailerFrame
from submissions import compliance_check
from submissions.pack.bundle import list_packed_bundle_problems
from submissions.pack.seal import read_bundle_manifest
from submissions.signatures import armor, bundled, ssh_keygen, statement, time_stamps
from submissions.signatures.bundled import SignedStatement
from submissions.signatures.ssh_keygen import SignatureStatus, TrustedSigners
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import DISK_FULL_ERRORS, replace_atomically


def sign_bundle(bundle: Path, key: Path, claimed: str | None, detached: bool) -> Path:
    """Sign a bundle that the judge accepts, and return the file that contains the signature.

    `claimed` is the signer's claimed identity, a principal of ssh-keygen's ALLOWED SIGNERS.
    JudgedError for a damaged or invalid bundle, MissingError without ssh-keygen or if the disk is
    full, RequestError for a key that cannot sign, or has signed already.
    """
    if not ssh_keygen.is_keygen_installed():
        raise MissingError(f"cannot sign: {ssh_keygen.KEYGEN_MISSING}")
    if claimed is not None and (
        not claimed.isprintable() or not claimed or set(claimed) & set(" \t,*?!")
    ):
        raise RequestError(
            f"--as {claimed!r}: not a valid signer name; give one word without blanks, commas or "
            "wildcards, as in bench@lab.example"
        )
    found = require_intact_bundle(bundle)
    text = statement.encode_statement(
        statement.build_statement(
            bundle.name,
            found.digest,
            read_bundle_manifest(bundle),
            compliance_check.judge_path(bundle),
            claimed,
        )
    )
    signed_statement = SignedStatement(text=text, signature=ssh_keygen.sign_bytes(key, text))
    check_not_signed_twice(bundle, found, signed_statement, key)
    with convert_write_errors(bundle):
        if detached:
            return write_detached_signature(bundle, signed_statement)
        return append_trailer_frame(
            bundle,
            TrailerFrame(kind=FrameKind.SIGNATURE, content=signed_statement.frame_content),
        )


def require_intact_bundle(bundle: Path) -> BundleTrailer:
    """Return the data after the seal of a bundle that the judge accepts; otherwise raise
    JudgedError with the sentences of `podium verify`.
    """
    problems = list_packed_bundle_problems(bundle)
    if not problems:
        found = trailer.read_bundle_trailer(bundle)
        problems = [
            each.sentence
            for each in bundled.verify_bundle_signatures(bundle, found, TrustedSigners())
            if each.standing is SignatureStatus.BAD
        ]
        problems += time_stamps.find_time_stamp_problems(found)
    if problems:
        raise JudgedError(
            "\n  ".join([f"{bundle}: broken, so nothing was added to it:", *problems])
        )
    return found


def check_not_signed_twice(
    bundle: Path, found: BundleTrailer, made: SignedStatement, key: Path
) -> None:
    """Raise RequestError if this key has already signed this bundle."""
    mine = armor.parse_ssh_signature(made.signature).key
    for each in bundled.iterate_bundle_signatures(bundle, found):
        try:
            other = armor.parse_ssh_signature(each.signature).key
        except JudgedError as error:
            raise JudgedError(f"{bundle}: contains an invalid signature: {error}") from error
        if other == mine:
            raise RequestError(f"{bundle}: already signed with key {key}")


def append_trailer_frame(bundle: Path, frame: TrailerFrame) -> Path:
    """Append a frame to a bundle, by means of a copy that replaces it when complete. RequestError
    if the bundle has no room for it.
    """
    if len(trailer.read_bundle_trailer(bundle).frames) >= trailer.MAX_TRAILER_FRAMES:
        raise RequestError(
            f"{bundle}: already contains {trailer.MAX_TRAILER_FRAMES} signatures and time stamps, "
            "which is the maximum"
        )
    if len(frame.content) > trailer.MAX_FRAME_CONTENT_BYTES:
        raise RequestError(
            f"{bundle}: a signature or time stamp of {len(frame.content)} bytes; at most"
            f" {trailer.MAX_FRAME_CONTENT_BYTES} may follow the seal"
        )
    file = bundle.resolve()
    with replace_atomically(file) as partial:
        shutil.copyfile(file, partial)
        shutil.copymode(file, partial)
        with partial.open("ab") as stream:
            stream.write(frame.encode_frame())
    return bundle


def write_detached_signature(bundle: Path, made: SignedStatement) -> Path:
    """Write a detached statement and its signature; RequestError if one exists already."""
    text, signature = bundled.build_detached_paths(bundle)
    if text.exists() or signature.exists():
        raise RequestError(
            f"{text}: a detached statement already exists; without --detached, a bundle can "
            f"contain {trailer.MAX_TRAILER_FRAMES} signatures"
        )
    for path, content in ((text, made.text), (signature, made.signature)):
        with replace_atomically(path) as partial:
            partial.write_bytes(content)
    return signature


@contextmanager
def convert_write_errors(bundle: Path) -> Iterator[None]:
    """Convert OS errors to podium's: MissingError for a full disk, RequestError if writing is not
    permitted.
    """
    try:
        yield
    except OSError as error:
        sentence = f"{bundle}: nothing was added to it: {error.strerror or error}"
        raise (MissingError if error.errno in DISK_FULL_ERRORS else RequestError)(
            sentence
        ) from error
