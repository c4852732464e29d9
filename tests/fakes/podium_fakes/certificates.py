"""Certificates for servers of tests, by the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Of a server at 127.0.0.1 and localhost, and of the authority that vouches for it."""

    authority: Path
    certificate: Path
    key: Path
    stranger: Path
    """An authority that vouches for nothing here."""


def openssl(*words: object) -> None:
    """Run the command."""
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def authority(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate authority."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        2,
        "-keyout",
        key,
        "-out",
        certificate,
        "-subj",
        f"/CN={name}",
    )
    return key, certificate


def made(folder: Path) -> Certificates:
    """Make an authority, a stranger, and a server's certificate."""
    (ca_key, ca), (_, stranger) = authority(folder, "authority"), authority(folder, "stranger")
    key, request, certificate, names = (
        folder / "server.key",
        folder / "server.csr",
        folder / "server.pem",
        folder / "names",
    )
    names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        key,
        "-out",
        request,
        "-subj",
        "/CN=localhost",
    )
    openssl(
        "x509",
        "-req",
        "-in",
        request,
        "-CA",
        ca,
        "-CAkey",
        ca_key,
        "-CAcreateserial",
        "-days",
        2,
        "-extfile",
        names,
        "-out",
        certificate,
    )
    return Certificates(authority=ca, certificate=certificate, key=key, stranger=stranger)
