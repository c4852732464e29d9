"""Signatures of the two sides: the buyer's beside the contract, the seller's in the bundle."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from submissions.accept.contract import Party
from submissions.accept.delivery import Delivery
from submissions.accept.refusals import Refusal, RefusalKind
from submissions.signatures import bundled, ssh_keygen
from submissions.signatures.ssh_keygen import (
    KEYGEN_TIMEOUT_S,
    SIGNATURE_NAMESPACE,
    SignatureCheck,
    SignatureStatus,
    TrustedSigners,
)
from suite.errors import MissingError
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import (
    UnreadableError,
    read_untrusted_file,
    replace_unprintable,
)

CONTRACT_NAMESPACE: Final = "podium-contract"
"""Namespace of signatures of contracts."""
PAGE_NAMESPACE: Final = "podium-acceptance"
"""Namespace of signatures of the page that both sides sign."""
SIGNATURE_SUFFIX: Final = ".sig"
"""Suffix of a file's signature, as `ssh-keygen -Y sign` names it."""


def locate_contract_signature(contract: Path) -> Path:
    """Path of the signature beside a contract."""
    return contract.with_name(contract.name + SIGNATURE_SUFFIX)


def require_keygen() -> None:
    """MissingError without the program that checks signatures."""
    if not ssh_keygen.is_keygen_installed():
        raise MissingError(f"signatures cannot be checked: {ssh_keygen.KEYGEN_MISSING}")


def write_allowed_signer(folder: Path, party: Party, namespace: str) -> Path:
    """Write a file of allowed signers that has one side alone."""
    file = folder / "allowed_signers"
    file.write_text(f'{party.name} namespaces="{namespace}" {party.key}\n', "utf-8")
    return file


def find_contract_signature_fault(contract: Path, buyer: Party) -> str | None:
    """Say what is wrong with the signature beside a contract; None if there is none, or if it is
    the buyer's. MissingError without ssh-keygen.
    """
    signature = locate_contract_signature(contract)
    if not signature.exists():
        return None
    require_keygen()
    try:
        read_untrusted_file(signature, bytes)
    except UnreadableError as error:
        return f"{signature.name} cannot be read: {error}"
    with create_temporary_folder() as folder:
        allowed = write_allowed_signer(folder, buyer, CONTRACT_NAMESPACE)
        names = ["-I", buyer.name, "-n", CONTRACT_NAMESPACE, "-s", str(signature)]
        try:
            done = ssh_keygen.run_keygen(
                ["-Y", "verify", "-f", str(allowed), *names], contract.read_bytes()
            )
        except subprocess.TimeoutExpired:
            return f"{signature.name} could not be checked within {KEYGEN_TIMEOUT_S} s"
    if done.returncode == 0:
        return None
    return (
        f"{signature.name} is not {replace_unprintable(buyer.name)}'s signature of this file, with"
        " the key that it names"
    )


def find_unsigned_contract(contract: Path, buyer: Party) -> Iterator[Refusal]:
    """Yield a refusal if the signature beside a contract is not the buyer's, or not of this
    file.
    """
    if fault := find_contract_signature_fault(contract, buyer):
        yield Refusal(kind=RefusalKind.UNSIGNED_CONTRACT, sentence=fault)


def check_delivered_signatures(found: Delivery) -> list[SignatureCheck]:
    """Check the signatures of a bundle against the key that the contract names for the seller;
    MissingError without ssh-keygen if there is such a key.
    """
    seller = found.contract.terms.seller
    if not seller.key:
        signers = TrustedSigners()
        return list(bundled.verify_bundle_signatures(found.bundle, found.trailer, signers))
    require_keygen()
    with create_temporary_folder() as folder:
        allowed = write_allowed_signer(folder, seller, SIGNATURE_NAMESPACE)
        signers = TrustedSigners(allowed=allowed)
        return list(bundled.verify_bundle_signatures(found.bundle, found.trailer, signers))


def find_other_signer(found: Delivery, checked: list[SignatureCheck]) -> Iterator[Refusal]:
    """Yield a refusal for a signature that does not match, and for a bundle without the seller's if
    the contract names the seller's key.
    """
    seller = found.contract.terms.seller
    for each in checked:
        if each.standing is SignatureStatus.BAD:
            yield Refusal(kind=RefusalKind.OTHER_SIGNER, sentence=describe_signer(found, each))
            return
    if not seller.key or any(each.standing is SignatureStatus.GOOD for each in checked):
        return
    by = ", ".join(each.key or "an unknown key" for each in checked)
    sentence = f"not signed with the key of {seller.name}" + (f", but with {by}" if by else "")
    yield Refusal(kind=RefusalKind.OTHER_SIGNER, sentence=sentence)


def describe_signer(found: Delivery, checked: SignatureCheck) -> str:
    """Describe one signature for a reader, without the path of a temporary file."""
    if checked.standing is SignatureStatus.GOOD:
        return f"{checked.signer}, {checked.key}, as the contract names"
    if checked.standing is SignatureStatus.UNKNOWN:
        return f"{checked.key}, which the contract does not name"
    if checked.key:
        return f"{checked.key}: not usable as {found.contract.terms.seller.name}'s"
    return checked.sentence
