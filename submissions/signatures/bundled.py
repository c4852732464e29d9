"""The signatures of one bundle: those behind its seal, and a detached one beside it."""

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
"""Behind a bundle's name: a detached statement, and its signature as `ssh-keygen -Y sign` names it."""
LIMIT: Final = trailer.FRAME_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A statement's bytes and what stands behind them as their signature."""

    text: bytes
    signature: bytes

    @property
    def content(self) -> bytes:
        """What a frame of it holds."""
        return self.text + self.signature


def split(content: bytes) -> Signed:
    """Take a frame's statement and signature apart."""
    text, begin, rest = content.partition(armor.BEGIN)
    return Signed(text=text, signature=begin + rest)


def signed(bundle: Path, found: Trailer) -> Iterator[Signed]:
    """Yield the signatures of a bundle, the detached one last; UnreadableError if half of that is missing."""
    yield from (split(frame.content) for frame in found.frames if frame.kind is Kind.SIGNATURE)
    text, signature = detached(bundle)
    if text.is_file() or signature.is_file():
        yield Signed(text=untrusted_files.read(text, bytes, LIMIT), signature=untrusted_files.read(signature, bytes, LIMIT))


def detached(bundle: Path) -> tuple[Path, Path]:
    """Say where a bundle's detached statement and signature lie."""
    return bundle.with_name(bundle.name + STATEMENT_SUFFIX), bundle.with_name(bundle.name + SIGNATURE_SUFFIX)


def signature_of(each: Signed, digest: bytes) -> tuple[SshSignature, str | None]:
    """Read one signature of the bundle with this seal, and whom the signer says to be; JudgedError if it is none of this bundle."""
    found = statement.read(each.text, digest)
    return armor.read(each.signature), found.claimed


def checked(bundle: Path, found: Trailer, signers: Signers) -> Iterator[Checked]:
    """Say of each signature of a bundle whose it is, or what is wrong with it."""
    try:
        for each in signed(bundle, found):
            yield whose(each, found.digest, signers)
    except UnreadableError as error:  # half of a detached signature
        yield ssh_keygen.bad(str(error))


def whose(each: Signed, digest: bytes, signers: Signers) -> Checked:
    """Say of one signature whose it is, or what is wrong with it."""
    try:
        signature, claimed = signature_of(each, digest)
    except JudgedError as error:
        return ssh_keygen.bad(str(error))
    return ssh_keygen.check(signature, each.text, signers, claimed)
