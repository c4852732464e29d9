"""Time stamps behind a seal, verified by what is installed for it."""

from collections.abc import Iterator

from compliance.bundle.trailer import BundleTrailer, FrameKind
from suite import registry
from suite.errors import JudgedError, MissingError
from suite.time_stamps import TimeStampVerifier


def find_time_stamp_verifier() -> TimeStampVerifier | str:
    """Find what verifies time stamps on this machine; one sentence if nothing can."""
    try:
        verifier = registry.load_time_stamp_verifier()
    except MissingError as error:
        return str(error)
    return verifier.describe_obstacle() or verifier


def find_time_stamp_problems(found: BundleTrailer) -> Iterator[str]:
    """Yield what is wrong with the time stamps after a seal, whichever authority made them; nothing
    if none can be verified here.
    """
    verifier = find_time_stamp_verifier()
    if isinstance(verifier, str):
        return
    for frame in found.frames:
        if frame.kind is FrameKind.TIME:
            try:
                verifier.verify_time_stamp(frame.content, found.digest, None)
            except JudgedError as error:
                yield str(error)
