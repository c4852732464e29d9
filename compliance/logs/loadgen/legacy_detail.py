"""LoadGen's detail log before 1.0: lines of text with a timestamp, and blocks without one.

    "pid": 4303, "tid": 4303, "ts": 26267ns : min_duration (ms): 60000

Sources of the format: mlcommons/inference of branches r0.5 and r0.7: loadgen/logging.cc
(AsyncLog::LogDetail), version.cc,
test_settings_internal.cc, loadgen.cc. Accepted logs contain NUL bytes (string terminators that were
written along) and CRLF.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from compliance.logs.loadgen import sample_lists
from compliance.logs.loadgen.setting_names import plain
from compliance.logs.loadgen.summary import Value
from compliance.logs.source_file import BOMS, Kind, SourceFile, shown, wide
from compliance.verdict import Severity
from suite.files.untrusted_files import opened

LINE_LIMIT: Final = 64 << 20
"""Maximum bytes of one line; the longest lists the 3,903,900 samples of GNMT's loaded set."""
LENIENCY: Final = {Kind.ENCODING: Severity.INFO, Kind.CUT: Severity.INFO}
"""73 accepted summary and detail logs contain NUL bytes."""
STAMP: Final = re.compile(rb'(?:"pid": \d+, )?(?:"tid": \d+, )?"ts": (-?\d+)ns : ?')
"""Timestamp of a line; negative if a thread was registered before the log's clock was set."""
SHA1: Final = re.compile(r"([0-9a-f]{40}) (/\S.*)")
GENERATED: Final = re.compile(
    r'GeneratedQueries: "queries" : (\d+), "samples per query" : (\d+), "duration" : (-?\d+)$'
)
POWER: Final = re.compile(r'POWER_(BEGIN|END): "mode" : (\w+), "time" : (.*)')
LOADING: Final = b'Loading QSL : "set" : "['


class Mode(StrEnum):
    """The mode that LoadGen was asked to run: its ToString(TestMode)."""

    SUBMISSION = "Submission"
    """Both modes, one after the other."""
    ACCURACY = "Accuracy"
    PERFORMANCE = "Performance"
    PEAK = "FindPeakPerformance"


def spelt(mode: str) -> str:
    """Return a mode in version 0.5's spelling; later versions write PerformanceOnly, AccuracyOnly
    and SubmissionRun.
    """
    return mode.removesuffix("Only").removesuffix("Run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A set of samples that was loaded."""

    line: int
    count: int
    """Number of samples listed in the line; MultiStream pads its sets with samples of the same
    set.
    """
    distinct: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The queries that LoadGen generated."""

    line: int
    time_ns: int
    queries: int
    samples_per_query: int
    duration_ns: int
    """Scheduled duration of all of them."""


@dataclass(slots=True)
class Phase:
    """The accuracy or the performance half of a run."""

    mode: Mode
    line: int
    loaded: list[Loaded] = field(default_factory=list)
    generated: list[Generated] = field(default_factory=list)
    natural_end: Value | None = None
    counters: list[tuple[int, int]] = field(default_factory=list)
    """Line and time in nanoseconds at which all queries of each set had been answered."""
    power: list[tuple[str, str, str, int]] = field(default_factory=list)
    """BEGIN or END, mode, wall clock, line."""


@dataclass(slots=True)
class Remark:
    """An error or warning from LoadGen."""

    text: str
    line: int


@dataclass(slots=True)
class DetailLog:
    """A parsed detail log."""

    version: Value | None = None
    """Version, in the form `.5a1 @ 71940a7a4c`."""
    commit: Value | None = None
    """The git commit that LoadGen was built from, as git log prints it."""
    git_status: list[Value] = field(default_factory=list)
    """Uncommitted changes in LoadGen's sources when it was built."""
    hashes: dict[str, Value] = field(default_factory=dict)
    """File of LoadGen's sources -> SHA-1."""
    about: dict[str, Value] = field(default_factory=dict)
    """Date, names and sizes, by their names in the log."""
    effective: dict[str, Value] = field(default_factory=dict)
    requested: dict[str, Value] = field(default_factory=dict)
    phases: list[Phase] = field(default_factory=list)
    errors: list[Remark] = field(default_factory=list)
    warnings: list[Remark] = field(default_factory=list)
    audit: int | None = None
    """Line stating that an audit.config changed the settings."""
    backwards: list[tuple[int, int, int]] = field(default_factory=list)
    """Line, time and preceding time, in nanoseconds, where the clock runs backwards."""
    seen: bytearray = field(default_factory=bytearray)
    """One byte per sample: 1 if an accuracy phase had it loaded."""
    stamped: int = 0
    """Lines with a time stamp."""

    def phase(self, mode: Mode) -> Phase | None:
        """Return the last phase of a mode."""
        return next((phase for phase in reversed(self.phases) if phase.mode is mode), None)

    def number(self, name: str) -> float | None:
        """Return an effective setting as a number, else None."""
        return number(self.effective.get(name))

    def text(self, name: str) -> str | None:
        """Return a line of the log's head as text."""
        return self.about[name].text if name in self.about else None


def number(value: Value | None) -> float | None:
    """Convert a value to a number; None if it is not one."""
    try:
        return float(value.text) if value else None
    except ValueError:
        return None


def read(source: SourceFile) -> DetailLog:
    """Read a detail log; unreadable parts are recorded as flaws of its source."""
    source.leniency = LENIENCY
    log = DetailLog()
    reader = Reader(source, log)
    try:
        for text in lines(source):
            reader.take(text)
    except (OSError, ValueError) as error:
        source.unreadable(error)
        return log
    if not log.stamped and not source.has(Kind.MISSING, Kind.UNREADABLE):
        source.add(
            Kind.RECORD, "no line of LoadGen's", 'lines that begin with "pid", "tid" and "ts"'
        )
    return log


def lines(source: SourceFile) -> Iterator[bytes]:
    """Yield the lines without line ends and NUL bytes."""
    nul = False
    with opened(source.path) as stream:
        while text := stream.readline(LINE_LIMIT):
            source.lines += 1
            if len(text) == LINE_LIMIT and not text.endswith(b"\n"):
                source.add(
                    Kind.RECORD,
                    f"a line of more than {LINE_LIMIT} bytes",
                    "lines as LoadGen writes them",
                    source.lines,
                )
                return
            if text.startswith(BOMS) or (source.lines == 1 and wide(text)):
                source.add(Kind.RECORD, "UTF-16 text", "text of one byte a letter", source.lines)
                return
            if b"\0" in text:
                if not nul:
                    source.add(Kind.ENCODING, "a NUL byte", "text", source.lines)
                nul, text = True, text.replace(b"\0", b"")
            yield text.rstrip(b"\r\n")
    if source.lines == 0:
        source.add(Kind.RECORD, "an empty file", "LoadGen's detail log")


BLOCKS: Final = {
    "Effective Settings:": "effective",
    "Requested Settings:": "requested",
    "git_status :": "status",
    "SHA1 of files :": "files",
    "git_log :": "log",
}
"""Heading -> the block that it opens."""
UNKNOWN: Final = "NA"
"""What LoadGen prints if it was built outside a git repository."""
COMMIT: Final = re.compile(r"([0-9a-f]{40}) .*")


@dataclass(slots=True)
class Reader:
    """Parses the lines in order."""

    source: SourceFile
    log: DetailLog
    block: str = ""
    """The block that the last heading opened."""
    last_ns: int = 0

    def take(self, text: bytes) -> None:
        """Parse one line."""
        stamp = STAMP.match(text)
        if stamp is None:
            self.unstamped(text.decode("latin-1"))
            return
        self.log.stamped += 1
        now = int(stamp[1][:20])
        if now < self.last_ns and self.last_ns > 0 and len(self.log.backwards) < 100:
            self.log.backwards.append((self.source.lines, now, self.last_ns))
        self.last_ns = now
        if text.startswith(LOADING, stamp.end()):
            self.loading(text[stamp.end() + len(LOADING) :])
        else:
            self.stamped(text[stamp.end() :].decode("latin-1").strip(), now)

    def unstamped(self, text: str) -> None:
        """Parse a line of a block without timestamps: git's log and status, and the SHA-1s of
        files.
        """
        stripped = text.strip()
        if self.block == "status" and stripped and stripped != UNKNOWN:
            self.log.git_status.append(Value(stripped, self.source.lines))
        elif (
            self.block == "log"
            and self.log.commit is None
            and (match := COMMIT.fullmatch(stripped))
        ):
            self.log.commit = Value(match[1], self.source.lines)
        elif match := SHA1.fullmatch(stripped):
            if self.block == "files":
                self.log.hashes.setdefault(match[2], Value(match[1], self.source.lines))
        elif stripped.startswith(("ERROR", '"pid"', '"ts"')):
            self.source.add(
                Kind.RECORD,
                shown(text.encode("latin-1")),
                'a stamp, as "pid": 1, "tid": 1, "ts": 1ns',
                self.source.lines,
            )

    def stamped(self, text: str, now: int) -> None:
        """Parse a line whose timestamp has been removed."""
        if text in BLOCKS:
            self.block = BLOCKS[text]
        elif text.startswith("ERROR"):
            self.log.errors.append(Remark(text, self.source.lines))
        elif text.startswith("WARNING"):
            self.log.warnings.append(Remark(text, self.source.lines))
        elif text.startswith("Starting "):
            self.block = ""
            self.start(text)
        elif self.log.phases:
            self.event(self.log.phases[-1], text, now)
        elif text.startswith("version :"):
            self.log.version = self.log.version or Value(
                text.partition(":")[2].strip(), self.source.lines
            )
        elif text.startswith("Found Audit Config file"):
            self.log.audit = self.source.lines
        else:
            self.setting(text)

    def start(self, text: str) -> None:
        """Open a phase."""
        name = text.removeprefix("Starting ").split(" mode")[0].casefold()
        mode = next((mode for mode in Mode if mode.casefold() == name), None)
        if mode is not None:
            self.log.phases.append(Phase(mode, self.source.lines))

    def setting(self, text: str) -> None:
        """Store a `name : value` line in the open block."""
        name, colon, value = text.partition(":")
        if not colon:
            return
        part = {"effective": self.log.effective, "requested": self.log.requested}.get(
            self.block, self.log.about
        )
        kept = Value(value.strip(), self.source.lines)
        told = part.setdefault(plain(name), kept)
        if told is not kept and part is not self.log.about:
            self.source.add(
                Kind.DUPLICATE,
                f"'{plain(name)}' occurs twice: {told.text} and {kept.text}",
                "each setting once",
                kept.line,
            )

    def event(self, phase: Phase, text: str, now: int) -> None:
        """Store an event of a running phase."""
        if match := GENERATED.match(text):
            queries, per_query, duration = (int(match[place][:20]) for place in (1, 2, 3))
            phase.generated.append(
                Generated(
                    line=self.source.lines,
                    time_ns=now,
                    queries=queries,
                    samples_per_query=per_query,
                    duration_ns=duration,
                )
            )
        elif match := POWER.match(text):
            phase.power.append((match[1], spelt(match[2]), match[3].strip(), self.source.lines))
        elif text.startswith("Ending naturally"):
            phase.natural_end = Value(text, self.source.lines)
        elif text.startswith("Log Contention Counters"):
            phase.counters.append((self.source.lines, now))
        elif text.startswith(("GeneratedQueries", "POWER_")):
            self.source.add(
                Kind.RECORD,
                shown(text.encode("latin-1")),
                "the line whole, as LoadGen writes it",
                self.source.lines,
            )

    def loading(self, text: bytes) -> None:
        """Count the samples of a set that was loaded."""
        if not self.log.phases:
            return
        phase = self.log.phases[-1]
        try:
            marks, count = sample_lists.marked(text)
        except ValueError as error:
            self.source.add(
                Kind.RECORD,
                f"{error} in a list of loaded samples",
                "numbers of samples",
                self.source.lines,
            )
            return
        lowest, highest = marks.find(1), marks.rfind(1)
        phase.loaded.append(
            Loaded(
                line=self.source.lines,
                count=count,
                distinct=marks.count(1),
                lowest=lowest,
                highest=highest,
            )
        )
        if phase.mode is Mode.ACCURACY:
            self.log.seen = sample_lists.merged(self.log.seen, marks)
