"""What `podium verify` says of a bundle: one line for each thing that somebody may want to know of it, and what none of them shows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.manifest import Manifest
from compliance.bundle.trailer import Kind, Trailer
from submissions.pack.bundle import proven, verify
from submissions.pack.seal import inspect, manifest_of
from submissions.signatures import bundled, timestamp
from submissions.signatures.ssh_keygen import Checked, Signers, Standing
from suite.errors import JudgedError

NOT_SHOWN: Final = "Not shown by any of this: that the machine measured what the logs say."


class State(StrEnum):
    """What a line means for the whole."""

    GOOD = "good"
    OPEN = "open"
    """Nothing is wrong, and nothing is shown: only who requires it is not satisfied."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the answer."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusted:
    """Whom the caller trusts."""

    signers: Signers
    authorities: Path | None = None
    """Certificates of time-stamping authorities, PEM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A bundle whose bytes are whole, and what was found in it."""

    bundle: Path
    trusted: Trusted
    problems: tuple[str, ...]
    """What the judge does not accept, one sentence each."""
    manifest: Manifest
    trailer: Trailer


def bytes_line(found: Opened) -> Iterator[Line]:
    """Say that the bytes are those that were sealed."""
    yield Line(name="bytes", state=State.GOOD, text=f"whole: {len(found.manifest.files)} files, seal sha256:{found.trailer.digest.hex()}")


def judge_line(found: Opened) -> Iterator[Line]:
    """Say what the judge says."""
    told = f"{found.manifest.round}, profile {found.manifest.profile} (podium {found.manifest.version})"
    if found.problems:
        yield Line(name="judge", state=State.BAD, text=f"not valid by {told}: {len(found.problems)} problem{'s' * (len(found.problems) > 1)}, above")
    else:
        yield Line(name="judge", state=State.GOOD, text=f"valid by {told}; {proven(found.bundle)}")


def signed_lines(found: Opened) -> Iterator[Line]:
    """Say who signed; one line for each signature."""
    lines = [signed_line(each) for each in bundled.checked(found.bundle, found.trailer, found.trusted.signers)]
    yield from lines or [Line(name="signed", state=State.OPEN, text="not signed")]


def signed_line(checked: Checked) -> Line:
    """Say what came out for one signature."""
    states = {Standing.GOOD: State.GOOD, Standing.BAD: State.BAD}
    return Line(name="signed", state=states.get(checked.standing, State.OPEN), text=checked.sentence)


def time_lines(found: Opened) -> Iterator[Line]:
    """Say since when the bundle has been there; one line for each time stamp."""
    stamps = [frame.content for frame in found.trailer.frames if frame.kind is Kind.TIME]
    yield from [time_line(content, found) for content in stamps] or [Line(name="time", state=State.OPEN, text="the machine's own clock only")]


def time_line(content: bytes, found: Opened) -> Line:
    """Say what one time stamp says."""
    if not timestamp.available():
        return Line(name="time", state=State.OPEN, text=f"time stamp not checked: {timestamp.LACKING}")
    authorities = found.trusted.authorities
    try:
        stamp = timestamp.checked(content, found.trailer.digest, authorities)
    except JudgedError as error:
        return Line(name="time", state=State.BAD, text=str(error))
    text = f"{stamp.utc:%Y-%m-%d %H:%M:%S} UTC, authority {stamp.authority}"
    unchecked = "; whether the authority said so, --ca FILE would show"
    return Line(name="time", state=State.GOOD if authorities else State.OPEN, text=text + ("" if authorities else unchecked))


LINES: Final[Sequence[Callable[[Opened], Iterator[Line]]]] = (bytes_line, judge_line, signed_lines, time_lines)
"""What is said of a bundle whose bytes are whole, in this order."""
REQUIRED: Final = {"signed": "signed", "timestamped": "time"}
"""What --require takes -> the line that must be good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All that is said of a bundle."""

    problems: tuple[str, ...]
    """What is wrong with its bytes, or what the judge does not accept; one sentence each."""
    lines: tuple[Line, ...]
    unmet: tuple[str, ...]
    """What was required and is not shown."""

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong with the bundle or what stands behind it."""
        return not self.problems and all(line.state is not State.BAD for line in self.lines)


def verification(bundle: Path, trusted: Trusted, required: Sequence[str] = ()) -> Answer:
    """Say all of a bundle: its bytes first, and the rest where these are whole. What is wrong with it is part of the answer."""
    broken = tuple(inspect(bundle))
    if broken:
        return Answer(problems=broken, lines=(Line(name="bytes", state=State.BAD, text="broken, so nothing else was looked at"),), unmet=tuple(required))
    problems = tuple(verify(bundle))
    found = Opened(bundle=bundle, trusted=trusted, problems=problems, manifest=manifest_of(bundle), trailer=trailer.read(bundle))
    lines = tuple(line for said in LINES for line in said(found))
    shown = {line.name for line in lines if line.state is State.GOOD}
    return Answer(problems=problems, lines=lines, unmet=tuple(each for each in required if REQUIRED[each] not in shown))
