"""Reads the answers in LoadGen's accuracy log."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from suite.audits.tokens import LoggedTokens
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_LOG
from suite.files.untrusted_files import open_regular_file
from suite.loadgen.detail_log import decode_log_line


class LoggedAnswer(msgspec.Struct):
    """One record of mlperf_log_accuracy.json."""

    qsl_idx: int
    data: str
    token_data: str = ""
    token_count: int | None = None


class TruncatedAnswersError(JudgedError):
    """The log ends early."""


def read_logged_answers(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (sample, answer) of every record; JudgedError for a damaged log."""
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
    with open_regular_file(folder / ACCURACY_LOG) as stream:
        last = b""
        for line in stream:
            last = line.strip()
            if last in (b"[", b"]", b""):
                continue
            yield decode_log_line(decoder, last.removesuffix(b","), ACCURACY_LOG)
    if last != b"]":
        raise TruncatedAnswersError(f"{ACCURACY_LOG} is truncated")


def decode_logged_answer(answer: LoggedAnswer) -> bytes:
    return decode_logged_bytes(answer.data, answer.qsl_idx)


def decode_logged_bytes(digits: str, sample: int) -> bytes:
    """Decode bytes of an answer to a sample."""
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise JudgedError(
            f"{ACCURACY_LOG}: the answer to sample {sample} is not hexadecimal"
        ) from error
