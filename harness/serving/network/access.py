"""TLS and tokens: read from files, never from arguments; a token never travels in the clear to
another machine.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from harness.serving.network.wire import Endpoint, is_loopback_host
from suite.errors import RequestError
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

TOKEN_HEADER: Final = "authorization"
MAX_TOKEN_LENGTH: Final = 4096
"""House rule: of common servers, header fields end at 8 KiB."""

MAX_CREDENTIAL_BYTES: Final = 1 << 20
"""Size limit in bytes of a file with a token, a key or certificates; the 150 certificates that a
system trusts have 220,000.
"""
MISMATCH_REASONS: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
"""OpenSSL's words for a key that belongs to another certificate. Source: openssl/x509err.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """How a client proves who it is, and who it trusts."""

    ca: bytes | None = None
    """PEM: certificates that are trusted instead of the system's."""
    token: str = field(default="", repr=False)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the header of each call."""
        return ((TOKEN_HEADER, f"Bearer {self.token}"),) if self.token else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCredentials:
    """How a server proves who it is, and whom it lets in."""

    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)


def read_option_file(option: str, path: Path) -> bytes:
    """Read a file of an option; RequestError if that fails, or if it is none or too large."""
    try:
        return read_untrusted_file(path, bytes, MAX_CREDENTIAL_BYTES)
    except UnreadableError as error:
        raise RequestError(f"{option} {path}: {error.reason}") from error


def read_token_file(path: Path | None) -> str:
    """Read the token, the file's only line; RequestError if it is none."""
    if path is None:
        return ""
    data = read_option_file("--token-file", path).strip()
    if not data or len(data) > MAX_TOKEN_LENGTH or not all(0x21 <= byte <= 0x7E for byte in data):
        raise RequestError(
            f"--token-file {path}: one line of up to {MAX_TOKEN_LENGTH:,} printable ASCII"
            " characters without spaces is wanted"
        )
    return data.decode("ascii")


def read_client_credentials(
    endpoints: tuple[Endpoint, ...], ca: Path | None, token_file: Path | None
) -> ClientCredentials:
    """Read a client's files; RequestError where a token would travel in the clear, or nobody would
    look at the certificates.
    """
    token = read_token_file(token_file)
    plain_endpoints = [endpoint.url for endpoint in endpoints if not endpoint.tls]
    exposed = [
        endpoint.url
        for endpoint in endpoints
        if not endpoint.tls and not is_loopback_host(endpoint.host)
    ]
    if token and exposed:
        raise RequestError(
            f"--token-file: the token would travel in the clear to {exposed[0]}; use"
            f" {endpoints[0].scheme}s://"
        )
    if ca and len(plain_endpoints) == len(endpoints):
        raise RequestError(f"--ca: no endpoint uses TLS; write {endpoints[0].scheme}s://HOST:PORT")
    return ClientCredentials(ca=read_option_file("--ca", ca) if ca else None, token=token)


def read_server_credentials(
    listen: Endpoint, certificate: Path | None, key: Path | None, token_file: Path | None
) -> ServerCredentials:
    """Read a server's files; RequestError where one of two is missing or a token would travel in
    the clear.
    """
    if (certificate is None) != (key is None):
        raise RequestError("--tls-cert and --tls-key belong together")
    token = read_token_file(token_file)
    if token and not certificate and not is_loopback_host(listen.host):
        raise RequestError(
            f"--token-file: on {listen.target}, tokens would travel in the clear; give --tls-cert"
            " and --tls-key too"
        )
    if not token and not is_loopback_host(listen.host):
        click.echo(
            f"podium: anybody who reaches {listen.target} may send requests; --token-file with"
            " --tls-cert and --tls-key lets in only those who have the token",
            err=True,
        )
    if certificate is None or key is None:
        return ServerCredentials(token=token)
    found = ServerCredentials(
        certificate=read_option_file("--tls-cert", certificate),
        key=read_option_file("--tls-key", key),
        token=token,
    )
    check_key_pair(found, f"--tls-cert {certificate}, --tls-key {key}")
    return found


def check_key_pair(guard: ServerCredentials, options: str) -> None:
    """RequestError for a certificate or a key that is none, and for two that do not belong
    together.
    """
    try:
        load_key_pair(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), guard)
    except ssl.SSLError as error:
        if error.reason in MISMATCH_REASONS:
            problem = "certificate and key do not belong together"
        else:
            problem = "a certificate and a key in PEM form, without a password, are wanted"
        raise RequestError(f"{options}: {problem}") from error


def load_key_pair(context: ssl.SSLContext, guard: ServerCredentials) -> None:
    """Load a server's certificate and key; ssl.SSLError if that fails."""
    with create_temporary_folder() as folder:  # ssl reads files alone; only this user may enter it
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        certificate.write_bytes(guard.certificate or b"")
        key.write_bytes(guard.key or b"")
        context.load_cert_chain(certificate, key, password=lambda: "")  # it would ask for one
