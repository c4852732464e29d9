"""LoadGen's detail log before 1.0: lines of text with a timestamp, and blocks without one.

    "pid": 4303, "tid": 4303, "ts": 26267ns : min_duration (ms): 60000

Sources of the format: mlcommons/inference of branches r0.5 and r0.7: loadgen/logging.cc
(AsyncLog::LogDetail), version.cc, test_settings_internal.cc, loadgen.cc. Accepted logs contain NUL
bytes (string terminators that were written along) and CRLF.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from compliance.logs.loadgen import sample_lists
from compliance.logs.loadgen.setting_names import normalise_setting_name
from compliance.logs.loadgen.summary import LogValue
from compliance.logs.log_index import LogIndex
from compliance.logs.source_file import (
    UTF16_BYTE_ORDER_MARKS,
    ParseErrorKind,
    SourceFile,
    format_excerpt,
    is_utf16_text,
)
from compliance.verdict import Severity
from suite.files.untrusted_files import open_regular_file

MAX_DETAIL_LINE_BYTES: Final = 64 << 20
"""Maximum bytes of one line; the longest lists the 3,903,900 samples of GNMT's loaded set."""
LEGACY_LOADGEN_LENIENCY: Final = {
    ParseErrorKind.ENCODING: Severity.INFO,
    ParseErrorKind.CUT: Severity.INFO,
}
"""NUL bytes are accepted: 73 accepted summary and detail logs contain them."""
TIMESTAMP_PATTERN: Final = re.compile(rb'(?:"pid": \d+, )?(?:"tid": \d+, )?"ts": (-?\d+)ns : ?')
"""Timestamp of a line; negative if a thread was registered before the log's clock was set."""
SHA1_LINE_PATTERN: Final = re.compile(r"([0-9a-f]{40}) (/\S.*)")
GENERATED_QUERIES_PATTERN: Final = re.compile(
    r'GeneratedQueries: "queries" : (\d+), "samples per query" : (\d+), "duration" : (-?\d+)$'
)
POWER_EVENT_PATTERN: Final = re.compile(r'POWER_(BEGIN|END): "mode" : (\w+), "time" : (.*)')
LOADED_SET_PREFIX: Final = b'Loading QSL : "set" : "['


SETTING_KEYS: Final = {"Scenario": "scenario", "Test mode": "test_mode"}
"""Settings whose names LoadGen changed later."""
HEAD_KEYS: Final = {
    "build_date_utc": "loadgen_build_date_utc",
    "Date + time of test": "test_datetime",
    "System Under Test (SUT) name": "sut_name",
    "Query Sample Library (QSL) name": "qsl_name",
    "QSL total size": "qsl_reported_total_count",
    "QSL performance size": "qsl_reported_performance_count",
}
"""Line of a log's head -> the key that LoadGen has written for it since 1.0."""


class LegacyTestMode(StrEnum):
    """The requested mode of LoadGen: its ToString(TestMode)."""

    SUBMISSION = "Submission"
    """Both modes, one after the other."""
    ACCURACY = "Accuracy"
    PERFORMANCE = "Performance"
    PEAK = "FindPeakPerformance"


def normalise_test_mode(mode: str) -> str:
    """Return a mode in version 0.5's spelling; later versions write PerformanceOnly, AccuracyOnly
    and SubmissionRun.
    """
    return mode.removesuffix("Only").removesuffix("Run")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSampleSet:
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
class GeneratedQuerySet:
    """The queries that LoadGen generated."""

    line: int
    time_ns: int
    queries: int
    samples_per_query: int
    duration_ns: int
    """Scheduled duration of all of them."""


@dataclass(slots=True)
class LegacyRunPhase:
    """The accuracy or the performance half of a run."""

    mode: LegacyTestMode
    line: int
    loaded: list[LoadedSampleSet] = field(default_factory=list)
    generated: list[GeneratedQuerySet] = field(default_factory=list)
    natural_end: LogValue | None = None
    counters: list[tuple[int, int]] = field(default_factory=list)
    """Line and time in nanoseconds at which all queries of each set had been answered."""
    power: list[tuple[str, str, str, int]] = field(default_factory=list)
    """BEGIN or END, mode, wall clock, line."""


@dataclass(slots=True)
class LoadGenRemark:
    """An error or warning from LoadGen."""

    text: str
    line: int


class LoggedSetting(NamedTuple):
    """A setting, or a line of the log's head."""

    key: str
    """The key that LoadGen has written for it since 1.0, as in effective_min_duration_ms."""
    text: str
    line: int

    @property
    def value(self) -> str:
        """Return the value, which this era writes as text."""
        return self.text


class SettingIndex(LogIndex[LoggedSetting]):
    """The settings of a log and the lines of its head by key; the first of a repeated key."""

    def find_number(self, key: str) -> float | None:
        """Return a value as a number; None if it is none."""
        return parse_setting_number(self.find_record(key))


@dataclass(slots=True)
class LegacyDetailLog:
    """A parsed detail log."""

    version: LogValue | None = None
    """Version, in the form `.5a1 @ 71940a7a4c`."""
    commit: LogValue | None = None
    """The git commit that LoadGen was built from, as git log prints it."""
    git_status: list[LogValue] = field(default_factory=list)
    """Uncommitted changes in LoadGen's sources when it was built."""
    hashes: dict[str, LogValue] = field(default_factory=dict)
    """File of LoadGen's sources -> SHA-1."""
    index: SettingIndex = field(default_factory=SettingIndex)
    phases: list[LegacyRunPhase] = field(default_factory=list)
    errors: list[LoadGenRemark] = field(default_factory=list)
    warnings: list[LoadGenRemark] = field(default_factory=list)
    audit: int | None = None
    """Line stating that an audit.config changed the settings."""
    clock_steps_back: list[tuple[int, int, int]] = field(default_factory=list)
    """Line, time and preceding time, in nanoseconds, at which the clock decreases."""
    accuracy_samples: bytearray = field(default_factory=bytearray)
    """One byte per sample: 1 if an accuracy phase had it loaded."""
    stamped_lines: int = 0
    """Lines with a time stamp."""

    def find_phase(self, mode: LegacyTestMode) -> LegacyRunPhase | None:
        """Return the last phase of a mode."""
        return next((phase for phase in reversed(self.phases) if phase.mode is mode), None)


def parse_setting_number(value: LoggedSetting | LogValue | None) -> float | None:
    """Convert a value to a number; None if it is not one."""
    try:
        if value:
            return float(value.text)
        return None
    except ValueError:
        return None


def read_legacy_detail(source: SourceFile) -> LegacyDetailLog:
    """Read a detail log; unreadable parts are recorded as parse errors of its source."""
    source.leniency = LEGACY_LOADGEN_LENIENCY
    log = LegacyDetailLog()
    reader = LegacyDetailReader(source, log)
    try:
        for text in iterate_detail_lines(source):
            reader.parse_line(text)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
        return log
    if not log.stamped_lines and not source.has_parse_error(
        ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE
    ):
        source.add_parse_error(
            ParseErrorKind.RECORD,
            "no LoadGen line",
            'lines that begin with "pid", "tid" and "ts"',
        )
    return log


def iterate_detail_lines(source: SourceFile) -> Iterator[bytes]:
    """Yield the lines without line ends and NUL bytes."""
    nul = False
    with open_regular_file(source.path) as stream:
        while text := stream.readline(MAX_DETAIL_LINE_BYTES):
            source.lines += 1
            if len(text) == MAX_DETAIL_LINE_BYTES and not text.endswith(b"\n"):
                source.add_parse_error(
                    ParseErrorKind.RECORD,
                    f"a line of more than {MAX_DETAIL_LINE_BYTES} bytes",
                    "lines as LoadGen writes them",
                    source.lines,
                )
                return
            if text.startswith(UTF16_BYTE_ORDER_MARKS) or (
                source.lines == 1 and is_utf16_text(text)
            ):
                source.add_parse_error(
                    ParseErrorKind.RECORD,
                    "UTF-16 text",
                    "text with one byte per character",
                    source.lines,
                )
                return
            if b"\0" in text:
                if not nul:
                    source.add_parse_error(
                        ParseErrorKind.ENCODING, "a NUL byte", "text", source.lines
                    )
                nul, text = True, text.replace(b"\0", b"")
            yield text.rstrip(b"\r\n")
    if source.lines == 0:
        source.add_parse_error(ParseErrorKind.RECORD, "an empty file", "LoadGen's detail log")


BLOCK_HEADINGS: Final = {
    "Effective Settings:": "effective",
    "Requested Settings:": "requested",
    "git_status :": "status",
    "SHA1 of files :": "files",
    "git_log :": "log",
}
"""Heading -> the block that it opens."""
SETTING_BLOCKS: Final = ("effective", "requested")
UNKNOWN_GIT_STATUS: Final = "NA"
"""Text that LoadGen prints if it was built outside a git repository."""
COMMIT_LINE_PATTERN: Final = re.compile(r"([0-9a-f]{40}) .*")


@dataclass(slots=True)
class LegacyDetailReader:
    """Parses the lines in order."""

    source: SourceFile
    log: LegacyDetailLog
    block: str = ""
    """The block that the last heading opened."""
    last_ns: int = 0

    def parse_line(self, text: bytes) -> None:
        """Parse one line."""
        stamp = TIMESTAMP_PATTERN.match(text)
        if stamp is None:
            self.parse_unstamped_line(text.decode("latin-1"))
            return
        self.log.stamped_lines += 1
        now = int(stamp[1][:20])
        if now < self.last_ns and self.last_ns > 0 and len(self.log.clock_steps_back) < 100:
            self.log.clock_steps_back.append((self.source.lines, now, self.last_ns))
        self.last_ns = now
        if text.startswith(LOADED_SET_PREFIX, stamp.end()):
            self.store_loaded_set(text[stamp.end() + len(LOADED_SET_PREFIX) :])
        else:
            self.parse_stamped_line(text[stamp.end() :].decode("latin-1").strip(), now)

    def parse_unstamped_line(self, text: str) -> None:
        """Parse a line of a block without timestamps: git's log and status, and the SHA-1s of
        files.
        """
        stripped = text.strip()
        if self.block == "status" and stripped and stripped != UNKNOWN_GIT_STATUS:
            self.log.git_status.append(LogValue(stripped, self.source.lines))
        elif (
            self.block == "log"
            and self.log.commit is None
            and (match := COMMIT_LINE_PATTERN.fullmatch(stripped))
        ):
            self.log.commit = LogValue(match[1], self.source.lines)
        elif match := SHA1_LINE_PATTERN.fullmatch(stripped):
            if self.block == "files":
                self.log.hashes.setdefault(match[2], LogValue(match[1], self.source.lines))
        elif stripped.startswith(("ERROR", '"pid"', '"ts"')):
            self.source.add_parse_error(
                ParseErrorKind.RECORD,
                format_excerpt(text.encode("latin-1")),
                "a stamp such as pid: 1, tid: 1, ts: 1ns",
                self.source.lines,
            )

    def parse_stamped_line(self, text: str, now: int) -> None:
        """Parse a line whose timestamp has been removed."""
        if text in BLOCK_HEADINGS:
            self.block = BLOCK_HEADINGS[text]
        elif text.startswith("ERROR"):
            self.log.errors.append(LoadGenRemark(text, self.source.lines))
        elif text.startswith("WARNING"):
            self.log.warnings.append(LoadGenRemark(text, self.source.lines))
        elif text.startswith("Starting "):
            self.block = ""
            self.open_phase(text)
        elif self.log.phases:
            self.store_event(self.log.phases[-1], text, now)
        elif text.startswith("version :"):
            self.log.version = self.log.version or LogValue(
                text.partition(":")[2].strip(), self.source.lines
            )
        elif text.startswith("Found Audit Config file"):
            self.log.audit = self.source.lines
        else:
            self.store_setting(text)

    def open_phase(self, text: str) -> None:
        """Open a phase."""
        name = text.removeprefix("Starting ").split(" mode")[0].casefold()
        mode = next((mode for mode in LegacyTestMode if mode.casefold() == name), None)
        if mode is not None:
            self.log.phases.append(LegacyRunPhase(mode, self.source.lines))

    def store_setting(self, text: str) -> None:
        """Store a `name : value` line of the open block."""
        name, colon, value = text.partition(":")
        name = normalise_setting_name(name)
        is_setting = self.block in SETTING_BLOCKS
        key = f"{self.block}_{SETTING_KEYS.get(name, name)}" if is_setting else HEAD_KEYS.get(name)
        if not colon or key is None:
            return
        setting = LoggedSetting(key, value.strip(), self.source.lines)
        first = self.log.index.setdefault(key, [setting])[0]
        if first is not setting and is_setting:
            self.source.add_parse_error(
                ParseErrorKind.DUPLICATE,
                f"'{name}' occurs twice: {first.text} and {setting.text}",
                "each setting once",
                setting.line,
            )

    def store_event(self, phase: LegacyRunPhase, text: str, now: int) -> None:
        """Store an event of a running phase."""
        if match := GENERATED_QUERIES_PATTERN.match(text):
            queries, per_query, duration = (int(match[group][:20]) for group in (1, 2, 3))
            phase.generated.append(
                GeneratedQuerySet(
                    line=self.source.lines,
                    time_ns=now,
                    queries=queries,
                    samples_per_query=per_query,
                    duration_ns=duration,
                )
            )
        elif match := POWER_EVENT_PATTERN.match(text):
            phase.power.append(
                (match[1], normalise_test_mode(match[2]), match[3].strip(), self.source.lines)
            )
        elif text.startswith("Ending naturally"):
            phase.natural_end = LogValue(text, self.source.lines)
        elif text.startswith("Log Contention Counters"):
            phase.counters.append((self.source.lines, now))
        elif text.startswith(("GeneratedQueries", "POWER_")):
            self.source.add_parse_error(
                ParseErrorKind.RECORD,
                format_excerpt(text.encode("latin-1")),
                "the whole line, as LoadGen writes it",
                self.source.lines,
            )

    def store_loaded_set(self, text: bytes) -> None:
        """Count the samples of a set that was loaded."""
        if not self.log.phases:
            return
        phase = self.log.phases[-1]
        try:
            marks, count = sample_lists.parse_sample_marks(text)
        except ValueError as error:
            self.source.add_parse_error(
                ParseErrorKind.RECORD,
                f"{error} in a list of loaded samples",
                "numbers of samples",
                self.source.lines,
            )
            return
        lowest, highest = marks.find(1), marks.rfind(1)
        phase.loaded.append(
            LoadedSampleSet(
                line=self.source.lines,
                count=count,
                distinct=marks.count(1),
                lowest=lowest,
                highest=highest,
            )
        )
        if phase.mode is LegacyTestMode.ACCURACY:
            self.log.accuracy_samples = sample_lists.merge_sample_marks(
                self.log.accuracy_samples, marks
            )
