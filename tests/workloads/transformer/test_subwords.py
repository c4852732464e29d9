"""The reference's subword vocabulary, held against cases that were made by hand."""

import sys
import unicodedata
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.errors import RequestError
from workloads.transformer import subwords
from workloads.transformer.subwords import (
    EOS_ID,
    ESCAPE_CHARACTERS,
    RESERVED_SUBTOKENS,
    SubtokenVocabulary,
    build_subtoken_vocabulary,
    decode_token_escapes,
    encode_token_escapes,
    join_tokens,
    split_into_subtokens,
    split_into_tokens,
)

TOKENS = [
    ("", []),
    ("one", ["one"]),
    ("one two", ["one", "two"]),
    ("one  two", ["one", "  ", "two"]),
    ("one, two.", ["one", ", ", "two", "."]),
    (" one", [" ", "one"]),
    ("one ", ["one", " "]),
    ("it's 3.5%", ["it", "'", "s", "3", ".", "5", "%"]),
    ("snake_case", ["snake", "_", "case"]),
    ("Öl für 2²", ["Öl", "für", "2²"]),
    ("日本 語", ["日本", "語"]),
    ("e\u0301t", ["e", "\u0301", "t"]),
    ("?", ["?"]),
    (" ", [" "]),
]


@pytest.mark.parametrize(("text", "tokens"), TOKENS)
def test_text_falls_into_runs_as_in_the_reference(text: str, tokens: list[str]) -> None:
    """Letters and digits are one class, marks and blanks the other; only a single blank between
    runs goes.
    """
    assert split_into_tokens(text) == tokens
    assert join_tokens(tokens) == text


def test_a_word_is_of_unicode_s_letters_and_numbers():
    """tokenizer.py, _ALPHANUMERIC_CHAR_SET: categories L and N of all code points."""
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    runs = groupby(everything, lambda character: unicodedata.category(character)[0] in "LN")
    assert split_into_tokens(everything) == ["".join(run) for _, run in runs]


ESCAPED = [
    ("abc", "abc_"),
    ("a_b", "a\\ub_"),
    ("a\\b", "a\\\\b_"),
    ("a\\u", "a\\\\u_"),
    ("aéb", "a\\233;b_"),
    ("\n", "\\10;_"),
    ("a;b", "a;b_"),
    ("语", "\\35821;_"),
    ("_\\", "\\u\\\\_"),
    ("1", "1_"),
    ("z", "\\122;_"),
]
ALPHABET = ESCAPE_CHARACTERS | set("abc")


@pytest.mark.parametrize(("token", "escaped"), ESCAPED)
def test_escapes_are_the_reference_s(token: str, escaped: str) -> None:
    """Underscore, backslash, line end, and what is not in the alphabet; an underscore at the
    end.
    """
    assert encode_token_escapes(token, ALPHABET) == escaped
    assert decode_token_escapes(escaped[:-1]) == token


def test_a_line_end_is_escaped_even_where_it_is_in_the_alphabet() -> None:
    """A vocabulary file has one subtoken a line."""
    assert encode_token_escapes("\n", ALPHABET | {"\n"}) == "\\10;_"


MEANINGLESS = [
    ("\\99999999;", "\u3013"),
    ("\\9;", "\t"),
    ("\\u\\u", "__"),
    ("\\", "\\"),
    ("\\12", "\\12"),
    ("\\" + "9" * 5000 + ";", "\u3013"),
]


@pytest.mark.parametrize(("escaped", "token"), MEANINGLESS)
def test_escapes_that_mean_nothing_do_not_end_a_run(escaped: str, token: str) -> None:
    """A model may write any subtokens side by side."""
    assert decode_token_escapes(escaped) == token


KNOWN = ["a", "b", "c", "_", "ab", "abc", "bc_", "c_", "\\"]


@pytest.mark.parametrize(
    ("escaped", "parts"),
    [
        ("abc_", ["abc", "_"]),
        ("abbc_", ["ab", "bc_"]),
        ("c_", ["c_"]),
        ("ac_", ["a", "c_"]),
        ("abcabc_", ["abc", "abc", "_"]),
    ],
)
def test_the_longest_subtoken_comes_first(escaped: str, parts: list[str]) -> None:
    """Greedy from the left, even where another cut had fewer parts."""
    assert list(split_into_subtokens(escaped, KNOWN, 3)) == parts


def test_what_no_subtoken_spells_is_told() -> None:
    """A vocabulary without the character, instead of an endless loop."""
    with pytest.raises(ValueError, match="'x'"):
        list(split_into_subtokens("axb_", KNOWN, 3))


def by_hand(counts: Counter[str], alphabet: set[str], least: int) -> list[str]:
    """The reference's four passes, written the long way round: buckets of lengths, the longest
    first.
    """
    subtokens, longest = [*RESERVED_SUBTOKENS, *alphabet], 1
    for _ in range(4):
        found: Counter[str] = Counter()
        for token, count in counts.items():
            escaped, start = encode_token_escapes(token, alphabet), 0
            for part in split_into_subtokens(escaped, subtokens, longest):
                for stop in range(start + 1, len(escaped) + 1):
                    found[escaped[start:stop]] += count
                start += len(part)
        kept: list[tuple[int, str]] = []
        longest = max(len(subtoken) for subtoken, count in found.items() if count >= least)
        for length in range(longest, 0, -1):
            for subtoken in [
                one for one, count in found.items() if len(one) == length and count >= least
            ]:
                if subtoken not in alphabet:
                    kept.append((found[subtoken], subtoken))
                for stop in range(1, length):
                    found[subtoken[:stop]] -= found[subtoken]
        kept += [(found[character], character) for character in alphabet]
        subtokens = [*RESERVED_SUBTOKENS, *(subtoken for _, subtoken in sorted(kept, reverse=True))]
    return subtokens


def test_the_vocabulary_is_that_of_the_published_method() -> None:
    """Counts, order, and the counts that a longer subtoken takes from its beginnings."""
    counts = Counter(
        split_into_tokens(
            "the then these there a an and ant banana band the the and and lower lowest newer"
            " newest wider"
        )
    )
    alphabet = ESCAPE_CHARACTERS | {character for token in counts for character in token}
    for least in (1, 2, 3, 5):
        assert subwords.build_subtoken_list(
            subwords.EscapedTokenCounts(counts, alphabet), least
        ) == by_hand(counts, set(alphabet), least)


def test_a_small_vocabulary_made_by_hand() -> None:
    """`aa aa aa ab`: `aa_` thrice is worth a subtoken at a minimum of 2, `ab_` is not, and `a`
    keeps what `aa_` has left it.
    """
    found = subwords.build_subtoken_list(
        subwords.EscapedTokenCounts({"aa": 3, "ab": 1}, ESCAPE_CHARACTERS | {"a", "b"}), 2
    )
    assert found[:3] == ["<pad>", "<EOS>", "aa_"]
    assert set(found[3:]) == ESCAPE_CHARACTERS | {"a", "b"}


WORDS = ["Der Hund, den die Katze sah, lief weg.", "snake_case \\ 100 %", "日本語 and Öl"] * 3


def test_the_size_comes_near_the_wanted_one() -> None:
    """The minimum count is searched for: more subtokens where more are asked for."""
    lines = [
        f"{first}{second}{third} {third}{first}"
        for first in "abcdef"
        for second in "ghijkl"
        for third in "mnopqr"
    ]
    small, large = build_subtoken_vocabulary(lines, 60), build_subtoken_vocabulary(lines, 300)
    assert abs(len(small) - 60) < abs(len(large) - 60)
    assert abs(len(large) - 300) < abs(len(small) - 300)


@pytest.mark.parametrize("line", [*WORDS, "unseen ☃ signs\tand_more\\u;", "", " ", "a  b", "\\10;"])
def test_text_comes_back(line: str) -> None:
    """Without loss, also for characters that the vocabulary has never seen."""
    words = build_subtoken_vocabulary(WORDS, 80)
    assert words.decode_ids(words.encode_text(line)) == line


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_comes_back(line: str) -> None:
    """But for what joining must lose: single blanks that stood at a place where the reference puts
    none.
    """
    words = build_subtoken_vocabulary(WORDS, 80)
    assert words.decode_ids(words.encode_text(line)) == join_tokens(split_into_tokens(line))


def test_decoding_ends_at_the_end_and_passes_over_what_means_nothing() -> None:
    """A network may answer with padding, and with numbers that embeddings have but the vocabulary
    has not.
    """
    words = build_subtoken_vocabulary(WORDS, 80)
    ids = words.encode_text("Hund lief")
    assert words.decode_ids([0, *ids, 10**6, -3, EOS_ID, *ids]) == "Hund lief"


def test_a_vocabulary_comes_back_from_its_file(tmp_path: Path) -> None:
    """One quoted subtoken a line, whatever characters it has."""
    words = build_subtoken_vocabulary([*WORDS, "'quoted' \u2028 \"double\""], 90)
    words.write_vocabulary(tmp_path / "vocab")
    assert subwords.read_subtoken_vocabulary(tmp_path / "vocab").subtokens == words.subtokens
    assert (tmp_path / "vocab").read_text("utf-8").startswith("'<pad>'\n'<EOS>'\n")


OTHERS = [
    b"",
    b"'<pad>'\n",
    b"<pad>\n<EOS>\n",
    b"'<EOS>'\n'<pad>'\n'a'\n",
    b"'<pad>'\n'<EOS>'\n'a'\n",
    b"\xff\xfe",
    b"'<pad>'\n'<EOS>'\nabc\n",
]


@pytest.mark.parametrize("content", OTHERS)
def test_what_is_no_vocabulary_is_refused(tmp_path: Path, content: bytes) -> None:
    """Another file of that name would give numbers that mean nothing."""
    (tmp_path / "vocab").write_bytes(content)
    with pytest.raises(RequestError, match="vocab"):
        subwords.read_subtoken_vocabulary(tmp_path / "vocab")


def test_a_missing_vocabulary_is_refused(tmp_path: Path) -> None:
    """One sentence instead of a traceback."""
    with pytest.raises(RequestError, match="No such file"):
        subwords.read_subtoken_vocabulary(tmp_path / "vocab")


def test_the_reference_s_double_quotes_are_read(tmp_path: Path) -> None:
    """Its files of old have them where a subtoken has a single quote."""
    lines = [*RESERVED_SUBTOKENS, *sorted(ESCAPE_CHARACTERS), "it's"]
    (tmp_path / "vocab").write_text("".join(f'"{line}"\n' for line in lines), "utf-8")
    assert (
        subwords.read_subtoken_vocabulary(tmp_path / "vocab").subtokens
        == SubtokenVocabulary(lines).subtokens
    )


@pytest.mark.slow
def test_the_reference_s_own_file_is_read(tmp_path: Path) -> None:
    """WMT's vocabulary begins with `<pad>_` and `<EOS>_`, and the judge reads it again as it is
    packed.
    """
    lines = ["<pad>_", "<EOS>_", ", _", "the_", *sorted(ESCAPE_CHARACTERS), *"the, '"]
    (tmp_path / "vocab").write_text("".join(f"'{line}'\n" for line in lines), "utf-8")
    words = subwords.read_subtoken_vocabulary(tmp_path / "vocab")
    assert (words.encode_text("the, the"), words.decode_ids([0, 3, 2, 3, EOS_ID])) == (
        [3, 2, 3],
        "the, the",
    )
    words.write_vocabulary(tmp_path / "packed")
    assert (tmp_path / "packed").read_bytes() == (tmp_path / "vocab").read_bytes()
