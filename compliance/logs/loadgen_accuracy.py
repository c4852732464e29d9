"""LoadGen's accuracy log of any size, counted in bounded memory: who was answered, how often, alike or not.

Source of the form: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy:
`{ "seq_id" : 0, "qsl_idx" : 28, "data" : "08000000" },`. Performance runs leave `[` and `]`, or nothing between them.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from compliance.logs.source import Kind, SourceFile, look_closer, shown
from compliance.verdict import Severity
from suite.reading import opened

CHUNK: Final = 1 << 20
ANSWER_LIMIT: Final = 64 << 20
"""Bytes of one answer at most."""
SAMPLE_LIMIT: Final = 1 << 20
"""Samples that are told apart; the largest accuracy set has 50,000."""
SEQUENCE_LIMIT: Final = 1 << 29
"""Sequence numbers that are told apart: 64 MB of bits."""
HELD: Final = 32
"""Bytes of an answer that are kept; of a longer one its digest too."""
ANSWER: Final = re.compile(rb'\s*+(\[?)\s*+(,?)\s*+\{\s*"seq_id"\s*:\s*(\d{1,18})\s*,\s*"qsl_idx"\s*:\s*(\d{1,18})\s*,\s*"data"\s*:\s*"([0-9A-Fa-f]*)"\s*\}')
BLANK: Final = b" \t\r\n\0"
LENIENCY: Final = {Kind.ENCODING: Severity.INFO}


@dataclass(slots=True)
class Tally:
    """What an accuracy log holds."""

    path: Path
    answers: int = 0
    repeated: int = 0
    """Answers to a sample that was answered before."""
    first: dict[int, bytes] = field(default_factory=dict)
    """Sample -> its first answer: the bytes, or the first 32 of them and a digest."""
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of an answer -> how many are that long."""
    differing: list[tuple[int, int]] = field(default_factory=list)
    """Sample and line of answers that differ from the first to that sample."""
    reused: list[tuple[int, int]] = field(default_factory=list)
    """seq_id and line where one was used before."""
    empty: list[tuple[int, int]] = field(default_factory=list)
    """Sample and line of answers without data."""
    highest: int = -1
    """The highest sample."""
    sha256: str = ""
    size: int = 0
    """Bytes of the file."""
    whole: bool = False
    """From [ to ]."""
    broken: bool = False
    """Something in it is no answer, so nothing behind it was read."""

    @property
    def distinct(self) -> int:
        """Samples that are answered."""
        return len(self.first)


def read(source: SourceFile) -> Tally:
    """Count an accuracy log; what is no answer is a flaw, and ends the reading."""
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


@dataclass(slots=True)
class Reader:
    """Takes the file piece by piece."""

    source: SourceFile
    tally: Tally
    carry: bytes = b""
    begun: bool = False
    line: int = 1
    sequence: bytearray = field(default_factory=bytearray)
    """One bit for each seq_id."""

    def take(self, chunk: bytes) -> None:
        """Take some bytes; what may be the start of an answer waits for more."""
        text = self.carry + chunk
        at = 0
        while match := ANSWER.match(text, at):
            self.line += text.count(b"\n", at, match.end())
            if bool(match[1]) == self.begun or bool(match[2]) == (self.tally.answers == 0):
                self.stop("brackets or commas at the wrong place", text[at : match.end()])
                return
            self.begun = True
            self.answer(int(match[3]), int(match[4]), match[5])
            at = match.end()
        self.carry = text[at:]
        brace = self.carry.find(b"}")
        if brace >= 0:
            self.line += self.carry.count(b"\n", 0, brace)
            look_closer(self.source, self.carry[: brace + 1].strip(b"[], \t\r\n\0"), self.line)
            self.stop("no answer", self.carry)
        elif len(self.carry) > ANSWER_LIMIT:
            self.stop(f"an answer of more than {ANSWER_LIMIT} bytes", self.carry)

    def answer(self, sequence: int, sample: int, data: bytes) -> None:
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
        self.mark(sequence)

    def mark(self, sequence: int) -> None:
        """Note a seq_id."""
        if sequence >= SEQUENCE_LIMIT:
            return
        place, bit = sequence >> 3, 1 << (sequence & 7)
        if place >= len(self.sequence):
            self.sequence.extend(bytes(place + 1024 - len(self.sequence)))
        if self.sequence[place] & bit and len(self.tally.reused) < 100:
            self.tally.reused.append((sequence, self.line))
        self.sequence[place] |= bit

    def stop(self, found: str, text: bytes) -> None:
        """Say what is no answer."""
        self.tally.broken = True
        self.source.add(Kind.RECORD, f"{found}: '{shown(text)}'" if text else found, "answers between brackets, with commas between them", self.line)

    def end(self) -> None:
        """Look at what is left: the closing bracket."""
        if self.tally.broken:
            return
        rest = self.carry.strip(BLANK)
        closing = b"]" if self.begun else b"[]"
        squeezed = bytes(byte for byte in rest if byte not in BLANK) if len(rest) < CHUNK else rest
        self.tally.whole = squeezed == closing
        if not self.tally.whole:
            found = f"the end is '{shown(rest[-60:])}'" if rest else "no closing bracket at the end"
            self.source.add(Kind.CUT, found, "the whole file, from [ to ]", self.line + self.carry.count(b"\n"))
