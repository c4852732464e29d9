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

from suite.energy import NoEnergyError, compute_window_energy
from suite.files.untrusted_files import UnreadableError, describe_parse_failure, open_regular_file
from suite.measurement.mlperf_power.session import (
    ANALYZER_CHANNEL,
    ANALYZER_LOG,
    CLIENT_RECORD,
    DAEMON_LOG,
    RANGING_FOLDER,
    SERVER_RECORD,
    SESSION_FILES,
    TESTING_FOLDER,
    AnalyzerReading,
    PowerSession,
    parse_server_time_ns,
)
from suite.units import NS_PER_S

ANALYZER_NUMBERS: Final[Mapping[str, int]] = {
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
DAEMON_VERSIONS: Final = ("1.9.1", "1.9.2", "1.10.0", "1.11.1")
"""Versions of the daemon that the checkers of the rounds accept. Source: check.py,
SUPPORTED_VERSION, over its history.
"""
MAX_STEP_OFFSET_MS: Final = 500
"""Client and server at the same step. Source: check.py, TIME_DELTA_TOLERANCE."""
MAX_SHORTER_SHARE: Final = 0.5
"""Share by which the measured run may be shorter than the ranging run. Source: check.py,
compare_duration.
"""
ODD_SHORTER_SHARE: Final = 0.05
"""The same as check.py's message has it: more is odd."""
ODD_PRODUCT_SHARE: Final = 0.02
"""Share by which watts may differ from volts x amps x power factor, which the analyzer prints with
four digits: more is odd. Source: house rule.
"""
MAX_PRODUCT_SHARE: Final = 0.1
"""The same over the whole run, which no analyzer's error explains: watts that were edited. Source:
house rule.
"""
NO_PRODUCT_ENDINGS: Final = ("_multichannel", "_DC")
"""Endings of analyzers whose watts need not be one product of volts, amps and power factor."""
MIN_READINGS_SHARE: Final = 0.9
"""Share of the run's seconds that have a reading. Source: the daemon's command, a reading each 1000
ms; house rule: a tenth for errors of USB.
"""
ODD_READING_GAP_NS: Final = 2_000_000_000
"""A longer time without a reading is odd. Source: as above."""
MEASUREMENT_START_REPLY: Final = (
    "Starting untimed measurement, maximum 500000 samples at 1000ms with 0 rampup samples"
)
DAEMON_LOG_LINE: Final = re.compile(r"(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d\.\d{3})(.*)")
UNCERTAINTY_CHECK_ACTIVE: Final = re.compile(r"Uncertainty checking for Yokogawa\S+ is activated")
UNCERTAINTY_ABOVE_LIMIT: Final = re.compile(r"Uncertainty \d+\.\d+%, which is above 1\.00% limit")
DAEMON_VERSION: Final = re.compile(r"version=(.+?)-")
GREETINGS: Final = {
    "cmd": re.compile(r"mlcommons/power client v(\d+)"),
    "reply": re.compile(r"mlcommons/power server v(\d+)"),
}
USB_ERROR_ENDING: Final = "USB."
"""An error of the daemon that check.py accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProblem:
    """One thing that does not hold."""

    file: str
    """As a session names it: power/client.json."""
    found: str
    required: str
    odd: bool = False
    """Only odd: a warning."""


SessionCheck = Callable[[PowerSession], Iterator[SessionProblem]]


def run_session_check(check: SessionCheck, session: PowerSession) -> Iterator[SessionProblem]:
    """Run a check; a file that cannot be read is a problem, too."""
    try:
        yield from check(session)
    except UnreadableError as error:
        name = next(
            (name for name in SESSION_FILES if session.locate_file(name) == error.path),
            error.path.name,
        )
        yield SessionProblem(
            file=name, found=error.reason, required="a file that the workflow writes"
        )
    except (ValueError, ArithmeticError) as error:
        yield SessionProblem(
            file=SERVER_RECORD,
            found=describe_parse_failure(error),
            required="a session that the workflow writes",
        )


def check_session_identity(session: PowerSession) -> Iterator[SessionProblem]:
    """Client and server tell of one session: identities, name, commands and answers, version; not
    in debug mode.
    """
    client, server = session.client, session.server
    for name in ("client", "server"):
        ours, theirs = client.uuid[name], server.uuid[name]
        if ours != theirs:
            yield SessionProblem(
                file=SERVER_RECORD,
                found=f"{name} {theirs}",
                required=f"{ours}, as client.json has it",
            )
    if client.session_name != server.session_name or not server.session_name:
        yield SessionProblem(
            file=SERVER_RECORD,
            found=f"session {server.session_name!r}",
            required=f"{client.session_name!r}, as client.json has it",
        )
    said, heard = (
        [(each.cmd, each.reply if each.cmd != "time" else "") for each in side.messages]
        for side in (client, server)
    )
    if said != heard:
        index = next(
            (
                index
                for index, (one, other) in enumerate(zip(said, heard, strict=False))
                if one != other
            ),
            min(len(said), len(heard)),
        )
        yield SessionProblem(
            file=SERVER_RECORD,
            found=f"message {index + 1} of {len(heard)} differs",
            required=f"the {len(said)} messages of client.json",
        )
    first = server.messages[0] if server.messages else None
    versions = {
        match[1] if (match := GREETINGS[name].fullmatch(getattr(first, name, ""))) else None
        for name in GREETINGS
    }
    if len(versions) > 1 or None in versions:
        yield SessionProblem(
            file=SERVER_RECORD,
            found="a greeting of client and server that differ",
            required="power client and power server of one version",
        )
    if server.debug:
        yield SessionProblem(
            file=SERVER_RECORD, found="debug mode", required="a server that is not in debug mode"
        )


def check_session_files(session: PowerSession) -> Iterator[SessionProblem]:
    """Every file of the session is there, and is what client and server hashed; the logs of the
    measured run are the run's own.
    """
    recorded: dict[str, str] = {}
    for side in (session.client, session.server):
        for name, sha1 in side.results.items():
            if recorded.setdefault(name, sha1) != sha1:
                yield SessionProblem(
                    file=name, found="two hashes, by client and server", required="one"
                )
    for name in SESSION_FILES:
        found = compute_session_sha1(session, name)
        if name in (CLIENT_RECORD, SERVER_RECORD):
            continue  # the workflow hashes neither: it writes them last
        if name not in recorded:
            yield SessionProblem(
                file=name,
                found="no hash in client.json and server.json",
                required="the hash that the session took",
            )
        elif found != recorded[name]:
            own = name.startswith(f"{TESTING_FOLDER}/mlperf_log")
            yield SessionProblem(
                file=name,
                found=f"SHA-1 {found}",
                required=(
                    f"{recorded[name]}, as the session has"
                    f" it{': it measured another run' if own else ''}"
                ),
            )


def compute_session_sha1(session: PowerSession, name: str) -> str:
    """Hash a file; UnreadableError if it is missing."""
    path = session.locate_file(name)
    try:
        digest = hashlib.sha1(usedforsecurity=False)
        with open_regular_file(path) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise UnreadableError(path, error.strerror or str(error)) from error


def check_session_phases(session: PowerSession) -> Iterator[SessionProblem]:
    """Client and server pass each step together, LoadGen's run lies in the testing phase, and
    ranging took about as long.
    """
    for mode in ("ranging", "testing"):
        ours, theirs = session.client.phases[mode], session.server.phases[mode]
        if len(ours) != len(theirs) or len(ours) < 3:
            yield SessionProblem(
                file=SERVER_RECORD,
                found=f"{len(theirs)} steps of {mode}, and {len(ours)} in client.json",
                required="the same, three or more",
            )
            return
        if any(after < before for before, after in pairwise(ours)):
            yield SessionProblem(
                file=CLIENT_RECORD,
                found=f"steps of {mode} that go back in time",
                required="steps in their order",
            )
        apart_ms = max(abs(one - other) for one, other in zip(ours, theirs, strict=True)) / 1e6
        if apart_ms > MAX_STEP_OFFSET_MS:
            yield SessionProblem(
                file=SERVER_RECORD,
                found=f"steps of {mode} that are {apart_ms:,.0f} ms apart",
                required=f"at most {MAX_STEP_OFFSET_MS} ms: clocks set by NTP",
            )
        begin, end = session.windows[RANGING_FOLDER if mode == "ranging" else TESTING_FOLDER]
        if not ours[1] < begin < end < ours[2]:
            yield SessionProblem(
                file=CLIENT_RECORD,
                found=f"LoadGen's {mode} run outside its phase",
                required="power_begin and power_end within the phase",
            )
    lengths = {mode: end - begin for mode, (begin, end) in session.windows.items()}
    shorter = 1.0
    if lengths[RANGING_FOLDER] > 0:
        shorter = 1 - lengths[TESTING_FOLDER] / lengths[RANGING_FOLDER]
    if shorter > ODD_SHORTER_SHARE:
        yield SessionProblem(
            file=CLIENT_RECORD,
            found=f"a run {shorter:.0%} shorter than ranging",
            required=f"at most {MAX_SHORTER_SHARE:.0%} shorter",
            odd=shorter < MAX_SHORTER_SHARE,
        )


def check_power_analyzer(session: PowerSession) -> Iterator[SessionProblem]:
    """The analyzer is one that MLPerf accepts, at 1 Hz, with its uncertainty watched and below 1 %
    during the run.
    """
    identification = session.find_reply("Identify")
    model, match = identification.partition(",")[0], DAEMON_VERSION.search(identification)
    if model not in ANALYZER_NUMBERS:
        yield SessionProblem(
            file=SERVER_RECORD,
            found=f"analyzer {model!r}",
            required=f"one of {', '.join(ANALYZER_NUMBERS)}",
        )
    if (match[1] if match else "") not in DAEMON_VERSIONS:
        yield SessionProblem(
            file=SERVER_RECORD,
            found=f"daemon {identification[:60]!r}",
            required=f"version {', '.join(DAEMON_VERSIONS)}",
            odd=True,
        )
    number = session.server.device_type
    if model in ANALYZER_NUMBERS and number is not None and number != ANALYZER_NUMBERS[model]:
        yield SessionProblem(
            file=SERVER_RECORD,
            found=f"device type {number} for {model}",
            required=f"{ANALYZER_NUMBERS[model]}",
        )
    if session.find_reply("Go,") != MEASUREMENT_START_REPLY:
        yield SessionProblem(
            file=SERVER_RECORD,
            found=f"a start answered by {session.find_reply('Go,')[:80]!r}",
            required="a measurement each 1000 ms",
        )
    yield from check_uncertainty_log(session)


def check_uncertainty_log(session: PowerSession) -> Iterator[SessionProblem]:
    """Read the daemon's log: the check of uncertainty is on before ranging; errors after ranging,
    and warnings during the run.
    """
    begin, end = session.windows[TESTING_FOLDER]
    name = session.server.session_name
    watched, ranged, now = False, False, 0
    for line in session.daemon_lines:
        match = DAEMON_LOG_LINE.match(line)
        if match:
            now, text = (
                parse_server_time_ns(match[1], session.server.timezone_s),
                match[2].strip(),
            )
        else:
            now, text = now, line
        watched = watched or (not ranged and UNCERTAINTY_CHECK_ACTIVE.search(text) is not None)
        ranged = ranged or text.endswith(f"Go with mark '{name}_ranging'")
        inside = begin < now < end
        if "ERROR:" in text and inside:
            yield SessionProblem(
                file=DAEMON_LOG,
                found=text[:120],
                required="no error during the run",
                odd=text.endswith(USB_ERROR_ENDING),
            )
        elif "WARNING:" in text and inside:
            yield SessionProblem(
                file=DAEMON_LOG,
                found=text[:120],
                required="no warning during the run",
                odd=not UNCERTAINTY_ABOVE_LIMIT.search(text),
            )
    if not watched:
        yield SessionProblem(
            file=DAEMON_LOG,
            found="no check of uncertainty before ranging",
            required="'Uncertainty checking for Yokogawa... is activated'",
        )
    if not ranged:
        yield SessionProblem(
            file=DAEMON_LOG,
            found=f"no measurement with the mark {name}_ranging",
            required="the session's own log",
        )


def check_analyzer_readings(session: PowerSession) -> Iterator[SessionProblem]:
    """The readings are of this session's testing phase, in order, and cover LoadGen's run; none is
    negative.
    """
    name, samples = f"{TESTING_FOLDER}/{ANALYZER_LOG}", session.samples
    mark = f"{session.server.session_name}_testing"
    if strange := {each.mark for each in samples} - {mark}:
        yield SessionProblem(
            file=name, found=f"readings marked {min(strange)!r}", required=repr(mark)
        )
    begin, end = session.windows[TESTING_FOLDER]
    try:
        compute_window_energy(
            session.readings.tracks[ANALYZER_CHANNEL].channel_readings, begin, end
        )
    except NoEnergyError as error:
        yield SessionProblem(
            file=name,
            found=str(error),
            required="readings from before power_begin to after power_end",
        )
    inside = [each for each in samples if begin < each.t_ns < end]
    if any(each.watts == 0 for each in inside):
        yield SessionProblem(
            file=name, found="readings of 0 W", required="a system that draws power", odd=True
        )
    yield from check_reading_gaps(session, inside)
    yield from check_power_products(session, inside)


def check_reading_gaps(
    session: PowerSession, inside: Sequence[AnalyzerReading]
) -> Iterator[SessionProblem]:
    """The analyzer was read each second: few seconds of the run are without a reading."""
    begin, end = session.windows[TESTING_FOLDER]
    name, seconds = f"{TESTING_FOLDER}/{ANALYZER_LOG}", int((end - begin) / NS_PER_S)
    if len(inside) + 1 < MIN_READINGS_SHARE * seconds:
        yield SessionProblem(
            file=name,
            found=f"{len(inside)} readings in {seconds} s",
            required="a reading each second",
        )
    gap_ns = max((after.t_ns - before.t_ns for before, after in pairwise(inside)), default=0)
    if gap_ns > ODD_READING_GAP_NS:
        yield SessionProblem(
            file=name,
            found=f"no reading for {gap_ns / NS_PER_S:.3g} s",
            required="a reading each second",
            odd=True,
        )


def check_power_products(
    session: PowerSession, inside: Sequence[AnalyzerReading]
) -> Iterator[SessionProblem]:
    """Watts are volts x amps x power factor, but for the digits that the analyzer prints."""
    name = f"{TESTING_FOLDER}/{ANALYZER_LOG}"
    pairs = [(each.watts, each.volts * each.amps * abs(each.power_factor)) for each in inside]
    watts, expected = (fsum(pair[index] for pair in pairs) for index in (0, 1))
    single = not session.find_reply("Identify").partition(",")[0].endswith(NO_PRODUCT_ENDINGS)
    if single and abs(watts - expected) > MAX_PRODUCT_SHARE * max(watts, expected):
        found = (
            f"a mean of {watts / len(pairs):,.1f} W, and {expected / len(pairs):,.1f} W as volts x"
            " amps x power factor"
        )
        yield SessionProblem(file=name, found=found, required=f"within {MAX_PRODUCT_SHARE:.0%}")
    elif product := [
        pair for pair in pairs if abs(pair[0] - pair[1]) > ODD_PRODUCT_SHARE * max(pair[0], 1)
    ]:
        yield SessionProblem(
            file=name,
            found=f"{len(product)} powers that are not volts x amps x power factor",
            required=f"within {ODD_PRODUCT_SHARE:.0%}",
            odd=True,
        )


SESSION_CHECKS: Final[tuple[SessionCheck, ...]] = (
    check_session_identity,
    check_session_files,
    check_session_phases,
    check_power_analyzer,
    check_analyzer_readings,
)


def collect_session_problems(session: PowerSession) -> list[SessionProblem]:
    """Return everything that does not hold of a session."""
    return [problem for check in SESSION_CHECKS for problem in run_session_check(check, session)]


def is_valid_power_session(session: PowerSession) -> bool:
    """Whether a session's energy counts."""
    return all(problem.odd for problem in collect_session_problems(session))
