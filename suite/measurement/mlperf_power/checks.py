"""What must hold of a session of the MLPerf Power workflow; the import and the judge ask the same.

Source: mlcommons/power-dev, compliance/check.py and its README. Stricter where that checker has
holes: the run's own logs are compared, LoadGen's
times lie in the testing phase without an hour's tolerance, warnings of the daemon count over the
whole run, and negative powers are not dropped.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Final

from suite.energy import NS_PER_S, NoEnergyError, energy
from suite.files.untrusted_files import UnreadableError, complaint, opened
from suite.measurement.mlperf_power.session import (
    CLIENT,
    DAEMON_LOG,
    FILES,
    NAME,
    RANGING,
    SERVER,
    SPL,
    TESTING,
    Sample,
    Session,
    utc_ns,
)

MODELS: Final[Mapping[str, int]] = {
    "YokogawaWT210": 8,
    "YokogawaWT500": 35,
    "YokogawaWT500_multichannel": 48,
    "YokogawaWT310": 49,
    "YokogawaWT310E": 49,
    "YokogawaWT330": 52,
    "YokogawaWT330E": 52,
    "YokogawaWT330_multichannel": 77,
    "YokogawaWT210_DC": 508,
    "YokogawaWT310_DC": 549,
    "YokogawaWT330_DC": 586,
}
"""Analyzer -> the daemon's number for it. Source: check.py, SUPPORTED_MODEL."""
VERSIONS: Final = ("1.9.1", "1.9.2", "1.10.0", "1.11.1")
"""Versions of the daemon that the checkers of the rounds accept. Source: check.py,
SUPPORTED_VERSION, over its history.
"""
APART_MS: Final = 500
"""Client and server at the same step. Source: check.py, TIME_DELTA_TOLERANCE."""
SHORTER: Final = 0.5
"""Share by which the measured run may be shorter than the ranging run. Source: check.py,
compare_duration.
"""
SOON: Final = 0.05
"""The same as check.py's message has it: more is odd."""
FACTOR: Final = 0.02
"""Share by which watts may differ from volts x amps x power factor, which the analyzer prints with
four digits: more is odd. Source: house rule.
"""
FALSE: Final = 0.1
"""The same over the whole run, which no analyzer's error explains: watts that were edited. Source:
house rule.
"""
NO_PRODUCT: Final = ("_multichannel", "_DC")
"""Endings of analyzers whose watts need not be one product of volts, amps and power factor."""
FEWEST: Final = 0.9
"""Share of the run's seconds that have a reading. Source: the daemon's command, a reading each 1000
ms; house rule: a tenth for errors of USB.
"""
GAP_NS: Final = 2_000_000_000
"""A longer time without a reading is odd. Source: as above."""
STARTED: Final = (
    "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
)
STAMPED: Final = re.compile(r"(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{3})(.*)")
UNCERTAIN: Final = re.compile(r"Uncertainty checking for Yokogawa\S+ is activated")
ABOVE: Final = re.compile(r"Uncertainty \d+\.\d+%, which is above 1\.00% limit")
VERSION: Final = re.compile(r"version=(.+?)-")
HELLO: Final = {
    "cmd": re.compile(r"mlcommons/power client v(\d+)"),
    "reply": re.compile(r"mlcommons/power server v(\d+)"),
}
USB: Final = "USB."
"""An error of the daemon that check.py accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that does not hold."""

    file: str
    """As a session names it: power/client.json."""
    found: str
    required: str
    odd: bool = False
    """Only odd: a warning."""


Check = Callable[[Session], Iterator[Problem]]


def guarded(check: Check, session: Session) -> Iterator[Problem]:
    """Run a check; a file that cannot be read is a problem, too."""
    try:
        yield from check(session)
    except UnreadableError as error:
        name = next((name for name in FILES if session.path(name) == error.path), error.path.name)
        yield Problem(file=name, found=error.reason, required="a file that the workflow writes")
    except (ValueError, ArithmeticError) as error:
        yield Problem(
            file=SERVER, found=complaint(error), required="a session that the workflow writes"
        )


def identity(session: Session) -> Iterator[Problem]:
    """Client and server tell of one session: identities, name, commands and answers, version; not
    in debug mode.
    """
    client, server = session.client, session.server
    for name in ("client", "server"):
        ours, theirs = client.uuid[name], server.uuid[name]
        if ours != theirs:
            yield Problem(
                file=SERVER, found=f"{name} {theirs}", required=f"{ours}, as client.json has it"
            )
    if client.session_name != server.session_name or not server.session_name:
        yield Problem(
            file=SERVER,
            found=f"session {server.session_name!r}",
            required=f"{client.session_name!r}, as client.json has it",
        )
    said, heard = (
        [(each.cmd, each.reply if each.cmd != "time" else "") for each in side.messages]
        for side in (client, server)
    )
    if said != heard:
        place = next(
            (
                place
                for place, (one, other) in enumerate(zip(said, heard, strict=False))
                if one != other
            ),
            min(len(said), len(heard)),
        )
        yield Problem(
            file=SERVER,
            found=f"message {place + 1} of {len(heard)} differs",
            required=f"the {len(said)} messages of client.json",
        )
    first = server.messages[0] if server.messages else None
    versions = {
        match[1] if (match := HELLO[name].fullmatch(getattr(first, name, ""))) else None
        for name in HELLO
    }
    if len(versions) > 1 or None in versions:
        yield Problem(
            file=SERVER,
            found="a greeting of client and server that differ",
            required="power client and power server of one version",
        )
    if server.debug:
        yield Problem(
            file=SERVER, found="debug mode", required="a server that is not in debug mode"
        )


def files(session: Session) -> Iterator[Problem]:
    """Every file of the session is there, and is what client and server hashed; the logs of the
    measured run are the run's own.
    """
    recorded: dict[str, str] = {}
    for side in (session.client, session.server):
        for name, sha1 in side.results.items():
            if recorded.setdefault(name, sha1) != sha1:
                yield Problem(file=name, found="two hashes, by client and server", required="one")
    for name in FILES:
        found = sha1_of(session, name)
        if name in (CLIENT, SERVER):
            continue  # the workflow hashes neither: it writes them last
        if name not in recorded:
            yield Problem(
                file=name,
                found="no hash in client.json and server.json",
                required="the hash that the session took",
            )
        elif found != recorded[name]:
            own = name.startswith(f"{TESTING}/mlperf_log")
            yield Problem(
                file=name,
                found=f"SHA-1 {found}",
                required=(
                    f"{recorded[name]}, as the session has"
                    f" it{': it measured another run' if own else ''}"
                ),
            )


def sha1_of(session: Session, name: str) -> str:
    """Hash a file; UnreadableError if it is missing."""
    path = session.path(name)
    try:
        digest = hashlib.sha1(usedforsecurity=False)
        with opened(path) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from error


def phases(session: Session) -> Iterator[Problem]:
    """Client and server pass each step together, LoadGen's run lies in the testing phase, and
    ranging took about as long.
    """
    for mode in ("ranging", "testing"):
        ours, theirs = session.client.phases[mode], session.server.phases[mode]
        if len(ours) != len(theirs) or len(ours) < 3:
            yield Problem(
                file=SERVER,
                found=f"{len(theirs)} steps of {mode}, and {len(ours)} in client.json",
                required="the same, three or more",
            )
            return
        if any(after < before for before, after in pairwise(ours)):
            yield Problem(
                file=CLIENT,
                found=f"steps of {mode} that go back in time",
                required="steps in their order",
            )
        apart_ms = max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) / 1e6
        if apart_ms > APART_MS:
            yield Problem(
                file=SERVER,
                found=f"steps of {mode} that are {apart_ms:,.0f} ms apart",
                required=f"at most {APART_MS} ms: clocks set by NTP",
            )
        begin, end = session.windows[RANGING if mode == "ranging" else TESTING]
        if not ours[1] < begin < end < ours[2]:
            yield Problem(
                file=CLIENT,
                found=f"LoadGen's {mode} run outside its phase",
                required="power_begin and power_end within the phase",
            )
    lengths = {mode: end - begin for mode, (begin, end) in session.windows.items()}
    shorter = 1 - lengths[TESTING] / lengths[RANGING] if lengths[RANGING] > 0 else 1.0
    if shorter > SOON:
        yield Problem(
            file=CLIENT,
            found=f"a run {shorter:.0%} shorter than ranging",
            required=f"at most {SHORTER:.0%} shorter",
            odd=shorter < SHORTER,
        )


def device(session: Session) -> Iterator[Problem]:
    """The analyzer is one that MLPerf accepts, at 1 Hz, with its uncertainty watched and below 1 %
    during the run.
    """
    told = session.reply("Identify")
    model, match = told.partition(",")[0], VERSION.search(told)
    if model not in MODELS:
        yield Problem(
            file=SERVER, found=f"analyzer {model!r}", required=f"one of {', '.join(MODELS)}"
        )
    if (match[1] if match else "") not in VERSIONS:
        yield Problem(
            file=SERVER,
            found=f"daemon {told[:60]!r}",
            required=f"version {', '.join(VERSIONS)}",
            odd=True,
        )
    number = session.server.device_type
    if model in MODELS and number is not None and number != MODELS[model]:
        yield Problem(
            file=SERVER, found=f"device type {number} for {model}", required=f"{MODELS[model]}"
        )
    if session.reply("Go,") != STARTED:
        yield Problem(
            file=SERVER,
            found=f"a start answered by {session.reply('Go,')[:80]!r}",
            required="a measurement each 1000 ms",
        )
    yield from uncertainty(session)


def uncertainty(session: Session) -> Iterator[Problem]:
    """Read the daemon's log: the check of uncertainty is on before ranging; errors after ranging,
    and warnings during the run.
    """
    begin, end = session.windows[TESTING]
    name = session.server.session_name
    watched, ranged, now = False, False, 0
    for line in session.daemon_lines:
        match = STAMPED.match(line)
        now, text = (
            (utc_ns(match[1], session.server.timezone_s), match[2].strip())
            if match
            else (now, line)
        )
        watched = watched or (not ranged and UNCERTAIN.search(text) is not None)
        ranged = ranged or text.endswith(f"Go with mark '{name}_ranging'")
        inside = begin < now < end
        if "ERROR:" in text and inside:
            yield Problem(
                file=DAEMON_LOG,
                found=text[:120],
                required="no error during the run",
                odd=text.endswith(USB),
            )
        elif "WARNING:" in text and inside:
            yield Problem(
                file=DAEMON_LOG,
                found=text[:120],
                required="no warning during the run",
                odd=not ABOVE.search(text),
            )
    if not watched:
        yield Problem(
            file=DAEMON_LOG,
            found="no check of uncertainty before ranging",
            required="'Uncertainty checking for Yokogawa... is activated'",
        )
    if not ranged:
        yield Problem(
            file=DAEMON_LOG,
            found=f"no measurement with the mark {name}_ranging",
            required="the session's own log",
        )


def readings(session: Session) -> Iterator[Problem]:
    """The readings are of this session's testing phase, in order, and cover LoadGen's run; none is
    negative.
    """
    name, samples = f"{TESTING}/{SPL}", session.samples
    mark = f"{session.server.session_name}_testing"
    if strange := {each.mark for each in samples} - {mark}:
        yield Problem(file=name, found=f"readings marked {min(strange)!r}", required=repr(mark))
    begin, end = session.windows[TESTING]
    try:
        energy(session.readings.tracks[NAME].series, begin, end)
    except NoEnergyError as error:
        yield Problem(
            file=name,
            found=str(error),
            required="readings from before power_begin to after power_end",
        )
    inside = [each for each in samples if begin < each.t_ns < end]
    if any(each.watts == 0 for each in inside):
        yield Problem(
            file=name, found="readings of 0 W", required="a system that draws power", odd=True
        )
    yield from sparse(session, inside)
    yield from products(session, inside)


def sparse(session: Session, inside: Sequence[Sample]) -> Iterator[Problem]:
    """The analyzer was read each second: few seconds of the run are without a reading."""
    begin, end = session.windows[TESTING]
    name, seconds = f"{TESTING}/{SPL}", int((end - begin) / NS_PER_S)
    if len(inside) + 1 < FEWEST * seconds:
        yield Problem(
            file=name,
            found=f"{len(inside)} readings in {seconds} s",
            required="a reading each second",
        )
    gap_ns = max((after.t_ns - before.t_ns for before, after in pairwise(inside)), default=0)
    if gap_ns > GAP_NS:
        yield Problem(
            file=name,
            found=f"no reading for {gap_ns / NS_PER_S:.3g} s",
            required="a reading each second",
            odd=True,
        )


def products(session: Session, inside: Sequence[Sample]) -> Iterator[Problem]:
    """Watts are volts x amps x power factor, but for the digits that the analyzer prints."""
    name = f"{TESTING}/{SPL}"
    pairs = [(each.watts, each.volts * each.amps * abs(each.power_factor)) for each in inside]
    watts, expected = (fsum(pair[place] for pair in pairs) for place in (0, 1))
    single = not session.reply("Identify").partition(",")[0].endswith(NO_PRODUCT)
    if single and abs(watts - expected) > FALSE * max(watts, expected):
        found = (
            f"a mean of {watts / len(pairs):,.1f} W, and {expected / len(pairs):,.1f} W as volts x"
            " amps x power factor"
        )
        yield Problem(file=name, found=found, required=f"within {FALSE:.0%}")
    elif product := [pair for pair in pairs if abs(pair[0] - pair[1]) > FACTOR * max(pair[0], 1)]:
        yield Problem(
            file=name,
            found=f"{len(product)} powers that are not volts x amps x power factor",
            required=f"within {FACTOR:.0%}",
            odd=True,
        )


CHECKS: Final[tuple[Check, ...]] = (identity, files, phases, device, readings)


def problems(session: Session) -> list[Problem]:
    """Return everything that does not hold of a session."""
    return [problem for check in CHECKS for problem in guarded(check, session)]


def sound(session: Session) -> bool:
    """Whether a session's energy counts."""
    return all(problem.odd for problem in problems(session))
