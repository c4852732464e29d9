"""The text form of an SSH signature, and the public key in it.

Sources: OpenSSH's PROTOCOL.sshsig (the armour, the fields of the blob) and RFC 4251, section 5
(length-prefixed strings).
ssh-keygen also accepts other encodings of the same signature; a bundle may only contain the one
that ssh-keygen writes, so that no bit
of it can change unnoticed.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from suite.errors import JudgedError

BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"
END: Final = b"-----END SSH SIGNATURE-----\n"
COLUMNS: Final = 70
"""Characters per line. Source: OpenSSH, sshbuf_dtob64 with wrapping."""
MAGIC: Final = b"SSHSIG"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSignature:
    """A signature as stored in a bundle."""

    text: bytes
    key: bytes
    """The public key, or the certificate, in SSH wire format."""
    namespace: str
    """Purpose of the signature."""


def armoured(blob: bytes) -> bytes:
    """Return the only valid text of a signature's bytes."""
    letters = base64.b64encode(blob)
    lines = [letters[place : place + COLUMNS] for place in range(0, len(letters), COLUMNS)]
    return BEGIN + b"\n".join(lines) + b"\n" + END


def read(text: bytes) -> SshSignature:
    """Parse a signature; JudgedError if it is invalid, or not encoded as ssh-keygen does."""
    if not text.startswith(BEGIN) or not text.endswith(END):
        raise JudgedError("its signature is no SSH signature")
    try:
        blob = base64.b64decode(text[len(BEGIN) : -len(END)].replace(b"\n", b""), validate=True)
    except binascii.Error as error:
        raise JudgedError("its signature is no SSH signature") from error
    if armoured(blob) != text:
        raise JudgedError("its signature is not written as ssh-keygen writes it")
    return fields(blob, text)


def fields(blob: bytes, text: bytes) -> SshSignature:
    """Parse a signature's bytes; JudgedError if they are not version 1."""
    head = MAGIC + VERSION.to_bytes(4, "big")
    key, rest = string(blob[len(head) :])
    namespace, rest = string(rest)
    reserved, rest = string(rest)
    _, rest = string(rest)  # the hash algorithm's name, which the inner signature contains too
    _, rest = string(rest)
    if not blob.startswith(head) or reserved or rest:
        raise JudgedError("its signature is not written as ssh-keygen writes it")
    return SshSignature(text=text, key=key, namespace=namespace.decode("utf-8", "replace"))


def string(rest: bytes) -> tuple[bytes, bytes]:
    """Take a length-prefixed string from the front of some bytes; JudgedError if they are too
    short.
    """
    end = 4 + int.from_bytes(rest[:4], "big")
    if len(rest) < max(end, 4):
        raise JudgedError("its signature is cut short")
    return rest[4:end], rest[end:]
