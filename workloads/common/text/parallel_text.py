"""Parallel text in WMT's format: two files per split, one sentence per line, line i of one the translation of line i of the other."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from suite.errors import RequestError

TRAIN, TEST = SPLITS = ("train", "test")
CORPUS: Final = "corpus"
"""Pairs of the training text, before any limit of length leaves some out."""
SOURCE, TARGET = "en", "de"  # the files' suffixes: training_rules.adoc v0.7, Benchmarks: WMT English-German
NAMED: Final = 5  # broken lines that a message names; the rest are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """One split: sentences and their translations, side by side."""

    split: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.sources)


def find(root: Path, split: str, *, skip: bool, empty: bool = False) -> Corpus:
    """Read a split; RequestError if files differ in length, or where a line is no UTF-8 or, unless `empty` allows that, empty.

    `skip` leaves such pairs out instead.
    """
    paths = [root / f"{split}.{suffix}" for suffix in (SOURCE, TARGET)]
    sources, targets = (raw_lines(path) for path in paths)
    if len(sources) != len(targets):
        raise RequestError(f"{paths[0]} has {len(sources)} lines, but {paths[1].name} has {len(targets)}: line i of one must translate line i of the other")
    decoded = [(decoded_line(source), decoded_line(target)) for source, target in zip(sources, targets, strict=True)]
    pairs = [(source, target) for source, target in decoded if readable(source, empty=empty) and readable(target, empty=empty)]
    if len(pairs) < len(decoded) and not skip:
        raise RequestError(complaint(paths, sources, targets, empty=empty))
    if not pairs:
        raise RequestError(f"{paths[0]}: no sentence pairs")
    return Corpus(split=split, sources=tuple(pair[0] for pair in pairs), targets=tuple(pair[1] for pair in pairs))


def files() -> tuple[str, ...]:
    """Name the four files of a text."""
    return tuple(f"{split}.{suffix}" for split in SPLITS for suffix in (SOURCE, TARGET))


def hashes(root: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file; RequestError if one cannot be read."""
    return {name: hashlib.sha256(content(root / name)).hexdigest() for name in files()}


def digest(root: Path) -> str:
    """Tell one text from another by its bytes."""
    return hashlib.sha256("".join(hashes(root).values()).encode()).hexdigest()[:16]


def raw_lines(path: Path) -> list[bytes]:
    """Read the lines of a file; a byte order mark at its start and carriage returns belong to none."""
    lines = content(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")  # other line ends of Unicode stand inside sentences of WMT
    return lines[:-1] if lines[-1] == b"" else lines


def content(path: Path) -> bytes:
    """Read a file's bytes; RequestError if that cannot be."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        wanted = f"<split>.{SOURCE} and <split>.{TARGET}, one sentence a line"
        raise RequestError(f"{path}: no such file; expected {wanted}") from None
    except OSError as error:
        raise RequestError(f"{path}: it cannot be read ({error.strerror})") from error


def decoded_line(line: bytes) -> str | None:
    """Return a line as text without white space around it; None if it is no UTF-8."""
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError:
        return None


def readable(line: str | None, *, empty: bool) -> TypeGuard[str]:
    """Tell a line that a pair can be made of."""
    return line is not None and (empty or line != "")


def complaint(paths: Sequence[Path], sources: Sequence[bytes], targets: Sequence[bytes], *, empty: bool) -> str:
    """Name the lines that no pair can be made of."""
    texts = [(path, number, decoded_line(line)) for path, lines in zip(paths, (sources, targets), strict=True) for number, line in enumerate(lines, 1)]
    bad = [f"{path.name}:{number} is {'no UTF-8' if text is None else 'empty'}" for path, number, text in texts if not readable(text, empty=empty)]
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    return f"{paths[0].parent}: {', '.join(bad[:NAMED])}{more}; --set data.skip_broken=true leaves such pairs out"


def write(corpus: Corpus, root: Path) -> None:
    """Write a split as `find` reads it."""
    for suffix, lines in ((SOURCE, corpus.sources), (TARGET, corpus.targets)):
        (root / f"{corpus.split}.{suffix}").write_bytes("".join(f"{line}\n" for line in lines).encode())
