"""The text of an SSH signature, and the public key in it.

Sources: OpenSSH's PROTOCOL.sshsig (the armour, the fields of the blob) and RFC 4251, section 5 (strings with a length before them).
ssh-keygen also takes other spellings of the same signature; a bundle may only have the one that ssh-keygen writes, so that no bit of
it can change unseen.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from suite.errors import JudgedError

BEGIN: Final = b"-----BEGIN SSH SIGNATURE-----\n"
END: Final = b"-----END SSH SIGNATURE-----\n"
COLUMNS: Final = 70
"""Letters of a line. Source: OpenSSH, sshbuf_dtob64 with wrapping."""
MAGIC: Final = b"SSHSIG"
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSignature:
    """A signature as it stands in a bundle."""

    text: bytes
    key: bytes
    """The public key, or the certificate, as SSH writes it on the wire."""
    namespace: str
    """What the signature is for."""


def armoured(blob: bytes) -> bytes:
    """Return the one text of a signature's bytes."""
    letters = base64.b64encode(blob)
    lines = [letters[place : place + COLUMNS] for place in range(0, len(letters), COLUMNS)]
    return BEGIN + b"\n".join(lines) + b"\n" + END


def read(text: bytes) -> SshSignature:
    """Read a signature; JudgedError if it is none, or is spelled in another way than ssh-keygen's."""
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
    """Take a signature's bytes apart; JudgedError if they are not those of version 1."""
    head = MAGIC + VERSION.to_bytes(4, "big")
    key, rest = string(blob[len(head) :])
    namespace, rest = string(rest)
    reserved, rest = string(rest)
    _, rest = string(rest)  # the hash's name, which the signature itself holds
    _, rest = string(rest)
    if not blob.startswith(head) or reserved or rest:
        raise JudgedError("its signature is not written as ssh-keygen writes it")
    return SshSignature(text=text, key=key, namespace=namespace.decode("utf-8", "replace"))


def string(rest: bytes) -> tuple[bytes, bytes]:
    """Take the string that bytes begin with; JudgedError if they are too few."""
    end = 4 + int.from_bytes(rest[:4], "big")
    if len(rest) < max(end, 4):
        raise JudgedError("its signature is cut short")
    return rest[4:end], rest[end:]
