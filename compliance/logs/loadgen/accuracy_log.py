"""Streams LoadGen's accuracy log: one answer per line, as LoadGen writes it.

Source of the format: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy: `{ "seq_id" :
0, "qsl_idx" : 28, "data" : "08000000" },`. A run that measures tokens adds `"token_data" :
"08000000"`, the first token (but in Offline), and `"token_count" : 1`. Only an index and the first
answers stay in memory; the rest is read from the file again on demand.
"""

import hashlib
import re
from array import array
from binascii import unhexlify
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Final

import msgspec

from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    decode_strict_json,
    format_excerpt,
)
from suite.audits.tokens import LoggedTokens
from suite.files.untrusted_files import open_regular_file

MAX_ANSWER_LINE_BYTES: Final = 64 << 20
"""Maximum bytes of one answer; the masks of an image take far less."""
MAX_CACHED_ANSWER_BYTES: Final = 8 << 20
"""Bytes of answers kept in memory."""
MAX_DENSE_SAMPLES: Final = 1 << 23
"""Samples from 0 on whose first answers are indexed in one array, 4 bytes each; accuracy sets are
numbered from 0.
"""
MAX_SPARSE_SAMPLES: Final = 1 << 16
"""Maximum number of tracked samples outside that range; no data set uses such numbers."""
MAX_INDEXED_ANSWERS: Final = 1 << 23
"""Answers of one run that are indexed, 30 bytes of memory each; the largest accuracy set of the
rounds has 50,000.
"""
USUAL_ANSWER_LINE: Final = (
    rb'\{ "seq_id" : (0|[1-9]\d{0,17}), "qsl_idx" : (0|[1-9]\d{0,17}), "data" : "([0-9A-Fa-f]*+)"'
    rb" \},\n"
)
"""A line exactly as LoadGen writes it, the last one excepted."""
USUAL_LINE_PATTERN: Final = re.compile(USUAL_ANSWER_LINE)
USUAL_LINES_PATTERN: Final = re.compile(
    rb"(?:" + USUAL_ANSWER_LINE.replace(b"(0|", b"(?:0|").replace(b'"([', b'"(?:[') + rb")*"
)
QUOTES_PER_LINE: Final = 8
"""Quotation marks in a line: three names and one value, so no name repeats."""


class AccuracyAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line (schema loadgen-accuracy.json)."""

    seq_id: int
    qsl_idx: int
    data: str
    token_data: str = ""
    """The first token, if it was handed over."""
    token_count: int | None = None
    """Tokens of the answer, if they were measured."""

    @property
    def fits_tokens(self) -> bool:
        """Return whether the answer has as many tokens, int32 each, and begins with the first."""
        return self.token_count is None or (
            len(self.data) == HEX_DIGITS_PER_TOKEN * self.token_count
            and self.data.startswith(self.token_data)
        )


HEX_DIGITS_PER_TOKEN: Final = 8
MAX_WRONG_LINES: Final = 20
ANSWER_DECODER: Final = msgspec.json.Decoder(AccuracyAnswer)


@dataclass(slots=True, eq=False)
class AnswerIndex(Mapping[int, bytes]):
    """The answers of an accuracy log: sample -> bytes, from the first line of each sample."""

    path: Path
    sha256: str = ""
    samples: "array[int]" = field(default_factory=lambda: array("q"))
    """qsl_idx of each line in order."""
    sequence: "array[int]" = field(default_factory=lambda: array("q"))
    """seq_id of each line."""
    offsets: "array[int]" = field(default_factory=lambda: array("q"))
    """Byte offset of each line."""
    lines: "array[int]" = field(default_factory=lambda: array("I"))
    """Line number of each line, from 1."""
    cached: bytearray = field(default_factory=bytearray)
    """The bytes of the first lines, concatenated, up to the limit."""
    ends: "array[int]" = field(default_factory=lambda: array("I"))
    """The end of each of these."""
    dense_positions: "array[int]" = field(default_factory=lambda: array("I"))
    """Position of the first line of each sample below the limit, from 1; 0 if there is none."""
    sparse_positions: dict[int, int] = field(default_factory=dict)
    """The same for all other samples."""
    distinct: int = 0
    """Number of samples that have an answer."""
    complete: bool = False
    """Whether the file is complete, from [ to ]."""
    counted_lines: int = 0
    """Number of lines that state a number of tokens."""
    stated_tokens: int = 0
    """Tokens that these state, in all."""
    held_tokens: int = 0
    """Tokens that the answers of these have, in all, of 4 bytes each."""
    wrong_token_lines: list[int] = field(default_factory=list)
    """The first lines whose answer has other tokens than they state."""

    def __getitem__(self, sample: int) -> bytes:
        if position := self.find_first_position(sample):
            return self.read_answer(position - 1)
        raise KeyError(sample)

    def __contains__(self, sample: object) -> bool:
        return isinstance(sample, int) and self.find_first_position(sample) > 0

    def __iter__(self) -> Iterator[int]:
        return (
            sample
            for position, sample in enumerate(self.samples)
            if self.find_first_position(sample) == position + 1
        )

    def __len__(self) -> int:
        return self.distinct

    def find_first_position(self, sample: int) -> int:
        """Return the position of a sample's first line, from 1; 0 if there is none."""
        if 0 <= sample < MAX_DENSE_SAMPLES:
            if sample < len(self.dense_positions):
                return self.dense_positions[sample]
            return 0
        return self.sparse_positions.get(sample, 0)

    def note_first_answer(self, sample: int) -> None:
        """Record that the most recently indexed line answers a sample."""
        if self.find_first_position(sample):
            return
        self.distinct += 1
        if not 0 <= sample < MAX_DENSE_SAMPLES:
            self.sparse_positions[sample] = len(self.samples)
            return
        self.reserve_sample(sample)
        self.dense_positions[sample] = len(self.samples)

    def reserve_sample(self, sample: int) -> None:
        """Make room for a sample below the limit."""
        if sample >= len(self.dense_positions):
            self.dense_positions.frombytes(
                bytes(self.dense_positions.itemsize * (sample + 1024 - len(self.dense_positions)))
            )

    def append_usual_lines(self, text: bytes, offset: int, line: int) -> int:
        """Index lines that are exactly as LoadGen writes them, all at once; return their number, or
        0 if one of them needs separate parsing.
        """
        sequence, samples, data = zip(*USUAL_LINE_PATTERN.findall(text), strict=True)
        numbers, sizes = [*map(int, samples)], [len(digits) // 2 for digits in data]
        if (
            any(len(digits) % 2 for digits in data)
            or max(numbers) >= MAX_DENSE_SAMPLES
            or len(self.samples) + len(numbers) > MAX_INDEXED_ANSWERS
        ):
            return 0
        if len(self.cached) + sum(sizes) > MAX_CACHED_ANSWER_BYTES or len(self.ends) != len(
            self.offsets
        ):
            return 0
        self.ends.extend([*accumulate(sizes, initial=len(self.cached))][1:])
        self.cached += unhexlify(b"".join(data))
        self.sequence.extend(map(int, sequence))
        lengths = map(len, text.splitlines(keepends=True))
        self.offsets.extend([*accumulate(lengths, initial=offset)][:-1])
        self.lines.extend(range(line, line + len(numbers)))
        self.reserve_sample(max(numbers))
        near = self.dense_positions
        for position, sample in enumerate(numbers, len(self.samples) + 1):
            if not near[sample]:
                near[sample] = position
                self.distinct += 1
        self.samples.extend(numbers)
        return len(numbers)

    def read_answer(self, position: int) -> bytes:
        """Return the bytes of one line; OSError or ValueError if the file has changed in the
        meantime.
        """
        if position < len(self.ends):
            return bytes(
                self.cached[self.ends[position - 1] if position else 0 : self.ends[position]]
            )
        return bytes.fromhex(self.read_line(position).data)

    def read_tokens(self, position: int) -> LoggedTokens:
        """Return the bytes of one line with what it states of their tokens; errors likewise."""
        line = self.read_line(position)
        return LoggedTokens(
            sample=line.qsl_idx,
            answer=bytes.fromhex(line.data),
            first=bytes.fromhex(line.token_data),
            count=line.token_count,
        )

    def read_line(self, position: int) -> AccuracyAnswer:
        """Read one line of the file again; errors likewise."""
        with open_regular_file(self.path) as stream:
            stream.seek(self.offsets[position])
            line = stream.readline(MAX_ANSWER_LINE_BYTES)
        return ANSWER_DECODER.decode(line.strip().rstrip(b","))

    def iterate_repeats(self) -> Iterator[int]:
        """Yield the positions of lines whose sample already had a line."""
        yield from (
            position
            for position, sample in enumerate(self.samples)
            if self.find_first_position(sample) != position + 1
        )


def index_accuracy_log(source: SourceFile) -> AnswerIndex:
    """Index an accuracy log; anything that is not an answer is a parse error."""
    answers = AnswerIndex(source.path)
    digest = hashlib.sha256()
    try:
        with open_regular_file(source.path) as stream:
            index_answer_stream(answers, source, digest, stream)
    except (OSError, ValueError) as error:
        source.add_read_error(error)
    answers.sha256 = digest.hexdigest()
    if not answers.complete and not source.has_parse_error(
        ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE
    ):
        source.add_parse_error(
            ParseErrorKind.CUT,
            "no closing bracket at the end",
            "the whole file, from [ to ]",
            source.lines or None,
        )
    return answers


def index_answer_stream(
    answers: AnswerIndex, source: SourceFile, digest: "hashlib._Hash", stream: BufferedReader
) -> None:
    """Read line by line; anything after the closing bracket is a parse error."""
    offset, begun, comma, usual = 0, False, True, True
    while line := stream.readline(MAX_ANSWER_LINE_BYTES):
        source.lines += 1
        digest.update(line)
        text = line.strip()
        if answers.complete and text:
            source.add_parse_error(
                ParseErrorKind.RECORD,
                f"'{format_excerpt(text)}' after the closing bracket",
                "no text after it",
                source.lines,
            )
        elif text in (b"[", b"]"):
            if begun == (text == b"[") or (text == b"]" and comma and answers.offsets):
                source.add_parse_error(
                    ParseErrorKind.RECORD,
                    f"'{text.decode()}' at the wrong place",
                    "answers between brackets, with commas between them",
                    source.lines,
                )
            begun, answers.complete = True, text == b"]"
        elif text:
            if not begun or not comma:
                source.add_parse_error(
                    ParseErrorKind.RECORD,
                    "no bracket or comma before an answer",
                    "answers between brackets, with commas between them",
                    source.lines,
                )
            begun, comma = True, text.endswith(b",")
            index_answer_line(answers, source, text, offset)
            if (
                len(answers.sparse_positions) > MAX_SPARSE_SAMPLES
                or len(answers.samples) > MAX_INDEXED_ANSWERS
            ):
                required = f"at most {MAX_INDEXED_ANSWERS} answers, for samples numbered from 0"
                source.add_parse_error(
                    ParseErrorKind.UNREADABLE,
                    f"{len(answers.samples)} answers for {answers.distinct} samples so"
                    " far, without an end",
                    required,
                    source.lines,
                )
                return
        offset += len(line)
        if usual and begun and comma and not answers.complete:
            size, usual = index_usual_lines(answers, source, digest, stream, offset)
            offset += size


def index_usual_lines(
    answers: AnswerIndex,
    source: SourceFile,
    digest: "hashlib._Hash",
    stream: BufferedReader,
    offset: int,
) -> tuple[int, bool]:
    """Index the next lines that are in memory and exactly as LoadGen writes them; return their
    size, and whether to try it again.
    """
    run = USUAL_LINES_PATTERN.match(stream.peek())
    if run is None or not run[0]:
        return 0, True
    taken = answers.append_usual_lines(run[0], offset, source.lines + 1)
    if not taken:
        return 0, False
    source.lines += taken
    digest.update(stream.read(run.end()))
    return run.end(), True


def index_answer_line(answers: AnswerIndex, source: SourceFile, text: bytes, offset: int) -> None:
    """Index one answer."""
    if text.endswith(b","):
        record = text[:-1]
    else:
        record = text
    if record.count(b'"') != QUOTES_PER_LINE or b"\\" in record:
        answer = decode_strict_json(source, ANSWER_DECODER, record, source.lines)
    else:
        answer = decode_usual_line(source, record)
    if answer is None:
        return
    try:
        data = bytes.fromhex(answer.data)
        answers.sequence.append(answer.seq_id)
        answers.samples.append(answer.qsl_idx)
    except (ValueError, OverflowError) as error:
        del answers.sequence[len(answers.samples) :]
        source.add_parse_error(
            ParseErrorKind.SHAPE,
            f"{error}: '{format_excerpt(record)}'",
            "seq_id and qsl_idx of 64 bits, data in hexadecimal",
            source.lines,
        )
        return
    if len(answers.cached) + len(data) <= MAX_CACHED_ANSWER_BYTES and len(answers.ends) == len(
        answers.offsets
    ):
        answers.cached += data
        answers.ends.append(len(answers.cached))
    note_stated_tokens(answers, answer, source.lines)
    answers.note_first_answer(answer.qsl_idx)
    answers.offsets.append(offset)
    answers.lines.append(source.lines)


def note_stated_tokens(answers: AnswerIndex, answer: AccuracyAnswer, line: int) -> None:
    """Record whether a line states tokens, and whether they are those of its answer."""
    if answer.token_count is not None:
        answers.counted_lines += 1
        answers.stated_tokens += answer.token_count
        answers.held_tokens += len(answer.data) // HEX_DIGITS_PER_TOKEN
    if not answer.fits_tokens and len(answers.wrong_token_lines) < MAX_WRONG_LINES:
        answers.wrong_token_lines.append(line)


def decode_usual_line(source: SourceFile, record: bytes) -> AccuracyAnswer | None:
    """Decode a line in the usual form; a malformed one takes the slow path."""
    try:
        return ANSWER_DECODER.decode(record)
    except msgspec.MsgspecError:
        return decode_strict_json(source, ANSWER_DECODER, record, source.lines)
