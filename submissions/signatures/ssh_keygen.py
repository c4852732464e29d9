"""Runs ssh-keygen, which signs with a key that podium never reads, and verifies signatures. Source:
ssh-keygen(1), option -Y.
"""

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from submissions.signatures.armor import SshSignature
from suite.errors import MissingError, RequestError
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import replace_unprintable

SIGNATURE_NAMESPACE: Final = "podium-bundle"
"""Namespace of podium's signatures: one made for git or for files is rejected."""
KEYGEN_PROGRAM: Final = "ssh-keygen"
KEYGEN_MISSING: Final = (
    f"{KEYGEN_PROGRAM} is not installed (OpenSSH 8.9 or newer; Debian's package openssh-client)"
)
KEYGEN_TIMEOUT_S: Final = 60
"""Time limit in seconds for ssh-keygen without a terminal; a hardware key waits 30 s for its
button. Source: podium.
"""
GOOD_SIGNATURE_PATTERN: Final = re.compile(r'Good "[^"]*" signature .*?with (\S+) key (SHA256:\S+)')
"""Output of ssh-keygen for a matching signature, with key type and fingerprint."""
UNUSABLE_KEY_PATTERN: Final = re.compile(r"^.*?:\d+: ((?:key|certificate) [^\r\n]*)", re.MULTILINE)
"""Output for an unusable line of the signers file: wrong namespace or time, and a certificate that
is expired or another signer's.
"""

OPEN_KEY_WARNING: Final = "are too open"
"""Printed for a private key that others may read; the following lines say only that there is no
key.
"""


class SignatureStatus(StrEnum):
    """Status of a signature."""

    GOOD = "good"
    """It matches, and the signers file lists its key for this purpose and time."""
    UNKNOWN = "unknown"
    """It matches, but the owner of the key is unknown."""
    UNCHECKED = "unchecked"
    """Not checked, because ssh-keygen is not installed."""
    BAD = "bad"
    """It does not match, or its key may not be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedSigners:
    """Trusted signers: files in ssh-keygen's own formats, ALLOWED SIGNERS and KEY REVOCATION LISTS
    of ssh-keygen(1).
    """

    allowed: Path | None = None
    revoked: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureCheck:
    """Result of checking one signature."""

    standing: SignatureStatus
    sentence: str
    signer: str | None = None
    key: str | None = None
    """Key type and fingerprint."""


def is_keygen_installed() -> bool:
    """Return whether ssh-keygen is installed."""
    return shutil.which(KEYGEN_PROGRAM) is not None


def run_keygen(
    arguments: Sequence[str], data: bytes, *, is_interactive: bool = False
) -> "subprocess.CompletedProcess[bytes]":
    """Run ssh-keygen. Without an interactive terminal it cannot ask for a passphrase, and does not
    wait for one.
    """
    quiet = {**os.environ, "LC_ALL": "C"}
    if not is_interactive:
        quiet |= {"SSH_ASKPASS_REQUIRE": "never"}
    wait = None
    if not is_interactive:
        wait = KEYGEN_TIMEOUT_S
    return subprocess.run(
        [KEYGEN_PROGRAM, *arguments],
        input=data,
        capture_output=True,
        env=quiet,
        start_new_session=not is_interactive,
        timeout=wait,
        check=False,
    )


def is_at_terminal() -> bool:
    """Return whether a user is at the terminal: a background job that prompts would be stopped and
    wait forever.
    """
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return sys.stdin.isatty() and os.tcgetpgrp(descriptor) == os.getpgrp()
    except (OSError, ValueError):
        return False
    finally:
        os.close(descriptor)


def sign_bytes(key: Path, data: bytes) -> bytes:
    """Sign bytes with a private key, or with the agent's for a public one; ssh-keygen asks for a
    passphrase if there is a terminal.

    MissingError without ssh-keygen, RequestError if the key cannot be used.
    """
    if not is_keygen_installed():
        raise MissingError(f"cannot sign: {KEYGEN_MISSING}")
    if not key.is_file():
        raise RequestError(f"--key {key}: no such key file")
    is_interactive = is_at_terminal()
    try:
        done = run_keygen(
            ["-Y", "sign", "-f", str(key), "-n", SIGNATURE_NAMESPACE],
            data,
            is_interactive=is_interactive,
        )
    except subprocess.TimeoutExpired as error:
        raise RequestError(
            f"--key {key}: not signed within {KEYGEN_TIMEOUT_S} s; a key that must be touched, or"
            " asks for a PIN, needs a terminal"
        ) from error
    if done.returncode:
        raise RequestError(
            f"--key {key}:"
            f" {explain_signing_failure(select_keygen_error_line(done), key, is_interactive)}"
        )
    return done.stdout


def explain_signing_failure(words: str, key: Path, is_interactive: bool) -> str:
    """Explain why a key did not sign."""
    if "incorrect passphrase" in words:
        where = ""
        if not is_interactive:
            where = (
                ", and there is no terminal to ask for it; sign at a terminal, or add the key to "
                "ssh-agent (ssh-add)"
            )
        return (
            f"{'the passphrase is wrong' if is_interactive else 'the key has a passphrase'}{where}"
        )
    if OPEN_KEY_WARNING in words:
        return f"others may read the key, so {KEYGEN_PROGRAM} does not use it: chmod 600 {key}"
    return f"{KEYGEN_PROGRAM} did not sign: {words or 'it gave no reason'}"


def select_keygen_error_line(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Return the last line that ssh-keygen printed on stderr, or the line that says that others may
    read the key.
    """
    lines = [
        replace_unprintable(line)
        for line in done.stderr.decode("utf-8", "replace").splitlines()
        if line.strip() and "Signing data" not in line
    ]
    lines += [line for line in lines if OPEN_KEY_WARNING in line]
    if lines:
        return lines[-1].rpartition("Enter passphrase: ")[2]
    return ""


def verify_ssh_signature(
    signature: SshSignature, data: bytes, signers: TrustedSigners, claimed: str | None
) -> SignatureCheck:
    """Check a signature over these bytes and identify the signer; `claimed` is the claimed signer,
    None for anyone.
    """
    if not is_keygen_installed():
        return SignatureCheck(
            standing=SignatureStatus.UNCHECKED, sentence=f"signature not checked: {KEYGEN_MISSING}"
        )
    if signature.namespace != SIGNATURE_NAMESPACE:
        return build_bad_signature(
            f"its signature is for '{replace_unprintable(signature.namespace)}', not for"
            f" '{SIGNATURE_NAMESPACE}'"
        )
    with create_temporary_folder() as folder:
        file = folder / "signature"
        file.write_bytes(signature.text)
        try:
            if signers.revoked is None:
                return verify_signature_file(file, data, signers, claimed)
            return verify_unrevoked_signature(file, signature.key, data, signers, claimed)
        except subprocess.TimeoutExpired:
            return build_bad_signature(f"{KEYGEN_PROGRAM} did not end within {KEYGEN_TIMEOUT_S} s")


def verify_signature_file(
    file: Path, data: bytes, signers: TrustedSigners, claimed: str | None
) -> SignatureCheck:
    """Check a signature in a file: whether it matches, then who signed."""
    fits = run_keygen(["-Y", "check-novalidate", "-n", SIGNATURE_NAMESPACE, "-s", str(file)], data)
    match = GOOD_SIGNATURE_PATTERN.search(fits.stdout.decode("utf-8", "replace"))
    if fits.returncode or not match:
        return build_bad_signature(
            "its signature does not match the signed content:"
            f" {select_keygen_error_line(fits) or 'no reason given'}"
        )
    key, as_claimed = (
        f"{match[1]} {match[2]}",
        (f", who claims to be {replace_unprintable(claimed)}" if claimed else ""),
    )
    if signers.allowed is None:
        return SignatureCheck(
            standing=SignatureStatus.UNKNOWN,
            sentence=f"{key}{as_claimed}; use --signers FILE to identify the owner of the key",
            key=key,
        )
    allowed = ["-f", str(signers.allowed)]
    found = run_keygen(["-Y", "find-principals", "-s", str(file), *allowed], data)
    names = found.stdout.decode("utf-8", "replace").split()
    # without a name ssh-keygen does not say why a certificate has no owner
    if not names and claimed and "-CERT" in key:
        found = run_keygen(
            ["-Y", "verify", *allowed, "-I", claimed, "-n", SIGNATURE_NAMESPACE, "-s", str(file)],
            data,
        )
    if not names and (
        reason := UNUSABLE_KEY_PATTERN.search(found.stderr.decode("utf-8", "replace"))
    ):
        return build_bad_signature(
            f"{signers.allowed}: {replace_unprintable(reason[1])}: {key}", key
        )
    if not names:
        return SignatureCheck(
            standing=SignatureStatus.UNKNOWN,
            sentence=f"by a key that is not in {signers.allowed}: {key}{as_claimed}",
            key=key,
        )
    return verify_listed_signer(file, data, signers, key, claimed, names)


def verify_unrevoked_signature(
    file: Path, blob: bytes, data: bytes, signers: TrustedSigners, claimed: str | None
) -> SignatureCheck:
    """Check a signature, then that its key is not revoked, no matter who the signers file says it
    belongs to.
    """
    found = verify_signature_file(file, data, signers, claimed)
    kind = blob[4 : 4 + int.from_bytes(blob[:4], "big")].decode("ascii", "replace")
    # a certificate cannot vouch for itself
    if found.standing is SignatureStatus.BAD or (found.signer is None and "-cert-" in kind):
        return found
    allowed, name = signers.allowed, found.signer
    if name is None:  # ssh-keygen checks for revoked keys only if it knows the signer
        allowed, name = file.with_name("anyone"), "anyone"
        allowed.write_text(f"* {kind} {base64.b64encode(blob).decode('ascii')}\n", "ascii")
    against = run_keygen(
        [
            "-Y",
            "verify",
            "-f",
            str(allowed),
            "-I",
            name,
            "-n",
            SIGNATURE_NAMESPACE,
            "-s",
            str(file),
            "-r",
            str(signers.revoked),
        ],
        data,
    )
    if not against.returncode:
        return found
    unusable = select_keygen_error_line(against)  # ssh-keygen says nothing about a revoked key
    return build_bad_signature(
        f"{signers.revoked}:"
        f" {f'cannot be used: {unusable}' if unusable else 'the key was revoked'}: {found.key}",
        found.key,
    )


def verify_listed_signer(
    file: Path,
    data: bytes,
    signers: TrustedSigners,
    key: str,
    claimed: str | None,
    names: Sequence[str],
) -> SignatureCheck:
    """Check a signature whose key is in the signers file: one line must be valid for this purpose,
    time and signer.
    """
    fault = ""
    tried = [claimed] if claimed else names
    for name in tried:
        plain = run_keygen(
            [
                "-Y",
                "verify",
                "-f",
                str(signers.allowed),
                "-I",
                name,
                "-n",
                SIGNATURE_NAMESPACE,
                "-s",
                str(file),
            ],
            data,
        )
        if not plain.returncode:
            return SignatureCheck(
                standing=SignatureStatus.GOOD,
                sentence=f"{replace_unprintable(name)}, {key}, in {signers.allowed}",
                signer=name,
                key=key,
            )
        reason = UNUSABLE_KEY_PATTERN.search(plain.stderr.decode("utf-8", "replace"))
        if reason:
            fault = reason[1]
        else:
            fault = f"the key is {', '.join(names)}'s, not {name}'s"
    return build_bad_signature(f"{signers.allowed}: {replace_unprintable(fault)}: {key}", key)


def build_bad_signature(sentence: str, key: str | None = None) -> SignatureCheck:
    """Return the result for a bad signature."""
    return SignatureCheck(standing=SignatureStatus.BAD, sentence=sentence, key=key)
