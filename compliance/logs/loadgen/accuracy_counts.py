"""Counts the answers in a LoadGen accuracy log of any size in bounded memory: answers per sample,
and whether they agree.

Source of the format: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy:
`{ "seq_id" : 0, "qsl_idx" : 28, "data" : "08000000" },`. Performance runs leave `[` and `]`, or
nothing between them.

A list of such objects in another layout, as rewritten by a JSON library, is also read, only more
slowly: over several lines,
with names in another order, with extra names or without seq_id.
"""

import hashlib
import re
from binascii import unhexlify
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeGuard

import msgspec

from compliance.logs.source_file import (
    ParseErrorKind,
    SourceFile,
    decode_strict_json,
    format_excerpt,
    report_json_defects,
)
from compliance.verdict import Severity
from suite.files.untrusted_files import open_regular_file

ACCURACY_CHUNK_BYTES: Final = 1 << 20
MAX_ANSWERS_RUN_BYTES: Final = 1 << 17
"""Maximum bytes that are counted at once."""
MAX_ANSWER_BYTES: Final = 64 << 20
"""Maximum bytes of one answer."""
MAX_ANSWERED_SAMPLES: Final = 1 << 20
"""Maximum number of distinct samples; the largest accuracy set has 50,000."""
MAX_SEQUENCE_NUMBERS: Final = 1 << 29
"""Maximum number of distinct sequence numbers: 64 MB of bits."""
RETAINED_ANSWER_BYTES: Final = 32
"""Bytes of an answer that are kept; for longer answers also a digest."""
ANSWER_PATTERN: Final = re.compile(
    rb'\s*+(\[?)\s*+(,?)\s*+\{\s*"seq_id"\s*:\s*(\d{1,18})\s*,\s*"qsl_idx"\s*:\s*(\d{1,18})\s*,\s*'
    rb'"data"\s*:\s*"([0-9A-Fa-f]*)"\s*\}'
)
SHORT_ANSWER_PATTERN: Final = re.compile(
    rb'\s*+,\s*+\{\s*+"seq_id"\s*+:\s*+(\d{1,18})\s*+,\s*+"qsl_idx"\s*+:\s*+(\d{1,18})\s*+,\s*+'
    rb'"data"\s*+:\s*+"((?:[0-9A-Fa-f]{2}){1,32}+)"\s*+\}'
)
"""Matches an answer after the first one, of 1 to `RETAINED_ANSWER_BYTES` bytes."""
SHORT_ANSWERS_PATTERN: Final = re.compile(
    b"(?:" + re.sub(rb"\((?!\?)", b"(?:", SHORT_ANSWER_PATTERN.pattern) + b")*"
)
"""Matches a run of such answers; not possessive, since Python before 3.11.5 ends such a match
inside an incomplete answer (python/cpython#106052).
"""
ANSWER_OPENING_PATTERN: Final = re.compile(rb"\s*+(\[?)\s*+(,?)\s*+(?=\{)")
"""Matches what precedes an answer."""
OBJECT_TOKEN_PATTERN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}]', re.DOTALL)
"""Matches the tokens that delimit an object: strings, the last one possibly unterminated, and
braces.
"""
ANSWER_GAP_PATTERN: Final = re.compile(rb"\s*+\[?\s*+[,\]]?[\s\0]*+")
"""Matches what may follow the last complete answer before more is read."""
OBJECT_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
HEX_DIGITS_PATTERN: Final = re.compile(r"[0-9A-Fa-f]*")
LOADGEN_INTEGER_LIMIT: Final = 1 << 63
BLANK_BYTES: Final = b" \t\r\n\0"
ACCURACY_LENIENCY: Final = {ParseErrorKind.ENCODING: Severity.INFO}


@dataclass(slots=True)
class AnswerCounts:
    """The counts of an accuracy log."""

    path: Path
    answers: int = 0
    repeated: int = 0
    """Answers to a sample that already had one."""
    first: dict[int, bytes] = field(default_factory=dict)
    """Sample -> its first answer: the bytes, or the first 32 of them and a digest."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Answer size in bytes -> number of answers."""
    differing: list[tuple[int, int]] = field(default_factory=list)
    """Sample and line of answers that differ from the sample's first."""
    reused: list[tuple[int, int]] = field(default_factory=list)
    """seq_id and line at which one was reused."""
    empty: list[tuple[int, int]] = field(default_factory=list)
    """Sample and line of answers without data."""
    highest: int = -1
    """The highest sample index."""
    rewritten: int | None = None
    """Line of the first answer that is not in LoadGen's layout."""
    sha256: str = ""
    size: int = 0
    """Size of the file in bytes."""
    whole: bool = False
    """Whether the list is complete, from [ to ]."""
    broken: bool = False
    """Whether reading stopped at something that is not an answer."""

    @property
    def distinct(self) -> int:
        """Number of samples that have an answer."""
        return len(self.first)


def count_accuracy_answers(source: SourceFile) -> AnswerCounts:
    """Count an accuracy log; anything that is not an answer is a parse error and ends the
    reading.
    """
    source.leniency = ACCURACY_LENIENCY
    reader = AnswerCounter(source, AnswerCounts(source.path))
    digest = hashlib.sha256()
    try:
        with open_regular_file(source.path) as stream:
            while chunk := stream.read(ACCURACY_CHUNK_BYTES):
                digest.update(chunk)
                reader.tally.size += len(chunk)
                if not reader.tally.broken:
                    reader.parse_chunk(chunk)
        reader.check_log_end()
    except (OSError, ValueError) as error:
        source.add_read_error(error)
    reader.tally.sha256 = digest.hexdigest()
    return reader.tally


def is_loadgen_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer that LoadGen can write."""
    return type(value) is int and 0 <= value < LOADGEN_INTEGER_LIMIT


@dataclass(slots=True)
class AnswerCounter:
    """Parses the file chunk by chunk."""

    source: SourceFile
    tally: AnswerCounts
    carry: bytes = b""
    begun: bool = False
    line: int = 1
    sequence: bytearray = field(default_factory=bytearray)
    """One bit per seq_id."""
    last: int = -1
    """The highest seq_id."""
    scanned: int = 0
    """Bytes of an unfinished object that were already scanned, so that none is scanned again with
    each chunk ...
    """
    depth: int = 0
    """... and the number of open braces there."""

    def parse_chunk(self, chunk: bytes) -> None:
        """Parse a chunk; an incomplete answer waits for more."""
        text = self.carry + chunk
        at = single_until = 0
        while not self.tally.broken:
            # even if some need separate parsing, later ones may not
            if self.begun and at >= single_until:
                end = self.count_short_answers(text, at)
                at, single_until = end, single_until if end > at else end + MAX_ANSWERS_RUN_BYTES
                continue
            match = ANSWER_PATTERN.match(text, at) or ANSWER_OPENING_PATTERN.match(text, at)
            if match is None:
                end = -1
            elif match.re is ANSWER_PATTERN:
                end = match.end()
            else:
                end = self.find_object_end(text, match.end())
            if match is None or end < 0:
                break
            self.line += text.count(b"\n", at, end)
            if bool(match[1]) == self.begun or bool(match[2]) == (self.tally.answers == 0):
                self.stop_reading("brackets or commas at the wrong place", text[at:end])
                return
            self.begun = True
            if match.re is ANSWER_PATTERN:
                self.count_answer(int(match[3]), int(match[4]), match[5])
            else:
                self.count_object(text[match.end() : end])
            at, self.scanned, self.depth = end, 0, 0
        self.carry = text[at:]
        if self.tally.broken:
            return
        if not ANSWER_OPENING_PATTERN.match(self.carry) and not ANSWER_GAP_PATTERN.fullmatch(
            self.carry
        ):
            self.stop_reading("no answer", self.carry)
        elif len(self.carry) > MAX_ANSWER_BYTES:
            self.stop_reading(f"an answer of more than {MAX_ANSWER_BYTES} bytes", self.carry)

    def count_short_answers(self, text: bytes, at: int) -> int:
        """Count a run of short answers at once if none needs a look of its own; return where it
        ends, `at` if it was not counted.
        """
        if (run := SHORT_ANSWERS_PATTERN.match(text, at, at + MAX_ANSWERS_RUN_BYTES)) is None:
            end = at
        else:
            end = run.end()
        if end == at:
            return at
        sequences, samples, data = zip(*SHORT_ANSWER_PATTERN.findall(text, at, end), strict=True)
        numbers, sequence_numbers = [*map(int, samples)], [*map(int, sequences)]
        tally, last = self.tally, max(sequence_numbers)
        if (
            len(tally.first) + len(numbers) > MAX_ANSWERED_SAMPLES
            or last >= MAX_SEQUENCE_NUMBERS
            or len({*sequence_numbers}) < len(sequence_numbers)
        ):
            return at
        if min(sequence_numbers) <= self.last and any(map(self.is_sequence_used, sequence_numbers)):
            return at
        new = self.select_first_answers(numbers, [*map(unhexlify, data)])
        if new is None:
            return at
        tally.answers += len(numbers)
        tally.repeated += len(numbers) - len(new)
        for digits, answers in Counter(map(len, data)).items():
            tally.sizes[digits // 2] = tally.sizes.get(digits // 2, 0) + answers
        tally.first.update(new)
        tally.highest = max(tally.highest, *numbers)
        self.mark_sequences(sequence_numbers)
        self.line += text.count(b"\n", at, end)
        self.scanned = self.depth = 0
        return end

    def select_first_answers(
        self, numbers: Sequence[int], data: Sequence[bytes]
    ) -> dict[int, bytes] | None:
        """Return the samples that had no answer, with the first each; None where two answers to one
        sample differ.
        """
        first = self.tally.first
        new = dict(zip(numbers, data, strict=True))
        if len(new) == len(numbers) and first.keys().isdisjoint(new):
            return new
        new.clear()
        for number, answer in zip(numbers, data, strict=True):
            first_answer = first.get(number)
            if (new.setdefault(number, answer) if first_answer is None else first_answer) != answer:
                return None
        return new

    def is_sequence_used(self, sequence: int) -> bool:
        """Return whether a seq_id was used before."""
        byte_index = sequence >> 3
        return byte_index < len(self.sequence) and bool(
            self.sequence[byte_index] & 1 << (sequence & 7)
        )

    def find_object_end(self, text: bytes, at: int) -> int:
        """Return the end of the object that starts at a brace; -1 if it is beyond the text."""
        for token in OBJECT_TOKEN_PATTERN.finditer(text, at + self.scanned):
            if token[0] == b"{":
                self.depth += 1
            elif token[0] == b"}":
                self.depth -= 1
                if self.depth == 0:
                    return token.end()
            elif not token[1]:
                self.scanned = token.start() - at
                return -1
        self.scanned = len(text) - at
        return -1

    def count_object(self, text: bytes) -> None:
        """Count an answer in a layout other than LoadGen's."""
        before = len(self.source.parse_errors)
        table = decode_strict_json(self.source, OBJECT_DECODER, text, self.line, MAX_ANSWER_BYTES)
        if table is None or len(self.source.parse_errors) > before:
            self.tally.broken = True
            return
        sequence, sample, data = table.get("seq_id"), table.get("qsl_idx"), table.get("data")
        if (
            not is_loadgen_integer(sample)
            or not isinstance(data, str)
            or not HEX_DIGITS_PATTERN.fullmatch(data)
            or (sequence is not None and not is_loadgen_integer(sequence))
        ):
            report_json_defects(self.source, text, self.line)
            self.stop_reading("no answer", text)
            return
        if self.tally.rewritten is None:
            self.tally.rewritten = self.line
        self.count_answer(sequence, sample, data.encode("ascii"))

    def count_answer(self, sequence: int | None, sample: int, data: bytes) -> None:
        """Count one answer."""
        tally = self.tally
        tally.answers += 1
        size = len(data) // 2
        tally.sizes[size] = tally.sizes.get(size, 0) + 1
        if not data and len(tally.empty) < 100:
            tally.empty.append((sample, self.line))
        if len(data) % 2:
            self.stop_reading("half a byte", data)
            return
        answer = bytes.fromhex(data[: 2 * RETAINED_ANSWER_BYTES].decode("ascii"))
        if size > RETAINED_ANSWER_BYTES:
            answer += hashlib.blake2b(data.upper(), digest_size=16).digest()
        first_answer = tally.first.get(sample)
        if first_answer is None:
            if len(tally.first) >= MAX_ANSWERED_SAMPLES:
                self.stop_reading(f"answers for more than {MAX_ANSWERED_SAMPLES} samples", b"")
                return
            tally.first[sample] = answer
            tally.highest = max(tally.highest, sample)
        else:
            tally.repeated += 1
            if first_answer != answer and len(tally.differing) < 100:
                tally.differing.append((sample, self.line))
        if sequence is not None:
            self.mark_sequence(sequence)

    def mark_sequence(self, sequence: int) -> None:
        """Mark a seq_id as used."""
        if sequence >= MAX_SEQUENCE_NUMBERS:
            return
        if self.is_sequence_used(sequence) and len(self.tally.reused) < 100:
            self.tally.reused.append((sequence, self.line))
        self.mark_sequences((sequence,))

    def mark_sequences(self, sequences: Sequence[int]) -> None:
        """Mark seq_ids as used, all below the limit."""
        used, self.last = self.sequence, max(self.last, *sequences)
        if self.last >> 3 >= len(used):
            used.extend(bytes((self.last >> 3) + 1 - len(used)))
        for sequence in sequences:
            used[sequence >> 3] |= 1 << (sequence & 7)

    def stop_reading(self, found: str, text: bytes) -> None:
        """Record the parse error for something that is not an answer."""
        self.tally.broken = True
        self.source.add_parse_error(
            ParseErrorKind.RECORD,
            f"{found}: '{format_excerpt(text)}'" if text else found,
            "answers between brackets, with commas between them",
            self.line,
        )

    def check_log_end(self) -> None:
        """Check the remainder: the closing bracket."""
        if self.tally.broken:
            return
        rest = self.carry.strip(BLANK_BYTES)
        closing = b"]" if self.begun else b"[]"
        if len(rest) < ACCURACY_CHUNK_BYTES:
            squeezed = bytes(byte for byte in rest if byte not in BLANK_BYTES)
        else:
            squeezed = rest
        self.tally.whole = squeezed == closing
        if not self.tally.whole:
            if rest:
                found = f"the end '{format_excerpt(rest[-60:])}'"
            else:
                found = "no closing bracket at the end"
            self.source.add_parse_error(
                ParseErrorKind.CUT,
                found,
                "the whole file, from [ to ]",
                self.line + self.carry.count(b"\n"),
            )
