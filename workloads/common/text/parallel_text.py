"""Parallel text in WMT's format: two files per split, one sentence per line; line i of one file
translates line i of the other.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from suite.errors import RequestError

TRAIN, TEST = SPLITS = ("train", "test")
CORPUS: Final = "corpus"
"""Pairs of training text before a length limit drops some."""
SOURCE, TARGET = (
    "en",
    "de",
)  # the files' suffixes: training_rules.adoc v0.7, Benchmarks: WMT English-German
NAMED: Final = 5  # broken lines listed in a message; the rest are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """One split: sentences and their translations, aligned."""

    split: str
    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self.sources)


def find(root: Path, split: str, *, skip: bool, empty: bool = False) -> Corpus:
    """Read a split; RequestError if the files differ in length, or a line is not UTF-8 or, unless
    `empty` allows that, is empty.

    `skip` drops such pairs instead.
    """
    paths = [root / f"{split}.{suffix}" for suffix in (SOURCE, TARGET)]
    sources, targets = (raw_lines(path) for path in paths)
    if len(sources) != len(targets):
        raise RequestError(
            f"{paths[0]} has {len(sources)} lines, but {paths[1].name} has {len(targets)}: line i"
            " of one must translate line i of the other"
        )
    decoded = [
        (decoded_line(source), decoded_line(target))
        for source, target in zip(sources, targets, strict=True)
    ]
    pairs = [
        (source, target)
        for source, target in decoded
        if readable(source, empty=empty) and readable(target, empty=empty)
    ]
    if len(pairs) < len(decoded) and not skip:
        raise RequestError(complaint(paths, sources, targets, empty=empty))
    if not pairs:
        raise RequestError(f"{paths[0]}: no sentence pairs")
    return Corpus(
        split=split,
        sources=tuple(pair[0] for pair in pairs),
        targets=tuple(pair[1] for pair in pairs),
    )


def files() -> tuple[str, ...]:
    """Return the names of a text's four files."""
    return tuple(f"{split}.{suffix}" for split in SPLITS for suffix in (SOURCE, TARGET))


def hashes(root: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file; RequestError if one is unreadable."""
    return {name: hashlib.sha256(content(root / name)).hexdigest() for name in files()}


def digest(root: Path) -> str:
    """Return a digest of a text's bytes."""
    return hashlib.sha256("".join(hashes(root).values()).encode()).hexdigest()[:16]


def raw_lines(path: Path) -> list[bytes]:
    """Read the lines of a file, without a byte order mark and carriage returns."""
    lines = (
        content(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    )  # Unicode's other line ends occur within sentences of WMT
    return lines[:-1] if lines[-1] == b"" else lines


def content(path: Path) -> bytes:
    """Read a file's bytes; RequestError if that fails."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        wanted = f"<split>.{SOURCE} and <split>.{TARGET}, one sentence a line"
        raise RequestError(f"{path}: no such file; expected {wanted}") from None
    except OSError as error:
        raise RequestError(f"{path}: it cannot be read ({error.strerror})") from error


def decoded_line(line: bytes) -> str | None:
    """Decode a line, stripped of white space; None if it is not UTF-8."""
    try:
        return line.decode("utf-8").strip()
    except UnicodeDecodeError:
        return None


def readable(line: str | None, *, empty: bool) -> TypeGuard[str]:
    """Return whether a line is usable in a pair."""
    return line is not None and (empty or line != "")


def complaint(
    paths: Sequence[Path], sources: Sequence[bytes], targets: Sequence[bytes], *, empty: bool
) -> str:
    """List the unusable lines."""
    texts = [
        (path, number, decoded_line(line))
        for path, lines in zip(paths, (sources, targets), strict=True)
        for number, line in enumerate(lines, 1)
    ]
    bad = [
        f"{path.name}:{number} is {'no UTF-8' if text is None else 'empty'}"
        for path, number, text in texts
        if not readable(text, empty=empty)
    ]
    more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    return (
        f"{paths[0].parent}: {', '.join(bad[:NAMED])}{more}; --set data.skip_broken=true leaves"
        " such pairs out"
    )


def write(corpus: Corpus, root: Path) -> None:
    """Write a split in the form that `find` reads."""
    for suffix, lines in ((SOURCE, corpus.sources), (TARGET, corpus.targets)):
        (root / f"{corpus.split}.{suffix}").write_bytes(
            "".join(f"{line}\n" for line in lines).encode()
        )
