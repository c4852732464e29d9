"""The text form of an SSH signature, and the public key in it.

Sources: OpenSSH's PROTOCOL.sshsig (the armour, the fields of the blob) and RFC 4251, section 5
(length-prefixed strings). ssh-keygen also accepts other encodings of the same signature; a bundle
may only contain the one that ssh-keygen writes, so that no bit of it can change unnoticed.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from suite.errors import JudgedError

ARMOUR_BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"
ARMOUR_END: Final = b"-----END SSH SIGNATURE-----\n"
ARMOUR_COLUMNS: Final = 70
"""Characters per line. Source: OpenSSH, sshbuf_dtob64 with wrapping."""
SSHSIG_MAGIC: Final = b"SSHSIG"
SSHSIG_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSignature:
    """A signature as stored in a bundle."""

    text: bytes
    key: bytes
    """The public key, or the certificate, in SSH wire format."""
    namespace: str
    """Purpose of the signature."""


def encode_armour(blob: bytes) -> bytes:
    """Return the only valid text of a signature's bytes."""
    letters = base64.b64encode(blob)
    lines = [
        letters[offset : offset + ARMOUR_COLUMNS]
        for offset in range(0, len(letters), ARMOUR_COLUMNS)
    ]
    return ARMOUR_BEGIN + b"\n".join(lines) + b"\n" + ARMOUR_END


def parse_ssh_signature(text: bytes) -> SshSignature:
    """Parse a signature; JudgedError if it is invalid, or not encoded as ssh-keygen does."""
    if not text.startswith(ARMOUR_BEGIN) or not text.endswith(ARMOUR_END):
        raise JudgedError("its signature is not an SSH signature")
    try:
        blob = base64.b64decode(
            text[len(ARMOUR_BEGIN) : -len(ARMOUR_END)].replace(b"\n", b""), validate=True
        )
    except binascii.Error as error:
        raise JudgedError("its signature is not an SSH signature") from error
    if encode_armour(blob) != text:
        raise JudgedError("its signature is not in the form that ssh-keygen writes")
    return parse_signature_blob(blob, text)


def parse_signature_blob(blob: bytes, text: bytes) -> SshSignature:
    """Parse a signature's bytes; JudgedError if they are not version 1."""
    head = SSHSIG_MAGIC + SSHSIG_VERSION.to_bytes(4, "big")
    key, rest = split_ssh_string(blob[len(head) :])
    namespace, rest = split_ssh_string(rest)
    reserved, rest = split_ssh_string(rest)
    # the hash algorithm's name, which the inner signature contains too
    _, rest = split_ssh_string(rest)
    _, rest = split_ssh_string(rest)
    if not blob.startswith(head) or reserved or rest:
        raise JudgedError("its signature is not in the form that ssh-keygen writes")
    return SshSignature(text=text, key=key, namespace=namespace.decode("utf-8", "replace"))


def split_ssh_string(rest: bytes) -> tuple[bytes, bytes]:
    """Take a length-prefixed string from the front of some bytes; JudgedError if they are too
    short.
    """
    end = 4 + int.from_bytes(rest[:4], "big")
    if len(rest) < max(end, 4):
        raise JudgedError("its signature is cut short")
    return rest[4:end], rest[end:]
