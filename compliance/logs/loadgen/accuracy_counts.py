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

from compliance.logs.source_file import Kind, SourceFile, decode, look_closer, shown
from compliance.verdict import Severity
from suite.files.untrusted_files import opened

CHUNK: Final = 1 << 20
PIECE: Final = 1 << 17
"""Maximum bytes that are counted at once."""
ANSWER_LIMIT: Final = 64 << 20
"""Maximum bytes of one answer."""
SAMPLE_LIMIT: Final = 1 << 20
"""Maximum number of distinct samples; the largest accuracy set has 50,000."""
SEQUENCE_LIMIT: Final = 1 << 29
"""Maximum number of distinct sequence numbers: 64 MB of bits."""
HELD: Final = 32
"""Bytes of an answer that are kept; for longer answers also a digest."""
ANSWER: Final = re.compile(
    rb'\s*+(\[?)\s*+(,?)\s*+\{\s*"seq_id"\s*:\s*(\d{1,18})\s*,\s*"qsl_idx"\s*:\s*(\d{1,18})\s*,\s*"data"\s*:\s*"([0-9A-Fa-f]*)"\s*\}'
)
SHORT: Final = re.compile(
    rb'\s*+,\s*+\{\s*+"seq_id"\s*+:\s*+(\d{1,18})\s*+,\s*+"qsl_idx"\s*+:\s*+(\d{1,18})\s*+,\s*+'
    rb'"data"\s*+:\s*+"((?:[0-9A-Fa-f]{2}){1,32}+)"\s*+\}'
)
"""Matches an answer after the first one, of 1 to `HELD` bytes."""
SHORTS: Final = re.compile(b"(?:" + re.sub(rb"\((?!\?)", b"(?:", SHORT.pattern) + b")*")
"""Matches a run of such answers; not possessive, since Pythons before 3.11.5 end such a match
inside of what is incomplete (python/cpython#106052).
"""
OPENING: Final = re.compile(rb"\s*+(\[?)\s*+(,?)\s*+(?=\{)")
"""Matches what precedes an answer."""
TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}]', re.DOTALL)
"""Matches the tokens that delimit an object: strings, the last one possibly unterminated, and
braces.
"""
BETWEEN: Final = re.compile(rb"\s*+\[?\s*+[,\]]?[\s\0]*+")
"""Matches what may follow the last complete answer before more is read."""
OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
HEX: Final = re.compile(r"[0-9A-Fa-f]*")
WHOLE_LIMIT: Final = 1 << 63
BLANK: Final = b" \t\r\n\0"
LENIENCY: Final = {Kind.ENCODING: Severity.INFO}


@dataclass(slots=True)
class Tally:
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


def read(source: SourceFile) -> Tally:
    """Count an accuracy log; anything that is not an answer is a flaw, and ends the reading."""
    source.leniency = LENIENCY
    reader = Reader(source, Tally(source.path))
    digest = hashlib.sha256()
    try:
        with opened(source.path) as stream:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                reader.tally.size += len(chunk)
                if not reader.tally.broken:
                    reader.take(chunk)
        reader.end()
    except (OSError, ValueError) as error:
        source.unreadable(error)
    reader.tally.sha256 = digest.hexdigest()
    return reader.tally


def is_number(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer that LoadGen can write."""
    return type(value) is int and 0 <= value < WHOLE_LIMIT


@dataclass(slots=True)
class Reader:
    """Parses the file chunk by chunk."""

    source: SourceFile
    tally: Tally
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

    def take(self, chunk: bytes) -> None:
        """Parse a chunk; an incomplete answer waits for more."""
        text = self.carry + chunk
        at = alone = 0
        while not self.tally.broken:
            if (
                self.begun and at >= alone
            ):  # where some need a look of their own, those behind them need not
                end = self.many(text, at)
                at, alone = end, alone if end > at else end + PIECE
                continue
            match = ANSWER.match(text, at) or OPENING.match(text, at)
            end = (
                -1
                if match is None
                else match.end()
                if match.re is ANSWER
                else self.end_of_object(text, match.end())
            )
            if match is None or end < 0:
                break
            self.line += text.count(b"\n", at, end)
            if bool(match[1]) == self.begun or bool(match[2]) == (self.tally.answers == 0):
                self.stop("brackets or commas at the wrong place", text[at:end])
                return
            self.begun = True
            if match.re is ANSWER:
                self.answer(int(match[3]), int(match[4]), match[5])
            else:
                self.object(text[match.end() : end])
            at, self.scanned, self.depth = end, 0, 0
        self.carry = text[at:]
        if self.tally.broken:
            return
        if not OPENING.match(self.carry) and not BETWEEN.fullmatch(self.carry):
            self.stop("no answer", self.carry)
        elif len(self.carry) > ANSWER_LIMIT:
            self.stop(f"an answer of more than {ANSWER_LIMIT} bytes", self.carry)

    def many(self, text: bytes, at: int) -> int:
        """Count a run of short answers at once if none needs a look of its own; return where it
        ends, `at` if it was not counted.
        """
        end = at if (run := SHORTS.match(text, at, at + PIECE)) is None else run.end()
        if end == at:
            return at
        sequences, samples, data = zip(*SHORT.findall(text, at, end), strict=True)
        numbers, marks = [*map(int, samples)], [*map(int, sequences)]
        tally, last = self.tally, max(marks)
        if (
            len(tally.first) + len(numbers) > SAMPLE_LIMIT
            or last >= SEQUENCE_LIMIT
            or len({*marks}) < len(marks)
        ):
            return at
        if min(marks) <= self.last and any(map(self.marked, marks)):
            return at
        new = self.agreeing(numbers, [*map(unhexlify, data)])
        if new is None:
            return at
        tally.answers += len(numbers)
        tally.repeated += len(numbers) - len(new)
        for digits, answers in Counter(map(len, data)).items():
            tally.sizes[digits // 2] = tally.sizes.get(digits // 2, 0) + answers
        tally.first.update(new)
        tally.highest = max(tally.highest, *numbers)
        self.mark_all(marks)
        self.line += text.count(b"\n", at, end)
        self.scanned = self.depth = 0
        return end

    def agreeing(self, numbers: Sequence[int], data: Sequence[bytes]) -> dict[int, bytes] | None:
        """Return the samples that had no answer, with the first each; None where two answers to one
        sample differ.
        """
        first = self.tally.first
        new = dict(zip(numbers, data, strict=True))
        if len(new) == len(numbers) and first.keys().isdisjoint(new):
            return new
        new.clear()
        for number, answer in zip(numbers, data, strict=True):
            told = first.get(number)
            if (new.setdefault(number, answer) if told is None else told) != answer:
                return None
        return new

    def marked(self, sequence: int) -> bool:
        """Return whether a seq_id was used before."""
        place = sequence >> 3
        return place < len(self.sequence) and bool(self.sequence[place] & 1 << (sequence & 7))

    def end_of_object(self, text: bytes, at: int) -> int:
        """Return the end of the object that starts at a brace; -1 if it lies beyond the text."""
        for token in TOKEN.finditer(text, at + self.scanned):
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

    def object(self, text: bytes) -> None:
        """Count an answer in a layout other than LoadGen's."""
        before = len(self.source.flaws)
        table = decode(self.source, OBJECT, text, self.line, ANSWER_LIMIT)
        if table is None or len(self.source.flaws) > before:
            self.tally.broken = True
            return
        sequence, sample, data = table.get("seq_id"), table.get("qsl_idx"), table.get("data")
        if (
            not is_number(sample)
            or not isinstance(data, str)
            or not HEX.fullmatch(data)
            or (sequence is not None and not is_number(sequence))
        ):
            look_closer(self.source, text, self.line)
            self.stop("no answer", text)
            return
        if self.tally.rewritten is None:
            self.tally.rewritten = self.line
        self.answer(sequence, sample, data.encode("ascii"))

    def answer(self, sequence: int | None, sample: int, data: bytes) -> None:
        """Count one answer."""
        tally = self.tally
        tally.answers += 1
        size = len(data) // 2
        tally.sizes[size] = tally.sizes.get(size, 0) + 1
        if not data and len(tally.empty) < 100:
            tally.empty.append((sample, self.line))
        if len(data) % 2:
            self.stop("half a byte", data)
            return
        kept = bytes.fromhex(data[: 2 * HELD].decode("ascii"))
        if size > HELD:
            kept += hashlib.blake2b(data.upper(), digest_size=16).digest()
        told = tally.first.get(sample)
        if told is None:
            if len(tally.first) >= SAMPLE_LIMIT:
                self.stop(f"answers to more than {SAMPLE_LIMIT} samples", b"")
                return
            tally.first[sample] = kept
            tally.highest = max(tally.highest, sample)
        else:
            tally.repeated += 1
            if told != kept and len(tally.differing) < 100:
                tally.differing.append((sample, self.line))
        if sequence is not None:
            self.mark(sequence)

    def mark(self, sequence: int) -> None:
        """Mark a seq_id as used."""
        if sequence >= SEQUENCE_LIMIT:
            return
        if self.marked(sequence) and len(self.tally.reused) < 100:
            self.tally.reused.append((sequence, self.line))
        self.mark_all((sequence,))

    def mark_all(self, sequences: Sequence[int]) -> None:
        """Mark seq_ids as used, all below the limit."""
        used, self.last = self.sequence, max(self.last, *sequences)
        if self.last >> 3 >= len(used):
            used.extend(bytes((self.last >> 3) + 1 - len(used)))
        for sequence in sequences:
            used[sequence >> 3] |= 1 << (sequence & 7)

    def stop(self, found: str, text: bytes) -> None:
        """Record the flaw for something that is not an answer."""
        self.tally.broken = True
        self.source.add(
            Kind.RECORD,
            f"{found}: '{shown(text)}'" if text else found,
            "answers between brackets, with commas between them",
            self.line,
        )

    def end(self) -> None:
        """Check the remainder: the closing bracket."""
        if self.tally.broken:
            return
        rest = self.carry.strip(BLANK)
        closing = b"]" if self.begun else b"[]"
        squeezed = bytes(byte for byte in rest if byte not in BLANK) if len(rest) < CHUNK else rest
        self.tally.whole = squeezed == closing
        if not self.tally.whole:
            found = f"the end is '{shown(rest[-60:])}'" if rest else "no closing bracket at the end"
            self.source.add(
                Kind.CUT, found, "the whole file, from [ to ]", self.line + self.carry.count(b"\n")
            )
