"""The output of `podium verify` for a bundle: one line per question that a reader may have, and
what no check can show.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.manifest import Manifest
from compliance.bundle.trailer import BundleTrailer, FrameKind
from submissions.pack.account import read_ledger_account
from submissions.pack.bundle import describe_recomputed_figures, list_content_problems
from submissions.pack.seal import inspect_bundle, read_bundle_manifest
from submissions.result_index import keep_bundle_unpacked
from submissions.signatures import bundled
from submissions.signatures.ssh_keygen import SignatureCheck, SignatureStatus, TrustedSigners
from submissions.signatures.time_stamps import find_time_stamp_verifier
from suite.errors import JudgedError

NOT_SHOWN: Final = "Not shown by any of these checks: that the machine measured what the logs say."


class LineState(StrEnum):
    """Meaning of a line for the overall result."""

    GOOD = "good"
    OPEN = "open"
    """Nothing is wrong and nothing is shown; the line fails only if it is required."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationLine:
    """One line of the answer."""

    name: str
    state: LineState
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedParties:
    """Signers and authorities that the caller trusts."""

    signers: TrustedSigners
    authorities: Path | None = None
    """Certificates of time-stamping authorities (PEM)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBundle:
    """An undamaged bundle and its content."""

    bundle: Path
    trusted: TrustedParties
    problems: tuple[str, ...]
    """Reasons why the judge rejects it, one sentence each."""
    manifest: Manifest
    trailer: BundleTrailer


def describe_sealed_bytes(found: OpenedBundle) -> Iterator[VerificationLine]:
    """Report that the bytes are unchanged since the sealing."""
    yield VerificationLine(
        name="bytes",
        state=LineState.GOOD,
        text=f"whole: {len(found.manifest.files)} files, seal sha256:{found.trailer.digest.hex()}",
    )


def describe_judge_verdict(found: OpenedBundle) -> Iterator[VerificationLine]:
    round_description = (
        f"{found.manifest.round}, profile {found.manifest.profile} (podium"
        f" {found.manifest.version})"
    )
    if found.problems:
        yield VerificationLine(
            name="judge",
            state=LineState.BAD,
            text=(
                f"not valid by {round_description}: {len(found.problems)}"
                f" problem{'s' * (len(found.problems) > 1)}, above"
            ),
        )
    else:
        yield VerificationLine(
            name="judge",
            state=LineState.GOOD,
            text=f"valid by {round_description}; {describe_recomputed_figures(found.bundle)}",
        )


def describe_bundle_ledgers(found: OpenedBundle) -> Iterator[VerificationLine]:
    """Report the number of attempts, and whether the nonces are derived from a challenge."""
    ledger_account = read_ledger_account(found.bundle)
    if ledger_account is None:
        return
    if found.problems or not ledger_account.ledger:
        state = LineState.OPEN
    else:
        state = LineState.GOOD
    yield VerificationLine(
        name="ledger",
        state=state,
        text=ledger_account.ledger or "none: the results have no ledger",
    )
    if ledger_account.challenged and not found.problems:
        state = LineState.GOOD
    else:
        state = LineState.OPEN
    yield VerificationLine(name="nonce", state=state, text=ledger_account.nonce)


def describe_signatures(found: OpenedBundle) -> Iterator[VerificationLine]:
    """Report the signers; one line per signature."""
    lines = [
        describe_signature(each)
        for each in bundled.verify_bundle_signatures(
            found.bundle, found.trailer, found.trusted.signers
        )
    ]
    yield from lines or [VerificationLine(name="signed", state=LineState.OPEN, text="not signed")]


def describe_signature(checked: SignatureCheck) -> VerificationLine:
    """Report the result of one signature."""
    states = {SignatureStatus.GOOD: LineState.GOOD, SignatureStatus.BAD: LineState.BAD}
    return VerificationLine(
        name="signed", state=states.get(checked.standing, LineState.OPEN), text=checked.sentence
    )


def describe_time_stamps(found: OpenedBundle) -> Iterator[VerificationLine]:
    """Report since when the bundle has existed; one line per time stamp."""
    stamps = [frame.content for frame in found.trailer.frames if frame.kind is FrameKind.TIME]
    yield from [describe_time_stamp(content, found) for content in stamps] or [
        VerificationLine(name="time", state=LineState.OPEN, text="the machine's own clock only")
    ]


def describe_time_stamp(content: bytes, found: OpenedBundle) -> VerificationLine:
    """Report the content of one time stamp."""
    verifier = find_time_stamp_verifier()
    if isinstance(verifier, str):
        return VerificationLine(
            name="time", state=LineState.OPEN, text=f"time stamp not checked: {verifier}"
        )
    authorities = found.trusted.authorities
    try:
        stamp = verifier.verify_time_stamp(content, found.trailer.digest, authorities)
    except JudgedError as error:
        return VerificationLine(name="time", state=LineState.BAD, text=str(error))
    text = f"{stamp.utc:%Y-%m-%d %H:%M:%S} UTC, authority {stamp.authority}"
    unchecked = "; use --ca FILE to verify the authority"
    return VerificationLine(
        name="time",
        state=LineState.GOOD if authorities else LineState.OPEN,
        text=text + ("" if authorities else unchecked),
    )


LINE_DESCRIBERS: Final[Sequence[Callable[[OpenedBundle], Iterator[VerificationLine]]]] = (
    describe_sealed_bytes,
    describe_judge_verdict,
    describe_bundle_ledgers,
    describe_signatures,
    describe_time_stamps,
)
"""Lines about an undamaged bundle, in this order."""
REQUIREMENT_LINES: Final = {"signed": "signed", "challenged": "nonce", "timestamped": "time"}
"""Values of --require -> the line that must be good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationAnswer:
    """The complete answer about a bundle."""

    problems: tuple[str, ...]
    """Problems with its bytes, or reasons why the judge rejects it; one sentence each."""
    lines: tuple[VerificationLine, ...]
    unmet: tuple[str, ...]
    """Requirements that are not met."""

    @property
    def is_whole(self) -> bool:
        """Whether bundle, signatures and time stamps are all free of problems."""
        return not self.problems and all(line.state is not LineState.BAD for line in self.lines)


def verify_bundle(
    bundle: Path, trusted: TrustedParties, required: Sequence[str] = ()
) -> VerificationAnswer:
    """Verify a bundle: its bytes first, the rest if they are undamaged. Problems are part of the
    answer.
    """
    broken = tuple(inspect_bundle(bundle))
    if broken:
        return VerificationAnswer(
            problems=broken,
            lines=(
                VerificationLine(
                    name="bytes", state=LineState.BAD, text="broken, so nothing else was checked"
                ),
            ),
            unmet=tuple(required),
        )
    problems = tuple(
        list_content_problems(bundle)
        # the judge unpacks its own copy and deletes it: two copies at a time would need twice the
        # disk
    )
    with keep_bundle_unpacked(bundle):
        found = OpenedBundle(
            bundle=bundle,
            trusted=trusted,
            problems=problems,
            manifest=read_bundle_manifest(bundle),
            trailer=trailer.read_bundle_trailer(bundle),
        )
        lines = tuple(line for describe_line in LINE_DESCRIBERS for line in describe_line(found))
    shown = {line.name for line in lines if line.state is LineState.GOOD}
    return VerificationAnswer(
        problems=problems,
        lines=lines,
        unmet=tuple(each for each in required if REQUIREMENT_LINES[each] not in shown),
    )
