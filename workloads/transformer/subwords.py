"""The reference's subword vocabulary (tensor2tensor's), which converts any text to ids and back
without loss.

Text is split into runs of letters and digits and runs of everything else. Each run is escaped, so
that `_` can mark its end and
characters outside the alphabet become their code points, and is cut into the longest subtokens from
the left.
Sources: mlcommons/training, translation/tensorflow/transformer/utils/tokenizer.py; Vaswani et al.
2018, arXiv:1803.07416.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError

PAD_ID, EOS_ID = 0, 1
RESERVED: Final = ("<pad>", "<EOS>")
"""The first entries of our vocabularies; no text is ever cut into these two."""
PUBLISHED: Final = ("<pad>_", "<EOS>_")
"""The first entries of the reference's; tokenizer.py, RESERVED_TOKENS."""
ESCAPING: Final = frozenset("\\_u;0123456789")
"""Characters used in escapes; every alphabet has them."""
UNDEFINED: Final = "\u3013"
"""Replacement for an invalid code point; tokenizer.py, _UNDEFINED_UNICODE."""
ITERATIONS: Final = 4
"""tokenizer.py: how often the counts are recomputed with the resulting subtokens."""
LEAST_COUNT, MOST_COUNT = 1, 1000
"""tokenizer.py: range in which the minimum count is searched."""
THRESHOLD_SHARE: Final = 0.01
"""tokenizer.py: a size within 1 % is accepted, 327 of 32,768."""
CACHED_TOKENS: Final = 1 << 16
ESCAPE: Final = re.compile(r"\\u|\\\\|\\([0-9]+);")
RUN: Final = re.compile(r"[^\W_]+|[\W_]+")
"""Letters and digits of any script (Unicode's categories L and N, all of them in this expression's
\\w), or what is between them.
"""


def is_word(character: str) -> bool:
    """Return whether a character is a letter or digit, in any script."""
    return character.isalnum()


def tokens_of(text: str) -> list[str]:
    """Split between letters or digits and other characters; a single space between two words is
    dropped, since joining restores it.
    """
    runs: list[str] = RUN.findall(text)
    return [*runs[:1], *(run for run in runs[1:-1] if run != " "), *runs[1:][-1:]]


def text_of(tokens: Sequence[str]) -> str:
    """Join the tokens of `tokens_of`, with a space between two runs of letters and digits."""
    parts: list[str] = []
    for before, token in zip(["", *tokens], tokens, strict=False):
        parts.append(f" {token}" if before and is_word(before[0]) and is_word(token[0]) else token)
    return "".join(parts)


def escape(token: str, alphabet: Collection[str]) -> str:
    r"""Write `\` as `\\`, `_` as `\u` and what is not in the alphabet as `\<code point>;`, then `_`
    for the end.
    """
    plain = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in plain) + "_"


def unescape(token: str) -> str:
    """Undo `escape`, after its final `_` has been removed."""
    return ESCAPE.sub(_unescaped, token)


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return "_" if found[0] == "\\u" else "\\"
    try:
        return chr(int(found[1]))
    except (ValueError, OverflowError):
        return UNDEFINED


def cut(escaped: str, known: Collection[str], longest: int) -> Iterator[str]:
    """Cut an escaped token into the longest known subtokens from the left; ValueError if a
    character is not known.
    """
    start = 0
    while start < len(escaped):
        stop = min(len(escaped), start + longest)
        while stop > start and escaped[start:stop] not in known:
            stop -= 1
        if stop == start:
            raise ValueError(f"{escaped[start]!r} is not in any subtoken of the vocabulary")
        yield escaped[start:stop]
        start = stop


class Subwords:
    """A vocabulary: subtokens by id, and the conversion of text to ids and back."""

    def __init__(self, subtokens: Sequence[str]) -> None:
        self.subtokens = tuple(subtokens)
        self._ids = {
            subtoken: number
            for number, subtoken in enumerate(self.subtokens)
            if number >= len(RESERVED)
        }
        self._longest = max(map(len, self._ids), default=1)
        self._alphabet = frozenset(subtoken for subtoken in self._ids if len(subtoken) == 1)
        self._ids_of = lru_cache(maxsize=CACHED_TOKENS)(self._token_ids)

    def __len__(self) -> int:
        return len(self.subtokens)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without the end-of-sentence mark."""
        return [number for token in tokens_of(text) for number in self._ids_of(token)]

    def _token_ids(self, token: str) -> tuple[int, ...]:
        return tuple(
            self._ids[subtoken]
            for subtoken in cut(escape(token, self._alphabet), self._ids, self._longest)
        )

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text up to the end-of-sentence mark; invalid ids are skipped, as in the
        reference.
        """
        known: list[str] = []
        for number in ids:
            if number == EOS_ID:
                break
            if len(RESERVED) <= number < len(self.subtokens):
                known.append(self.subtokens[number])
        return text_of([unescape(token) for token in "".join(known).split("_") if token])

    def write(self, path: Path) -> None:
        """Write one quoted subtoken per line, as the reference does."""
        path.write_text(
            "".join(f"'{subtoken}'\n" for subtoken in self.subtokens), "utf-8", newline="\n"
        )


def read(path: Path) -> Subwords:
    """Read a vocabulary; RequestError if the file is invalid."""
    try:
        lines = untrusted_files.read_text(path).removesuffix("\n").split("\n")
    except UnreadableError as error:
        raise RequestError(f"vocabulary {error}") from error
    subtokens = [
        line[1:-1] for line in lines if len(line) > 2 and line[0] == line[-1] and line[0] in "'\""
    ]
    missing = ESCAPING - set(subtokens)
    if (
        len(subtokens) != len(lines)
        or tuple(subtokens[: len(RESERVED)]) not in (RESERVED, PUBLISHED)
        or missing
    ):
        raise RequestError(
            f"vocabulary {path}: expected one quoted subtoken per line, {RESERVED[0]} and"
            f" {RESERVED[1]} first, including the escape characters"
        )
    return Subwords(subtokens)


def build(lines: Iterable[str], size: int) -> Subwords:
    """Build the vocabulary closest to the wanted size, by searching for the minimum count of a
    subtoken.
    """
    counts = Counter(token for line in lines for token in tokens_of(line))
    alphabet = ESCAPING | {character for token in counts for character in token}
    return Subwords(_searched(Text(counts, alphabet), size, LEAST_COUNT, MOST_COUNT))


class Text:
    """What a vocabulary is built from, whatever the minimum count."""

    def __init__(self, counts: Mapping[str, int], alphabet: Collection[str]) -> None:
        self.tokens = [(escape(token, alphabet), count) for token, count in counts.items()]
        self.alphabet = alphabet
        self.first = _candidates(self.tokens, frozenset([*RESERVED, *alphabet]), 1)
        """The candidates of the first iteration, which takes the most time."""


def _searched(text: Text, size: int, least: int, most: int) -> list[str]:
    middle = (least + most) // 2
    found = subtokens_of(text, middle)
    if abs(len(found) - size) < size * THRESHOLD_SHARE or least >= most or middle < 2:
        return found
    bounds = (middle + 1, most) if len(found) > size else (least, middle - 1)
    other = _searched(text, size, *bounds)
    return min(found, other, key=lambda subtokens: abs(len(subtokens) - size))


def subtokens_of(text: Text, least: int) -> list[str]:
    """Build the subtoken list for one minimum count: cut all tokens with the known subtokens, count
    substrings that start at a cut, keep frequent ones.
    """
    subtokens, longest = _kept(text.first.copy(), text.alphabet, least)
    for _ in range(ITERATIONS - 1):
        subtokens, longest = _kept(
            _candidates(text.tokens, frozenset(subtokens), longest), text.alphabet, least
        )
    return subtokens


def _candidates(
    tokens: Iterable[tuple[str, int]], known: Collection[str], longest: int
) -> dict[str, int]:
    """Count every substring that starts where a subtoken starts."""
    found: dict[str, int] = {}  # a Counter calls Python for each new one
    so_far = found.get
    for escaped, count in tokens:
        start = 0
        for subtoken in cut(escaped, known, longest):
            for stop in range(start + 1, len(escaped) + 1):
                part = escaped[start:stop]
                found[part] = so_far(part, 0) + count
            start += len(subtoken)
    return found


def _kept(counts: dict[str, int], alphabet: Collection[str], least: int) -> tuple[list[str], int]:
    """Keep frequent substrings, longest first, each subtracting its count from its prefixes; also
    return the length of the longest.
    """
    frequent = sorted(
        (subtoken for subtoken, count in counts.items() if count >= least), key=len, reverse=True
    )
    kept: list[tuple[int, str]] = []
    for subtoken in frequent:
        count = counts[subtoken]
        if count < least:
            continue
        if subtoken not in alphabet and subtoken not in RESERVED:
            kept.append((count, subtoken))
        for stop in range(1, len(subtoken)):
            counts[subtoken[:stop]] -= count
    kept += [(counts.get(character, 0), character) for character in alphabet]
    return [*RESERVED, *(subtoken for _, subtoken in sorted(kept, reverse=True))], (
        len(frequent[0]) if frequent else 1
    )
