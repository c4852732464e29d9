"""The signatures of one bundle: those after its seal, and a detached one next to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.trailer import BundleTrailer, FrameKind
from submissions.signatures import armor, ssh_keygen, statement
from submissions.signatures.armor import SshSignature
from submissions.signatures.ssh_keygen import SignatureCheck, TrustedSigners
from suite.errors import JudgedError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError

STATEMENT_SUFFIX, SIGNATURE_SUFFIX = ".statement.json", ".statement.json.sig"
"""Suffixes of a bundle's detached statement, and of its signature as `ssh-keygen -Y sign` names
it.
"""
MAX_DETACHED_BYTES: Final = trailer.MAX_FRAME_CONTENT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedStatement:
    """The bytes of a statement and its claimed signature."""

    text: bytes
    signature: bytes

    @property
    def frame_content(self) -> bytes:
        """The content of its frame."""
        return self.text + self.signature


def split_signature_frame(content: bytes) -> SignedStatement:
    """Split a frame into statement and signature."""
    text, begin, rest = content.partition(armor.ARMOUR_BEGIN)
    return SignedStatement(text=text, signature=begin + rest)


def iterate_bundle_signatures(bundle: Path, found: BundleTrailer) -> Iterator[SignedStatement]:
    """Yield the signatures of a bundle, the detached one last; UnreadableError if one of its two
    files is missing.
    """
    yield from (
        split_signature_frame(frame.content)
        for frame in found.frames
        if frame.kind is FrameKind.SIGNATURE
    )
    text, signature = build_detached_paths(bundle)
    if text.is_file() or signature.is_file():
        yield SignedStatement(
            text=untrusted_files.read_untrusted_file(text, bytes, MAX_DETACHED_BYTES),
            signature=untrusted_files.read_untrusted_file(signature, bytes, MAX_DETACHED_BYTES),
        )


def build_detached_paths(bundle: Path) -> tuple[Path, Path]:
    """Return the paths of a bundle's detached statement and signature."""
    return bundle.with_name(bundle.name + STATEMENT_SUFFIX), bundle.with_name(
        bundle.name + SIGNATURE_SUFFIX
    )


def parse_bundle_signature(each: SignedStatement, digest: bytes) -> tuple[SshSignature, str | None]:
    """Parse one signature of the bundle with this seal, and the claimed signer; JudgedError if it
    does not belong to this bundle.
    """
    found = statement.parse_statement(each.text, digest)
    return armor.parse_ssh_signature(each.signature), found.claimed_signer


def verify_bundle_signatures(
    bundle: Path, found: BundleTrailer, signers: TrustedSigners
) -> Iterator[SignatureCheck]:
    """Check each signature of a bundle: who signed, or what is wrong."""
    checked_contents: set[bytes] = set()
    try:
        for each in iterate_bundle_signatures(bundle, found):
            if each.frame_content in checked_contents:
                yield ssh_keygen.build_bad_signature("contains the same signature twice")
            else:
                yield verify_signed_statement(each, found.digest, signers)
            checked_contents.add(each.frame_content)
    except UnreadableError as error:  # one of the detached signature's two files is missing
        yield ssh_keygen.build_bad_signature(str(error))


def verify_signed_statement(
    each: SignedStatement, digest: bytes, signers: TrustedSigners
) -> SignatureCheck:
    """Check one signature: who signed, or what is wrong."""
    try:
        signature, claimed = parse_bundle_signature(each, digest)
    except JudgedError as error:
        return ssh_keygen.build_bad_signature(str(error))
    return ssh_keygen.verify_ssh_signature(signature, each.text, signers, claimed)
