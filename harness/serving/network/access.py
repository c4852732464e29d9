"""TLS and tokens: read from files, never from arguments; a token never travels in the clear to
another machine.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.serving.network.wire import Endpoint, is_loopback
from suite.errors import RequestError

HEADER: Final = "authorization"
LONGEST_TOKEN: Final = 4096
"""House rule: of common servers, header fields end at 8 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a client proves who it is, and who it trusts."""

    ca: bytes | None = None
    """PEM: certificates that are trusted instead of the system's."""
    token: str = field(default="", repr=False)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the header of each call."""
        return ((HEADER, f"Bearer {self.token}"),) if self.token else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How a server proves who it is, and whom it lets in."""

    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)


def content(option: str, path: Path) -> bytes:
    """Read a file of an option; RequestError if that fails."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(f"{option} {path}: {error.strerror}") from error


def token_in(path: Path | None) -> str:
    """Read the token, the file's only line; RequestError if it is none."""
    if path is None:
        return ""
    data = content("--token-file", path).strip()
    if not data or len(data) > LONGEST_TOKEN or not all(0x21 <= byte <= 0x7E for byte in data):
        raise RequestError(
            f"--token-file {path}: one line of up to {LONGEST_TOKEN:,} printable ASCII characters"
            " without spaces is wanted"
        )
    return data.decode("ascii")


def access(endpoints: tuple[Endpoint, ...], ca: Path | None, token_file: Path | None) -> Access:
    """Read a client's files; RequestError where a token would travel in the clear, or nobody would
    look at the certificates.
    """
    token = token_in(token_file)
    open_ones = [endpoint.url for endpoint in endpoints if not endpoint.tls]
    exposed = [
        endpoint.url
        for endpoint in endpoints
        if not endpoint.tls and not is_loopback(endpoint.host)
    ]
    if token and exposed:
        raise RequestError(
            f"--token-file: the token would travel in the clear to {exposed[0]}; use grpcs://"
        )
    if ca and len(open_ones) == len(endpoints):
        raise RequestError("--ca: no endpoint uses TLS; write grpcs://HOST:PORT")
    return Access(ca=content("--ca", ca) if ca else None, token=token)


def guard(
    listen: Endpoint, certificate: Path | None, key: Path | None, token_file: Path | None
) -> Guard:
    """Read a server's files; RequestError where one of two is missing or a token would travel in
    the clear.
    """
    if (certificate is None) != (key is None):
        raise RequestError("--tls-cert and --tls-key belong together")
    token = token_in(token_file)
    if token and not certificate and not is_loopback(listen.host):
        raise RequestError(
            f"--token-file: on {listen.target}, tokens would travel in the clear; give --tls-cert"
            " and --tls-key too"
        )
    if certificate is None or key is None:
        return Guard(token=token)
    return Guard(
        certificate=content("--tls-cert", certificate), key=content("--tls-key", key), token=token
    )
