"""What `podium verify` prints about a bundle: one line per question that a reader may have, and
what none of them shows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.manifest import Manifest
from compliance.bundle.trailer import Kind, Trailer
from submissions.pack.account import account
from submissions.pack.bundle import problems_inside, proven
from submissions.pack.seal import inspect, manifest_of
from submissions.result_index import kept
from submissions.signatures import bundled, time_stamps
from submissions.signatures.ssh_keygen import Checked, Signers, Standing
from suite.errors import JudgedError

NOT_SHOWN: Final = "Not shown by any of this: that the machine measured what the logs say."


class State(StrEnum):
    """Meaning of a line for the overall result."""

    GOOD = "good"
    OPEN = "open"
    """Nothing is wrong, and nothing is shown; it fails only if it is required."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the answer."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """Signers and authorities that the caller trusts."""

    signers: Signers
    authorities: Path | None = None
    """Certificates of time-stamping authorities, PEM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An undamaged bundle, and what was found in it."""

    bundle: Path
    trusted: Trusted
    problems: tuple[str, ...]
    """Reasons why the judge rejects it, one sentence each."""
    manifest: Manifest
    trailer: Trailer


def bytes_line(found: Opened) -> Iterator[Line]:
    """Report that the bytes are those that were sealed."""
    yield Line(
        name="bytes",
        state=State.GOOD,
        text=f"whole: {len(found.manifest.files)} files, seal sha256:{found.trailer.digest.hex()}",
    )


def judge_line(found: Opened) -> Iterator[Line]:
    """Report the judge's verdict."""
    told = (
        f"{found.manifest.round}, profile {found.manifest.profile} (podium"
        f" {found.manifest.version})"
    )
    if found.problems:
        yield Line(
            name="judge",
            state=State.BAD,
            text=(
                f"not valid by {told}: {len(found.problems)}"
                f" problem{'s' * (len(found.problems) > 1)}, above"
            ),
        )
    else:
        yield Line(name="judge", state=State.GOOD, text=f"valid by {told}; {proven(found.bundle)}")


def ledger_lines(found: Opened) -> Iterator[Line]:
    """Report the number of attempts, and whether the nonces were derived from a challenge."""
    told = account(found.bundle)
    if told is None:
        return
    state = State.OPEN if found.problems or not told.ledger else State.GOOD
    yield Line(
        name="ledger", state=state, text=told.ledger or "none: made before ledgers were kept"
    )
    yield Line(
        name="nonce",
        state=State.GOOD if told.challenged and not found.problems else State.OPEN,
        text=told.nonce,
    )


def signed_lines(found: Opened) -> Iterator[Line]:
    """Report the signers; one line per signature."""
    lines = [
        signed_line(each)
        for each in bundled.checked(found.bundle, found.trailer, found.trusted.signers)
    ]
    yield from lines or [Line(name="signed", state=State.OPEN, text="not signed")]


def signed_line(checked: Checked) -> Line:
    """Report the result of one signature."""
    states = {Standing.GOOD: State.GOOD, Standing.BAD: State.BAD}
    return Line(
        name="signed", state=states.get(checked.standing, State.OPEN), text=checked.sentence
    )


def time_lines(found: Opened) -> Iterator[Line]:
    """Report since when the bundle has existed; one line per time stamp."""
    stamps = [frame.content for frame in found.trailer.frames if frame.kind is Kind.TIME]
    yield from [time_line(content, found) for content in stamps] or [
        Line(name="time", state=State.OPEN, text="the machine's own clock only")
    ]


def time_line(content: bytes, found: Opened) -> Line:
    """Report the content of one time stamp."""
    if not time_stamps.available():
        return Line(
            name="time", state=State.OPEN, text=f"time stamp not checked: {time_stamps.LACKING}"
        )
    authorities = found.trusted.authorities
    try:
        stamp = time_stamps.checked(content, found.trailer.digest, authorities)
    except JudgedError as error:
        return Line(name="time", state=State.BAD, text=str(error))
    text = f"{stamp.utc:%Y-%m-%d %H:%M:%S} UTC, authority {stamp.authority}"
    unchecked = "; whether the authority said so, --ca FILE would show"
    return Line(
        name="time",
        state=State.GOOD if authorities else State.OPEN,
        text=text + ("" if authorities else unchecked),
    )


LINES: Final[Sequence[Callable[[Opened], Iterator[Line]]]] = (
    bytes_line,
    judge_line,
    ledger_lines,
    signed_lines,
    time_lines,
)
"""Lines about an undamaged bundle, in this order."""
REQUIRED: Final = {"signed": "signed", "challenged": "nonce", "timestamped": "time"}
"""Values of --require -> the line that must be good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The complete answer about a bundle."""

    problems: tuple[str, ...]
    """Problems with its bytes, or reasons why the judge rejects it; one sentence each."""
    lines: tuple[Line, ...]
    unmet: tuple[str, ...]
    """Requirements that are not met."""

    @property
    def whole(self) -> bool:
        """Whether bundle, signatures and time stamps are all free of problems."""
        return not self.problems and all(line.state is not State.BAD for line in self.lines)


def verification(bundle: Path, trusted: Trusted, required: Sequence[str] = ()) -> Answer:
    """Verify a bundle: its bytes first, the rest if they are undamaged. Problems are part of the
    answer.
    """
    broken = tuple(inspect(bundle))
    if broken:
        return Answer(
            problems=broken,
            lines=(
                Line(name="bytes", state=State.BAD, text="broken, so nothing else was looked at"),
            ),
            unmet=tuple(required),
        )
    problems = tuple(
        problems_inside(bundle)
        # the judge unpacks it in a place of its own, and deletes that: two copies at a time would
        # need
        # twice the disk
    )
    with kept(bundle):
        found = Opened(
            bundle=bundle,
            trusted=trusted,
            problems=problems,
            manifest=manifest_of(bundle),
            trailer=trailer.read(bundle),
        )
        lines = tuple(line for said in LINES for line in said(found))
    shown = {line.name for line in lines if line.state is State.GOOD}
    return Answer(
        problems=problems,
        lines=lines,
        unmet=tuple(each for each in required if REQUIRED[each] not in shown),
    )
