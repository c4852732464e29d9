"""Reads LoadGen's files: completeness, verdict and answers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from suite.audits.tokens import LoggedTokens
from suite.errors import JudgedError, MissingError, PodiumError
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    DISK_FULL_ERRORS,
    PARTIAL_SUFFIX,
    SUMMARY_LOG,
    sync_to_disk,
)
from suite.loadgen.detail_log import decode_log_line, read_detail_log

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
TRACE_FILE: Final = "mlperf_log_trace.json"
ROOM_PROBE_BYTES: Final = 65_536
"""What is written to see whether a disk is full: more than a stream of C++ holds back."""


class LoggedAnswer(msgspec.Struct):
    """One record of mlperf_log_accuracy.json."""

    qsl_idx: int
    data: str
    token_data: str = ""
    token_count: int | None = None


def check_loadgen_files(folder: Path) -> None:
    """Refuse a folder with truncated files (JudgedError; MissingError if the disk is full); delete
    the empty trace, which is switched off.
    """
    (folder / TRACE_FILE).unlink(missing_ok=True)
    for name in (SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG):
        if not (folder / name).is_file():
            raise JudgedError(f"LoadGen wrote no {name}")
    if not SUMMARY_END_PATTERN.search((folder / SUMMARY_LOG).read_bytes()):
        raise build_truncation_error(folder, SUMMARY_LOG)
    if (
        not (folder / DETAIL_LOG).read_bytes().endswith(DETAIL_LINE_END)
        or LAST_DETAIL_KEY not in read_detail_log(folder).values
    ):
        raise build_truncation_error(folder, DETAIL_LOG)
    for _ in read_logged_answers(folder):
        pass


def build_truncation_error(folder: Path, name: str) -> PodiumError:
    """Return why a file of LoadGen's ends early: a full disk, of which LoadGen says nothing
    (MissingError), or something else (JudgedError).
    """
    probe = folder / f"{name}{PARTIAL_SUFFIX}"
    try:
        probe.write_bytes(bytes(ROOM_PROBE_BYTES))
        sync_to_disk(probe)
    except OSError as error:
        if error.errno in DISK_FULL_ERRORS:
            return MissingError(f"{folder / name}: {error.strerror}")
    finally:
        probe.unlink(missing_ok=True)
    return JudgedError(f"{name} is truncated")


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
        raise build_truncation_error(folder, ACCURACY_LOG)


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
