"""LoadGen's errors and warnings: which are harmless and which invalidate a run; runner and judge
share this list.

Any error that is not listed invalidates the run.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenMessage:
    """One of LoadGen's messages."""

    text: str
    """Part of its line that is the same in every known revision."""
    harmless: bool
    """It does not affect what was measured."""
    transient: bool = False
    """Caused by the machine, not by the settings: a rerun may not show it."""
    source: str

    def is_in(self, line: str) -> bool:
        """Return whether a log line of LoadGen contains this message."""
        return self.text in line


RAN_OUT_OF_QUERIES: Final = LoadGenMessage(
    text=(
        "Ran out of generated queries to issue before the minimum query count and test duration"
        " were reached"
    ),
    harmless=False,
    source=(
        "mlcommons/inference, loadgen/loadgen.cc, IssueQueries: the system under test was faster"
        " than expected; LoadGen calls the run INVALID"
    ),
)
CLOCKS_DIFFER: Final = LoadGenMessage(
    text="PerfClock and system_clock differ by more than 1%",
    harmless=False,
    transient=True,
    source=(
        "mlcommons/inference, loadgen/loadgen.cc, RunPerformanceMode: the wall clock was set, or"
        " the process waited between two readings"
    ),
)
UNCOMMITTED_BUILD: Final = LoadGenMessage(
    text="Loadgen built with uncommitted changes",
    harmless=False,
    source="mlcommons/inference, loadgen/version.cc, LogLoadgenVersion",
)
LOGGER_CAS_FAILED: Final = LoadGenMessage(
    text="CAS failed",
    harmless=True,
    source=(
        "mlcommons/inference, loadgen/logging.cc, TlsLogger::Log, TlsLogger::SwapBuffers and"
        " Logger::GetTlsLoggerThatRequestedSwap: two threads meet in the logger, and one tries"
        " again; a warning since LoadGen 1.0; tools/submission/submission-checker.py, MODEL_CONFIG"
        " ignore_errors of v0.5 and v0.7"
    ),
)
LOGGER_ALLOCATION: Final = LoadGenMessage(
    text="Logging allocation detected",
    harmless=True,
    source=(
        "mlcommons/inference, loadgen/logging.cc, Logger::CollectTlsLoggerStats: the logger's"
        " buffers grew; frequent with fast systems"
    ),
)
LOADGEN_MESSAGES: Final[Mapping[str, LoadGenMessage]] = {
    "ran-out": RAN_OUT_OF_QUERIES,
    "clocks": CLOCKS_DIFFER,
    "uncommitted": UNCOMMITTED_BUILD,
    "cas-failed": LOGGER_CAS_FAILED,
    "allocation": LOGGER_ALLOCATION,
}
"""All messages that runner or judge handle specially, under the names that rounds use."""


def is_harmless_error(line: str) -> bool:
    """Return whether a LoadGen error or warning leaves the run valid."""
    return any(report.harmless and report.is_in(line) for report in LOADGEN_MESSAGES.values())


def is_transient_error(line: str) -> bool:
    """Return whether a rerun may not show this error."""
    return any(report.transient and report.is_in(line) for report in LOADGEN_MESSAGES.values())


def format_repeated_errors(lines: Iterable[str]) -> dict[str, str]:
    """Map each error, in the order of their first occurrences, to the same with how often it
    occurred if that was more than once: LoadGen logs some of them for every answer.
    """
    return {
        line: line if count == 1 else f"{line} ({count:,} times)"
        for line, count in Counter(lines).items()
    }
