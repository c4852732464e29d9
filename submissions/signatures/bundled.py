"""The signatures of one bundle: those after its seal, and a detached one next to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.trailer import Kind, Trailer
from submissions.signatures import armor, ssh_keygen, statement
from submissions.signatures.armor import SshSignature
from submissions.signatures.ssh_keygen import Checked, Signers
from suite.errors import JudgedError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError

STATEMENT_SUFFIX, SIGNATURE_SUFFIX = ".statement.json", ".statement.json.sig"
"""Suffixes of a bundle's detached statement, and of its signature as `ssh-keygen -Y sign` names
it.
"""
LIMIT: Final = trailer.FRAME_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A statement's bytes and their presumed signature."""

    text: bytes
    signature: bytes

    @property
    def content(self) -> bytes:
        """Content of its frame."""
        return self.text + self.signature


def split(content: bytes) -> Signed:
    """Split a frame into statement and signature."""
    text, begin, rest = content.partition(armor.BEGIN)
    return Signed(text=text, signature=begin + rest)


def signed(bundle: Path, found: Trailer) -> Iterator[Signed]:
    """Yield the signatures of a bundle, the detached one last; UnreadableError if one of its two
    files is missing.
    """
    yield from (split(frame.content) for frame in found.frames if frame.kind is Kind.SIGNATURE)
    text, signature = detached(bundle)
    if text.is_file() or signature.is_file():
        yield Signed(
            text=untrusted_files.read(text, bytes, LIMIT),
            signature=untrusted_files.read(signature, bytes, LIMIT),
        )


def detached(bundle: Path) -> tuple[Path, Path]:
    """Return the paths of a bundle's detached statement and signature."""
    return bundle.with_name(bundle.name + STATEMENT_SUFFIX), bundle.with_name(
        bundle.name + SIGNATURE_SUFFIX
    )


def signature_of(each: Signed, digest: bytes) -> tuple[SshSignature, str | None]:
    """Parse one signature of the bundle with this seal, and the claimed signer; JudgedError if it
    does not belong to this bundle.
    """
    found = statement.read(each.text, digest)
    return armor.read(each.signature), found.claimed


def checked(bundle: Path, found: Trailer, signers: Signers) -> Iterator[Checked]:
    """Check each signature of a bundle: whose it is, or what is wrong with it."""
    before: set[bytes] = set()
    try:
        for each in signed(bundle, found):
            yield (
                ssh_keygen.bad("holds the same signature twice")
                if each.content in before
                else whose(each, found.digest, signers)
            )
            before.add(each.content)
    except UnreadableError as error:  # one of the detached signature's two files is missing
        yield ssh_keygen.bad(str(error))


def whose(each: Signed, digest: bytes, signers: Signers) -> Checked:
    """Check one signature: whose it is, or what is wrong with it."""
    try:
        signature, claimed = signature_of(each, digest)
    except JudgedError as error:
        return ssh_keygen.bad(str(error))
    return ssh_keygen.check(signature, each.text, signers, claimed)
