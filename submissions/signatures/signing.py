"""`podium sign`: the judge checks the bundle, ssh-keygen signs a statement of its findings, and the
signature is appended after the seal.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compliance.bundle import trailer
from compliance.bundle.trailer import Frame, Kind, Trailer
from submissions import compliance_check
from submissions.pack.bundle import verify
from submissions.pack.seal import manifest_of
from submissions.signatures import armor, bundled, ssh_keygen, statement, time_stamps
from submissions.signatures.bundled import Signed
from submissions.signatures.ssh_keygen import Signers, Standing
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import FULL, written


def sign(bundle: Path, key: Path, claimed: str | None, detached: bool) -> Path:
    """Sign a bundle that the judge accepts, and return the file that contains the signature.

    `claimed` is the signer's claimed identity, a principal of ssh-keygen's ALLOWED SIGNERS.
    JudgedError for a damaged or invalid bundle,
    MissingError without ssh-keygen or if the disk is full, RequestError for a key that cannot sign,
    or has signed already.
    """
    if not ssh_keygen.available():
        raise MissingError(f"cannot sign: {ssh_keygen.LACKING}")
    if claimed is not None and (
        not claimed.isprintable() or not claimed or set(claimed) & set(" \t,*?!")
    ):
        raise RequestError(
            f"--as {claimed!r}: not a signer's name: one word without blanks, commas and wildcards,"
            " as in bench@lab.example"
        )
    found = whole(bundle)
    text = statement.encode(
        statement.make(
            bundle.name,
            found.digest,
            manifest_of(bundle),
            compliance_check.findings(bundle),
            claimed,
        )
    )
    made = Signed(text=text, signature=ssh_keygen.sign(key, text))
    refuse_twice(bundle, found, made, key)
    with told_of(bundle):
        return (
            beside(bundle, made)
            if detached
            else append(bundle, Frame(kind=Kind.SIGNATURE, content=made.content))
        )


def whole(bundle: Path) -> Trailer:
    """Read what follows the seal of a bundle that the judge accepts; otherwise JudgedError with the
    sentences of `podium verify`.
    """
    problems = verify(bundle)
    if not problems:
        found = trailer.read(bundle)
        problems = [
            each.sentence
            for each in bundled.checked(bundle, found, Signers())
            if each.standing is Standing.BAD
        ]
        problems += time_stamps.problems(found)
    if problems:
        raise JudgedError(
            "\n  ".join([f"{bundle}: broken, so nothing is put behind it:", *problems])
        )
    return found


def refuse_twice(bundle: Path, found: Trailer, made: Signed, key: Path) -> None:
    """RequestError if this key has signed this bundle already."""
    mine = armor.read(made.signature).key
    for each in bundled.signed(bundle, found):
        try:
            other = armor.read(each.signature).key
        except JudgedError as error:
            raise JudgedError(f"{bundle}: holds a signature that is none: {error}") from error
        if other == mine:
            raise RequestError(f"{bundle}: the key {key} has signed it already")


def append(bundle: Path, frame: Frame) -> Path:
    """Append a frame to a bundle by way of a copy that replaces it when complete. RequestError if
    there is no room.
    """
    if len(trailer.read(bundle).frames) >= trailer.FRAMES:
        raise RequestError(
            f"{bundle}: holds {trailer.FRAMES} signatures and time stamps already, and more may not"
            " follow the seal"
        )
    if len(frame.content) > trailer.FRAME_LIMIT:
        raise RequestError(
            f"{bundle}: a signature or time stamp of {len(frame.content)} bytes; at most"
            f" {trailer.FRAME_LIMIT} may follow the seal"
        )
    file = bundle.resolve()
    with written(file) as partial:
        shutil.copyfile(file, partial)
        shutil.copymode(file, partial)
        with partial.open("ab") as stream:
            stream.write(frame.encode())
    return bundle


def beside(bundle: Path, made: Signed) -> Path:
    """Write a detached statement and its signature; RequestError if one exists already."""
    text, signature = bundled.detached(bundle)
    if text.exists() or signature.exists():
        raise RequestError(
            f"{text}: there is a detached statement already; without --detached, a bundle takes"
            f" {trailer.FRAMES} signatures"
        )
    for path, content in ((text, made.text), (signature, made.signature)):
        with written(path) as partial:
            partial.write_bytes(content)
    return signature


@contextmanager
def told_of(bundle: Path) -> Iterator[None]:
    """Convert OS errors to podium's: MissingError for a full disk, RequestError if writing is not
    permitted.
    """
    try:
        yield
    except OSError as error:
        sentence = f"{bundle}: nothing was put behind it: {error.strerror or error}"
        raise (MissingError if error.errno in FULL else RequestError)(sentence) from error
