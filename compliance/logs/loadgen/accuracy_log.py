"""Streams LoadGen's accuracy log: one answer per line, as LoadGen writes it.

Source of the format: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy: `{ "seq_id" :
0, "qsl_idx" : 28, "data" : "08000000" },`.
Only an index and the first answers stay in memory; the rest is read from the file again on demand.
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

from compliance.logs.source_file import Kind, SourceFile, decode, shown
from suite.files.untrusted_files import opened

LINE_LIMIT: Final = 64 << 20
"""Maximum bytes of one answer; a picture's masks take far less."""
HELD_LIMIT: Final = 8 << 20
"""Bytes of answers kept in memory."""
DENSE_LIMIT: Final = 1 << 23
"""Samples from 0 on whose first answers are indexed in one array, 4 bytes each; accuracy sets are
numbered from 0.
"""
FAR_LIMIT: Final = 1 << 16
"""Samples beyond that, and below 0, that are tracked: no data set numbers its samples so."""
ANSWERS_LIMIT: Final = 1 << 23
"""Answers of one run that are indexed, 30 bytes of memory each; the largest accuracy set of the
rounds has 50,000.
"""
USUAL: Final = (
    rb'\{ "seq_id" : (0|[1-9]\d{0,17}), "qsl_idx" : (0|[1-9]\d{0,17}), "data" : "([0-9A-Fa-f]*+)"'
    rb" \},\n"
)
"""A line exactly as LoadGen writes it, the last one excepted."""
ONE: Final = re.compile(USUAL)
RUN: Final = re.compile(
    rb"(?:" + USUAL.replace(b"(0|", b"(?:0|").replace(b'"([', b'"(?:[') + rb")*"
)
QUOTES: Final = 8
"""Quotation marks in a line: three names and one value, so no name repeats."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line (schema loadgen-accuracy.json)."""

    seq_id: int
    qsl_idx: int
    data: str


DECODER: Final = msgspec.json.Decoder(Answer)


@dataclass(slots=True, eq=False)
class Answers(Mapping[int, bytes]):
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
    held: bytearray = field(default_factory=bytearray)
    """The bytes of the first lines, concatenated, up to the limit."""
    ends: "array[int]" = field(default_factory=lambda: array("I"))
    """The end of each of these."""
    near: "array[int]" = field(default_factory=lambda: array("I"))
    """Position of the first line of each sample below the limit, from 1; 0 if there is none."""
    far: dict[int, int] = field(default_factory=dict)
    """The same for all other samples."""
    distinct: int = 0
    """Number of samples that have an answer."""
    complete: bool = False
    """Whether the file is complete, from [ to ]."""

    def __getitem__(self, sample: int) -> bytes:
        if place := self.first(sample):
            return self.at(place - 1)
        raise KeyError(sample)

    def __contains__(self, sample: object) -> bool:
        return isinstance(sample, int) and self.first(sample) > 0

    def __iter__(self) -> Iterator[int]:
        return (
            sample
            for position, sample in enumerate(self.samples)
            if self.first(sample) == position + 1
        )

    def __len__(self) -> int:
        return self.distinct

    def first(self, sample: int) -> int:
        """Return the position of a sample's first line, from 1; 0 if there is none."""
        if 0 <= sample < DENSE_LIMIT:
            return self.near[sample] if sample < len(self.near) else 0
        return self.far.get(sample, 0)

    def note(self, sample: int) -> None:
        """Record that the most recently indexed line answers a sample."""
        if self.first(sample):
            return
        self.distinct += 1
        if not 0 <= sample < DENSE_LIMIT:
            self.far[sample] = len(self.samples)
            return
        self.grow(sample)
        self.near[sample] = len(self.samples)

    def grow(self, sample: int) -> None:
        """Make room for a sample below the limit."""
        if sample >= len(self.near):
            self.near.frombytes(bytes(self.near.itemsize * (sample + 1024 - len(self.near))))

    def take(self, text: bytes, offset: int, line: int) -> int:
        """Index lines that are exactly as LoadGen writes them, all at once; return their number, 0
        where one of them needs a look of its own.
        """
        sequence, samples, data = zip(*ONE.findall(text), strict=True)
        numbers, sizes = [*map(int, samples)], [len(digits) // 2 for digits in data]
        if (
            any(len(digits) % 2 for digits in data)
            or max(numbers) >= DENSE_LIMIT
            or len(self.samples) + len(numbers) > ANSWERS_LIMIT
        ):
            return 0
        if len(self.held) + sum(sizes) > HELD_LIMIT or len(self.ends) != len(self.offsets):
            return 0
        self.ends.extend([*accumulate(sizes, initial=len(self.held))][1:])
        self.held += unhexlify(b"".join(data))
        self.sequence.extend(map(int, sequence))
        lengths = map(len, text.splitlines(keepends=True))
        self.offsets.extend([*accumulate(lengths, initial=offset)][:-1])
        self.lines.extend(range(line, line + len(numbers)))
        self.grow(max(numbers))
        near = self.near
        for position, sample in enumerate(numbers, len(self.samples) + 1):
            if not near[sample]:
                near[sample] = position
                self.distinct += 1
        self.samples.extend(numbers)
        return len(numbers)

    def at(self, position: int) -> bytes:
        """Return the bytes of one line; OSError or ValueError if the file has changed in the
        meantime.
        """
        if position < len(self.ends):
            return bytes(
                self.held[self.ends[position - 1] if position else 0 : self.ends[position]]
            )
        with opened(self.path) as stream:
            stream.seek(self.offsets[position])
            line = stream.readline(LINE_LIMIT)
        return bytes.fromhex(DECODER.decode(line.strip().rstrip(b",")).data)

    def repeats(self) -> Iterator[int]:
        """Yield the positions of lines whose sample already had a line."""
        yield from (
            position
            for position, sample in enumerate(self.samples)
            if self.first(sample) != position + 1
        )


def read(source: SourceFile) -> Answers:
    """Index an accuracy log; anything that is not an answer is a flaw."""
    answers = Answers(source.path)
    digest = hashlib.sha256()
    try:
        with opened(source.path) as stream:
            fill(answers, source, digest, stream)
    except (OSError, ValueError) as error:
        source.unreadable(error)
    answers.sha256 = digest.hexdigest()
    if not answers.complete and not source.has(Kind.MISSING, Kind.UNREADABLE):
        source.add(
            Kind.CUT,
            "no closing bracket at the end",
            "the whole file, from [ to ]",
            source.lines or None,
        )
    return answers


def fill(
    answers: Answers, source: SourceFile, digest: "hashlib._Hash", stream: BufferedReader
) -> None:
    """Read line by line; anything after the closing bracket is a flaw."""
    offset, begun, comma, usual = 0, False, True, True
    while line := stream.readline(LINE_LIMIT):
        source.lines += 1
        digest.update(line)
        text = line.strip()
        if answers.complete and text:
            source.add(
                Kind.RECORD,
                f"'{shown(text)}' behind the closing bracket",
                "nothing behind it",
                source.lines,
            )
        elif text in (b"[", b"]"):
            if begun == (text == b"[") or (text == b"]" and comma and answers.offsets):
                source.add(
                    Kind.RECORD,
                    f"'{text.decode()}' at the wrong place",
                    "answers between brackets, with commas between them",
                    source.lines,
                )
            begun, answers.complete = True, text == b"]"
        elif text:
            if not begun or not comma:
                source.add(
                    Kind.RECORD,
                    "no bracket or comma before an answer",
                    "answers between brackets, with commas between them",
                    source.lines,
                )
            begun, comma = True, text.endswith(b",")
            keep(answers, source, text, offset)
            if len(answers.far) > FAR_LIMIT or len(answers.samples) > ANSWERS_LIMIT:
                required = f"at most {ANSWERS_LIMIT} answers, to samples numbered from 0"
                source.add(
                    Kind.UNREADABLE,
                    f"{len(answers.samples)} answers to {answers.distinct} samples so far, and"
                    " no end",
                    required,
                    source.lines,
                )
                return
        offset += len(line)
        if usual and begun and comma and not answers.complete:
            size, usual = several(answers, source, digest, stream, offset)
            offset += size


def several(
    answers: Answers,
    source: SourceFile,
    digest: "hashlib._Hash",
    stream: BufferedReader,
    offset: int,
) -> tuple[int, bool]:
    """Index the next lines that are in memory and exactly as LoadGen writes them; return their
    size, and whether to try it again.
    """
    run = RUN.match(stream.peek())
    if run is None or not run[0]:
        return 0, True
    taken = answers.take(run[0], offset, source.lines + 1)
    if not taken:
        return 0, False
    source.lines += taken
    digest.update(stream.read(run.end()))
    return run.end(), True


def keep(answers: Answers, source: SourceFile, text: bytes, offset: int) -> None:
    """Index one answer."""
    record = text[:-1] if text.endswith(b",") else text
    answer = (
        decode(source, DECODER, record, source.lines)
        if record.count(b'"') != QUOTES or b"\\" in record
        else quick(source, record)
    )
    if answer is None:
        return
    try:
        data = bytes.fromhex(answer.data)
        answers.sequence.append(answer.seq_id)
        answers.samples.append(answer.qsl_idx)
    except (ValueError, OverflowError) as error:
        del answers.sequence[len(answers.samples) :]
        source.add(
            Kind.SHAPE,
            f"{error}: '{shown(record)}'",
            "seq_id and qsl_idx of 64 bits, data in hexadecimal",
            source.lines,
        )
        return
    if len(answers.held) + len(data) <= HELD_LIMIT and len(answers.ends) == len(answers.offsets):
        answers.held += data
        answers.ends.append(len(answers.held))
    answers.note(answer.qsl_idx)
    answers.offsets.append(offset)
    answers.lines.append(source.lines)


def quick(source: SourceFile, record: bytes) -> Answer | None:
    """Decode a line in the usual form; a malformed one takes the slow path."""
    try:
        return DECODER.decode(record)
    except msgspec.MsgspecError:
        return decode(source, DECODER, record, source.lines)
