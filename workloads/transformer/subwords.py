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
RESERVED_SUBTOKENS: Final = ("<pad>", "<EOS>")
"""The first entries of our vocabularies; no text is ever cut into these two."""
REFERENCE_RESERVED_SUBTOKENS: Final = ("<pad>_", "<EOS>_")
"""The first entries of the reference's; tokenizer.py, RESERVED_TOKENS."""
ESCAPE_CHARACTERS: Final = frozenset("\\_u;0123456789")
"""Characters used in escapes; every alphabet has them."""
INVALID_CODE_POINT_REPLACEMENT: Final = "\u3013"
"""Replacement for an invalid code point; tokenizer.py, _UNDEFINED_UNICODE."""
VOCABULARY_BUILD_ITERATIONS: Final = 4
"""tokenizer.py: how often the counts are recomputed with the resulting subtokens."""
MIN_SEARCHED_COUNT, MAX_SEARCHED_COUNT = 1, 1000
"""tokenizer.py: range in which the minimum count is searched."""
VOCABULARY_SIZE_TOLERANCE: Final = 0.01
"""tokenizer.py: a size within 1 % is accepted, 327 of 32,768."""
MAX_CACHED_TOKENS: Final = 1 << 16
ESCAPE_PATTERN: Final = re.compile(r"\\u|\\\\|\\([0-9]+);")
CHARACTER_RUN_PATTERN: Final = re.compile(r"[^\W_]+|[\W_]+")
"""Letters and digits of any script (Unicode's categories L and N, all of them in this expression's
\\w), or what is between them.
"""


def is_word_character(character: str) -> bool:
    """Return whether a character is a letter or digit, in any script."""
    return character.isalnum()


def split_into_tokens(text: str) -> list[str]:
    """Split between letters or digits and other characters; a single space between two words is
    dropped, since joining restores it.
    """
    runs: list[str] = CHARACTER_RUN_PATTERN.findall(text)
    return [*runs[:1], *(run for run in runs[1:-1] if run != " "), *runs[1:][-1:]]


def join_tokens(tokens: Sequence[str]) -> str:
    """Join the tokens of `split_into_tokens`, with a space between two runs of letters and
    digits.
    """
    parts: list[str] = []
    for before, token in zip(["", *tokens], tokens, strict=False):
        if before and is_word_character(before[0]) and is_word_character(token[0]):
            parts.append(" ")
        parts.append(token)
    return "".join(parts)


def encode_token_escapes(token: str, alphabet: Collection[str]) -> str:
    r"""Write `\` as `\\`, `_` as `\u` and what is not in the alphabet as `\<code point>;`, then `_`
    for the end.
    """
    escaped = token.replace("\\", "\\\\").replace("_", "\\u")
    return "".join(c if c in alphabet and c != "\n" else f"\\{ord(c)};" for c in escaped) + "_"


def decode_token_escapes(token: str) -> str:
    """Undo `encode_token_escapes`, after its final `_` has been removed."""
    return ESCAPE_PATTERN.sub(_decode_escape, token)


def _decode_escape(match: re.Match[str]) -> str:
    if match[1] is None:
        return "_" if match[0] == "\\u" else "\\"
    try:
        return chr(int(match[1]))
    except (ValueError, OverflowError):
        return INVALID_CODE_POINT_REPLACEMENT


def split_into_subtokens(escaped: str, known: Collection[str], longest: int) -> Iterator[str]:
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


class SubtokenVocabulary:
    """A vocabulary: subtokens by id, and the conversion of text to ids and back."""

    def __init__(self, subtokens: Sequence[str]) -> None:
        self.subtokens = tuple(subtokens)
        self._ids = {
            subtoken: number
            for number, subtoken in enumerate(self.subtokens)
            if number >= len(RESERVED_SUBTOKENS)
        }
        self._longest = max(map(len, self._ids), default=1)
        self._alphabet = frozenset(subtoken for subtoken in self._ids if len(subtoken) == 1)
        self._ids_of = lru_cache(maxsize=MAX_CACHED_TOKENS)(self._encode_token)

    def __len__(self) -> int:
        return len(self.subtokens)

    def encode_text(self, text: str) -> list[int]:
        """Return the ids of a text, without the end-of-sentence mark."""
        return [number for token in split_into_tokens(text) for number in self._ids_of(token)]

    def _encode_token(self, token: str) -> tuple[int, ...]:
        return tuple(
            self._ids[subtoken]
            for subtoken in split_into_subtokens(
                encode_token_escapes(token, self._alphabet), self._ids, self._longest
            )
        )

    def decode_ids(self, ids: Iterable[int]) -> str:
        """Return the text up to the end-of-sentence mark; invalid ids are skipped, as in the
        reference.
        """
        known: list[str] = []
        for number in ids:
            if number == EOS_ID:
                break
            if len(RESERVED_SUBTOKENS) <= number < len(self.subtokens):
                known.append(self.subtokens[number])
        return join_tokens(
            [decode_token_escapes(token) for token in "".join(known).split("_") if token]
        )

    def write_vocabulary(self, path: Path) -> None:
        """Write one quoted subtoken per line, as the reference does."""
        path.write_text(
            "".join(f"'{subtoken}'\n" for subtoken in self.subtokens), "utf-8", newline="\n"
        )


def read_subtoken_vocabulary(path: Path) -> SubtokenVocabulary:
    """Read a vocabulary; RequestError if the file is invalid."""
    try:
        lines = untrusted_files.read_untrusted_text(path).removesuffix("\n").split("\n")
    except UnreadableError as error:
        raise RequestError(f"vocabulary {error}") from error
    subtokens = [
        line[1:-1] for line in lines if len(line) > 2 and line[0] == line[-1] and line[0] in "'\""
    ]
    missing = ESCAPE_CHARACTERS - set(subtokens)
    if (
        len(subtokens) != len(lines)
        or tuple(subtokens[: len(RESERVED_SUBTOKENS)])
        not in (RESERVED_SUBTOKENS, REFERENCE_RESERVED_SUBTOKENS)
        or missing
    ):
        raise RequestError(
            f"vocabulary {path}: expected one quoted subtoken per line, {RESERVED_SUBTOKENS[0]} and"
            f" {RESERVED_SUBTOKENS[1]} first, including the escape characters"
        )
    return SubtokenVocabulary(subtokens)


def build_subtoken_vocabulary(lines: Iterable[str], size: int) -> SubtokenVocabulary:
    """Build the vocabulary closest to the wanted size, by searching for the minimum count of a
    subtoken.
    """
    counts = Counter(token for line in lines for token in split_into_tokens(line))
    alphabet = ESCAPE_CHARACTERS | {character for token in counts for character in token}
    return SubtokenVocabulary(
        _search_vocabulary_size(
            EscapedTokenCounts(counts, alphabet), size, MIN_SEARCHED_COUNT, MAX_SEARCHED_COUNT
        )
    )


class EscapedTokenCounts:
    """What a vocabulary is built from, whatever the minimum count."""

    def __init__(self, counts: Mapping[str, int], alphabet: Collection[str]) -> None:
        self.tokens = [
            (encode_token_escapes(token, alphabet), count) for token, count in counts.items()
        ]
        self.alphabet = alphabet
        self.first = _count_candidate_subtokens(
            self.tokens, frozenset([*RESERVED_SUBTOKENS, *alphabet]), 1
        )
        """The candidates of the first iteration, which takes the most time."""


def _search_vocabulary_size(
    text: EscapedTokenCounts, size: int, least: int, most: int
) -> list[str]:
    middle = (least + most) // 2
    found = build_subtoken_list(text, middle)
    if abs(len(found) - size) < size * VOCABULARY_SIZE_TOLERANCE or least >= most or middle < 2:
        return found
    bounds = (middle + 1, most) if len(found) > size else (least, middle - 1)
    other = _search_vocabulary_size(text, size, *bounds)
    return min(found, other, key=lambda subtokens: abs(len(subtokens) - size))


def build_subtoken_list(text: EscapedTokenCounts, least: int) -> list[str]:
    """Build the subtoken list for one minimum count: cut all tokens with the known subtokens, count
    substrings that start at a cut, keep frequent ones.
    """
    subtokens, longest = _select_frequent_subtokens(text.first.copy(), text.alphabet, least)
    for _ in range(VOCABULARY_BUILD_ITERATIONS - 1):
        subtokens, longest = _select_frequent_subtokens(
            _count_candidate_subtokens(text.tokens, frozenset(subtokens), longest),
            text.alphabet,
            least,
        )
    return subtokens


def _count_candidate_subtokens(
    tokens: Iterable[tuple[str, int]], known: Collection[str], longest: int
) -> dict[str, int]:
    """Count every substring that starts where a subtoken starts."""
    found: dict[str, int] = {}  # a Counter calls Python for each new one
    so_far = found.get
    for escaped, count in tokens:
        start = 0
        for subtoken in split_into_subtokens(escaped, known, longest):
            for stop in range(start + 1, len(escaped) + 1):
                part = escaped[start:stop]
                found[part] = so_far(part, 0) + count
            start += len(subtoken)
    return found


def _select_frequent_subtokens(
    counts: dict[str, int], alphabet: Collection[str], least: int
) -> tuple[list[str], int]:
    """Keep frequent substrings, longest first, each subtracting its count from its prefixes; also
    return the length of the longest.
    """
    frequent = sorted(
        (subtoken for subtoken, count in counts.items() if count >= least), key=len, reverse=True
    )
    selected: list[tuple[int, str]] = []
    for subtoken in frequent:
        count = counts[subtoken]
        if count < least:
            continue
        if subtoken not in alphabet and subtoken not in RESERVED_SUBTOKENS:
            selected.append((count, subtoken))
        for stop in range(1, len(subtoken)):
            counts[subtoken[:stop]] -= count
    selected += [(counts.get(character, 0), character) for character in alphabet]
    return [*RESERVED_SUBTOKENS, *(subtoken for _, subtoken in sorted(selected, reverse=True))], (
        len(frequent[0]) if frequent else 1
    )
