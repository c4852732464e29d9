"""Parallel text in WMT's format: two files per split, one sentence per line; line i of one file
translates line i of the other.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

from suite.errors import RequestError
from suite.files.archives import refuse_archive
from suite.files.untrusted_files import UTF16_MARKS
from suite.rounds import HyperValue
from workloads.common.data_messages import advise_about_broken_samples
from workloads.common.text.bleu import BleuForm, format_bleu_signature

TEXT_TRAIN_SPLIT, TEXT_TEST_SPLIT = TEXT_SPLITS = ("train", "test")
CORPUS_SIZE_KEY: Final = "corpus"
"""Pairs of training text before a length limit drops some."""
# the files' suffixes: training_rules.adoc v0.7, Benchmarks: WMT English-German
SOURCE_SUFFIX, TARGET_SUFFIX = (
    "en",
    "de",
)
MAX_NAMED_LINES: Final = 5  # broken lines listed in a message; the rest are counted
LATIN1_TEXT_BYTES: Final = frozenset(range(0xA0, 0xFE))
"""Bytes beyond ASCII of Western European text in ISO 8859-1: without control characters, and
without 0xfe and 0xff, which rather stand for damage than for thorn and y with diaeresis.
"""
WINDOWS_TEXT_BYTES: Final = LATIN1_TEXT_BYTES | frozenset(range(0x80, 0xA0)) - {
    0x81,
    0x8D,
    0x8F,
    0x90,
    0x9D,
}
"""The same in Windows-1252, which has quotation marks and dashes where ISO 8859-1 has controls."""
ASCII_BYTES: Final = bytes(range(0x80))
FOREIGN_SCRIPT_RUN: Final = re.compile(rb"[\x80-\xff]{4,}")
"""Bytes beyond ASCII in a row, as Chinese, Russian or Greek words have them in their own encodings;
in Western European text such bytes stand alone between ASCII's, or two together ("größ").
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelCorpus:
    """One split: sentences and their translations, aligned."""

    split: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.sources)


def read_parallel_text(
    root: Path, split: str, *, skip: bool, empty: bool = False
) -> ParallelCorpus:
    """Read a split; RequestError if the files differ in length, or a line is not UTF-8 or, unless
    `empty` allows that, is empty.

    `skip` drops such pairs instead.
    """
    paths = [root / f"{split}.{suffix}" for suffix in (SOURCE_SUFFIX, TARGET_SUFFIX)]
    sources, targets = (read_raw_lines(path) for path in paths)
    if len(sources) != len(targets):
        raise RequestError(
            f"{paths[0]} has {len(sources)} lines, but {paths[1].name} has {len(targets)}: line i"
            " of one must translate line i of the other"
        )
    decoded = [
        (decode_text_line(source), decode_text_line(target))
        for source, target in zip(sources, targets, strict=True)
    ]
    pairs = [
        (source, target)
        for source, target in decoded
        if is_usable_line(source, empty=empty) and is_usable_line(target, empty=empty)
    ]
    if len(pairs) < len(decoded) and not skip:
        advice = advise_about_encoding(paths, (sources, targets)) or advise_about_broken_samples(
            split, len(pairs), len(decoded), "leaves such pairs out"
        )
        raise RequestError(
            f"{describe_broken_lines(paths, sources, targets, empty=empty)}; {advice}"
        )
    if not pairs:
        raise RequestError(f"{paths[0]}: no sentence pairs")
    return ParallelCorpus(
        split=split,
        sources=tuple(pair[0] for pair in pairs),
        targets=tuple(pair[1] for pair in pairs),
    )


def list_parallel_files() -> tuple[str, ...]:
    """Return the names of a text's four files."""
    return tuple(
        f"{split}.{suffix}" for split in TEXT_SPLITS for suffix in (SOURCE_SUFFIX, TARGET_SUFFIX)
    )


def compute_text_hashes(root: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file; RequestError if one is unreadable."""
    return {
        name: hashlib.sha256(read_text_bytes(root / name)).hexdigest()
        for name in list_parallel_files()
    }


def compute_text_digest(root: Path) -> str:
    """Return a digest of a text's bytes."""
    return hashlib.sha256("".join(compute_text_hashes(root).values()).encode()).hexdigest()[:16]


def read_raw_lines(path: Path) -> list[bytes]:
    """Read the lines of a file, without a byte order mark and carriage returns; RequestError for
    a compressed file, and for UTF-16, whose lines end otherwise.
    """
    content = read_text_bytes(path)
    refuse_archive(path)
    # Unicode's other line ends occur within sentences of WMT
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    code = "utf-16" if content.startswith(UTF16_MARKS) else guess_unmarked_utf16(lines)
    if code:
        raise RequestError(
            f"{path}: is UTF-16; convert it: {format_iconv_command(path.name, code)}"
        )
    return lines[:-1] if lines[-1] == b"" else lines


def guess_unmarked_utf16(lines: Sequence[bytes]) -> str | None:
    """Return iconv's name for the UTF-16 of a text without a byte order mark that was split at
    newline bytes; None for another text.

    There the other byte of each newline is zero, and begins the next line or ends its own.
    """
    ends = len(lines) - 1
    if ends and 2 * sum(line.startswith(b"\0") for line in lines[1:]) > ends:
        return "utf-16le"
    if ends and 2 * sum(line.endswith(b"\0") for line in lines[:-1]) > ends:
        return "utf-16be"
    return None


def read_text_bytes(path: Path) -> bytes:
    """Read a file's bytes; RequestError if that fails."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        expected = f"<split>.{SOURCE_SUFFIX} and <split>.{TARGET_SUFFIX}, one sentence a line"
        raise RequestError(f"{path}: no such file; expected {expected}") from None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror})") from error


def decode_text_line(line: bytes) -> str | None:
    """Decode a line, stripped of white space; None if it is not UTF-8."""
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError:
        return None


def is_usable_line(line: str | None, *, empty: bool) -> TypeGuard[str]:
    """Return whether a line is usable in a pair."""
    return line is not None and (empty or line != "")


def describe_broken_lines(
    paths: Sequence[Path], sources: Sequence[bytes], targets: Sequence[bytes], *, empty: bool
) -> str:
    """List the unusable lines."""
    texts = [
        (path, number, decode_text_line(line))
        for path, lines in zip(paths, (sources, targets), strict=True)
        for number, line in enumerate(lines, 1)
    ]
    bad = [
        f"{path.name}:{number} is {'not UTF-8' if text is None else 'empty'}"
        for path, number, text in texts
        if not is_usable_line(text, empty=empty)
    ]
    more = f" and {len(bad) - MAX_NAMED_LINES} more" if len(bad) > MAX_NAMED_LINES else ""
    return f"{paths[0].parent}: {', '.join(bad[:MAX_NAMED_LINES])}{more}"


def advise_about_encoding(paths: Sequence[Path], files: Sequence[Sequence[bytes]]) -> str:
    """Name the files whose text looks like that of another encoding, with the command that converts
    them; "" if none does.
    """
    guesses = {
        path.name: guess
        for path, lines in zip(paths, files, strict=True)
        if (guess := guess_other_encoding(lines))
    }
    return "; ".join(
        f"{name} looks like {label}: {format_iconv_command(name, code)}"
        for name, (label, code) in guesses.items()
    )


def format_iconv_command(name: str, code: str) -> str:
    """Return the command that converts a file from the encoding that iconv calls `code`."""
    return f"iconv -f {code} -t utf-8 {name} > {name}.utf8"


def guess_other_encoding(lines: Sequence[bytes]) -> tuple[str, str] | None:
    """Return the encoding of a text that is not UTF-8 and iconv's name for it; None if the text has
    none that is known here, or is UTF-8 with some broken lines.
    """
    broken = [line for line in lines if decode_text_line(line) is None]
    if not broken:
        return None
    if len(broken) <= sum(not line.isascii() for line in lines) / 2:
        return None
    text = b"\n".join(broken)
    foreign_bytes = sum(map(len, FOREIGN_SCRIPT_RUN.findall(text)))
    if 2 * foreign_bytes > len(text.translate(None, ASCII_BYTES)):
        return "text in another encoding, such as GBK or Windows-1251", "ENCODING"
    high = set(text) - set(ASCII_BYTES)
    if high <= LATIN1_TEXT_BYTES:
        return "Latin-1", "latin1"
    return ("Windows-1252", "cp1252") if high <= WINDOWS_TEXT_BYTES else None


def write_parallel_text(corpus: ParallelCorpus, root: Path) -> None:
    """Write a split in the form that `read_parallel_text` reads."""
    for suffix, lines in ((SOURCE_SUFFIX, corpus.sources), (TARGET_SUFFIX, corpus.targets)):
        (root / f"{corpus.split}.{suffix}").write_bytes(
            "".join(f"{line}\n" for line in lines).encode()
        )


def list_translation_facts(found: Mapping[str, Any], form: BleuForm) -> Mapping[str, HyperValue]:
    """Return the facts of a training: the sizes of both splits, the training size before the length
    limit, and the signature of the metric.
    """
    return {
        "train_samples": found[TEXT_TRAIN_SPLIT],
        "corpus_samples": found[CORPUS_SIZE_KEY],
        "eval_samples": found[TEXT_TEST_SPLIT],
        "metric_signature": format_bleu_signature(form),
    }
