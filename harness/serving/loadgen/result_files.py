"""Reads LoadGen's files: completeness, verdict and answers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.audits.tokens import LoggedTokens
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, SUMMARY_LOG
from suite.files.untrusted_files import describe_parse_failure
from suite.loadgen import loadgen_errors
from suite.loadgen.headline import REQUESTED_TOKENS_KEY

DETAIL_LINE_TOKEN: Final = b":::MLLOG "
LAST_DETAIL_KEY: Final = "power_end"
"""LoadGen writes it when all queries are answered (loadgen.cc, RunPerformanceMode,
RunAccuracyMode); a verdict follows in performance mode.
"""
DETAIL_LINE_END: Final = b"}}\n"
SUMMARY_END_PATTERN: Final = re.compile(
    rb"\n(No errors encountered during test|(1 ERROR|\d+ ERRORS) encountered\. See detailed"
    rb" log)\.\n\Z"
)
"""loadgen/logging.cc, AsyncLog::SetLogFiles: the last line of a summary."""
NON_FINITE_VALUE_PATTERN: Final = re.compile(rb'"value": -?(nan|inf), ')
"""A rate over zero time, as C++ prints it: of a Server run of one query."""
TRACE_FILE: Final = "mlperf_log_trace.json"


class LoggedAnswer(msgspec.Struct):
    """One record of mlperf_log_accuracy.json."""

    qsl_idx: int
    data: str
    token_data: str = ""
    token_count: int | None = None


class EventMarkers(msgspec.Struct, frozen=True):
    """Event markers of the detail log."""

    is_error: bool = False


class DetailEvent(msgspec.Struct):
    """One line of the detail log."""

    key: str
    value: Any
    metadata: EventMarkers = EventMarkers()


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailLog:
    """Content of the detail log: the last value of every key, and its errors."""

    values: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    """Errors that void the run, in LoadGen's words."""

    def require_number(self, key: str) -> float:
        """Return a numeric value; JudgedError if the log lacks it."""
        value = self.find_number(key)
        if value is None:
            raise JudgedError(f"LoadGen's detail log has no numeric '{key}'")
        return value

    def find_number(self, key: str) -> float | None:
        """Return a numeric value; None if the log has none."""
        value = self.values.get(key)
        return float(value) if isinstance(value, int | float) else None

    @property
    def measures_tokens(self) -> bool:
        """Whether LoadGen measured first and further tokens."""
        return bool(self.values.get(REQUESTED_TOKENS_KEY))

    def is_flag_set(self, key: str) -> bool:
        """Return a boolean; a key that the log lacks counts as true."""
        return bool(self.values.get(key, True))


def check_loadgen_files(folder: Path) -> None:
    """Refuse a folder with truncated files; delete the empty trace, which is switched off."""
    (folder / TRACE_FILE).unlink(missing_ok=True)
    for name in (SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG):
        if not (folder / name).is_file():
            raise JudgedError(f"LoadGen wrote no {name}")
    if not SUMMARY_END_PATTERN.search((folder / SUMMARY_LOG).read_bytes()):
        raise JudgedError(f"{SUMMARY_LOG} is truncated")
    if (
        not (folder / DETAIL_LOG).read_bytes().endswith(DETAIL_LINE_END)
        or LAST_DETAIL_KEY not in read_detail_log(folder).values
    ):
        raise JudgedError(f"{DETAIL_LOG} is truncated")
    for _ in read_logged_answers(folder):
        pass


def read_detail_log(folder: Path) -> DetailLog:
    """Read the detail log."""
    decoder = msgspec.json.Decoder(DetailEvent)
    values: dict[str, Any] = {}
    errors: list[str] = []
    for line in (folder / DETAIL_LOG).read_bytes().splitlines():
        if line.startswith(DETAIL_LINE_TOKEN):
            event = decode_log_line(
                decoder,
                NON_FINITE_VALUE_PATTERN.sub(
                    b'"value": null, ', line.removeprefix(DETAIL_LINE_TOKEN)
                ),
                DETAIL_LOG,
            )
            values[event.key] = event.value
            if event.metadata.is_error and not loadgen_errors.is_harmless_error(str(event.value)):
                errors.append(str(event.value))
    return DetailLog(values=values, errors=tuple(errors))


def read_logged_answers(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (sample, answer) of every record."""
    for answer in read_logged_records(folder):
        yield answer.qsl_idx, decode_logged_answer(answer)


def read_logged_tokens(folder: Path) -> Iterator[LoggedTokens]:
    """Yield every answer with what LoadGen was told of its tokens."""
    for answer in read_logged_records(folder):
        yield LoggedTokens(
            sample=answer.qsl_idx,
            answer=decode_logged_answer(answer),
            first=decode_logged_bytes(answer.token_data, answer.qsl_idx),
            count=answer.token_count,
        )


def read_logged_records(folder: Path) -> Iterator[LoggedAnswer]:
    """Yield every record; one record is one line between `[` and `]`."""
    decoder = msgspec.json.Decoder(LoggedAnswer)
    with (folder / ACCURACY_LOG).open("rb") as stream:
        last = b""
        for line in stream:
            last = line.strip()
            if last in (b"[", b"]", b""):
                continue
            yield decode_log_line(decoder, last.removesuffix(b","), ACCURACY_LOG)
    if last != b"]":
        raise JudgedError(f"{ACCURACY_LOG} is truncated")


def decode_logged_answer(answer: LoggedAnswer) -> bytes:
    """Decode an answer's bytes."""
    return decode_logged_bytes(answer.data, answer.qsl_idx)


def decode_logged_bytes(digits: str, sample: int) -> bytes:
    """Decode bytes of an answer to a sample."""
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise JudgedError(
            f"{ACCURACY_LOG}: the answer to sample {sample} is not hexadecimal"
        ) from error


def decode_log_line(decoder: Any, line: bytes, name: str) -> Any:
    """Decode one line; JudgedError names the file."""
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError) as error:
        raise JudgedError(f"{name}: {describe_parse_failure(error)}") from error
