"""A time-stamping authority of its own, by the openssl command."""

import subprocess
from pathlib import Path

SETTINGS = """
[req]
distinguished_name = name
prompt = no
x509_extensions = stamping
[name]
CN = Test authority
[stamping]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
tsa = yes
tsa_name = yes
"""


class Authority:
    """A time-stamping authority of RFC 3161 with a certificate of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.certificate = folder, folder / "ca.pem"
        (folder / "settings").write_text(SETTINGS.format(folder=folder))
        (folder / "serial").write_text("01\n")
        self.call(
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "ca.pem",
            "-config",
            "settings",
        )

    def call(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def reply(self, query: Path) -> Path:
        signer = ("-signer", "ca.pem", "-inkey", "key.pem")
        self.call(
            "ts",
            "-reply",
            "-queryfile",
            str(query.resolve()),
            *signer,
            "-config",
            "settings",
            "-section",
            "here",
            "-out",
            f"{query.name}.tsr",
        )
        return self.folder / f"{query.name}.tsr"
