"""Moses' tokens, byte-pair merges, and the vocabulary that numbers their pieces."""

from pathlib import Path

import pytest
from subword_nmt.apply_bpe import BPE

from suite.errors import RequestError
from workloads.gnmt.scoring import GNMT_END_ID, GNMT_SPECIAL_TOKENS, GNMT_START_ID, GNMT_UNKNOWN_ID
from workloads.gnmt.subwords import BPE_CODES_FILE, GNMTSubwords, MosesSplitter

# Sennrich et al. 2016, section 3.2: the words of its figure, as often as there
FIGURE = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3


def test_merges_are_those_of_the_paper() -> None:
    """The most frequent pair first, and among equals the greatest: subword-nmt's order, which
    decides all later merges.
    """
    subwords = GNMTSubwords.train_on_sentences(FIGURE, 4)
    assert subwords.codes.splitlines() == [
        "#version: 0.2",
        "s t</w>",
        "e st</w>",
        "l o",
        "w est</w>",
    ]


def test_pieces_are_counted_and_numbered() -> None:
    """The most frequent first, behind the four special ones, which are 0 to 3."""
    subwords = GNMTSubwords.train_on_sentences(FIGURE, 4)
    assert subwords.tokens[:4] == GNMT_SPECIAL_TOKENS == ("<pad>", "<unk>", "<s>", "<\\s>")
    encoded = subwords.encode_sentence("lower newest")
    assert encoded.dtype.name == "int32" and (encoded[0], encoded[-1]) == (
        GNMT_START_ID,
        GNMT_END_ID,
    )
    assert [subwords.tokens[number] for number in encoded[1:-1]] == [
        "lo@@",
        "w@@",
        "e@@",
        "r",
        "n@@",
        "e@@",
        "west",
    ]
    assert subwords.decode_words(encoded[1:]) == ["lower", "newest"]


def test_encoding_is_subword_nmt_s() -> None:
    """Whatever is between us and the library must not change a piece."""
    subwords = GNMTSubwords.train_on_sentences(FIGURE, 6)
    with_library = BPE(__import__("io").StringIO(subwords.codes))
    for text in ("lowest wider new", "l", "newer lowest low"):
        pieces = with_library.process_line(text).split()
        expected = [
            subwords.tokens.index(piece) if piece in subwords.tokens else GNMT_UNKNOWN_ID
            for piece in pieces
        ]
        assert subwords.encode_sentence(text)[1:-1].tolist() == expected


def test_pieces_outside_the_vocabulary_are_unknown() -> None:
    """A letter that training never had; Moses' escapes and letters of other scripts come so in
    WMT.
    """
    subwords = GNMTSubwords.train_on_sentences(FIGURE, 3)
    assert GNMT_UNKNOWN_ID in subwords.encode_sentence("löw").tolist()
    assert "<unk>" in " ".join(subwords.decode_words(subwords.encode_sentence("löw")[1:]))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    subwords = GNMTSubwords.train_on_sentences([*FIGURE, "a\u2028b", "c\x85d"], 3)
    subwords.write_subwords(tmp_path)
    again = GNMTSubwords.read_subwords(tmp_path)
    assert (again.codes, again.tokens, again.sha256) == (
        subwords.codes,
        subwords.tokens,
        subwords.sha256,
    )


def test_another_vocabulary_has_another_hash() -> None:
    """Same tokens by other merges are cut otherwise; same merges over another text count
    otherwise.
    """
    hashes = {
        GNMTSubwords.train_on_sentences(FIGURE, 3).sha256,
        GNMTSubwords.train_on_sentences(FIGURE, 4).sha256,
        GNMTSubwords.train_on_sentences([*FIGURE, "low", "new"], 3).sha256,
    }
    assert len(hashes) == 3


@pytest.mark.parametrize("damage", [BPE_CODES_FILE, "vocabulary.txt"])
def test_a_damaged_vocabulary_is_refused(tmp_path: Path, damage: str) -> None:
    GNMTSubwords.train_on_sentences(FIGURE, 3).write_subwords(tmp_path)
    (tmp_path / damage).write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match="no readable vocabulary"):
        GNMTSubwords.read_subwords(tmp_path)
    (tmp_path / damage).unlink()
    with pytest.raises(RequestError, match="no readable vocabulary"):
        GNMTSubwords.read_subwords(tmp_path)


# Cases of Moses' tokenizer.perl and detokenizer.perl, with their escapes
MOSES = [
    (
        "en",
        'He said: "don\'t" & left (3.5 %).',
        "He said : &quot; don &apos;t &quot; &amp; left ( 3.5 % ) .",
    ),
    ("en", "Mr. Smith paid $1,000, i.e. a lot.", "Mr. Smith paid $ 1,000 , i.e. a lot ."),
    ("de", "Das kostet 3,50 Euro; „nein“!", "Das kostet 3,50 Euro ; „ nein “ !"),
]


@pytest.mark.parametrize(("language", "sentence", "tokens"), MOSES)
def test_moses_cuts(language: str, sentence: str, tokens: str) -> None:
    assert MosesSplitter(language).split_sentence(sentence) == tokens


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("en", "Mr. Smith paid $1,000, i.e. a lot."), ("de", "Er kam; sie ging (nicht)!")],
)
def test_moses_joins_what_it_cut(language: str, sentence: str) -> None:
    """BLEU of training is taken on sentences as people write them."""
    moses = MosesSplitter(language)
    assert moses.join_words(moses.split_sentence(sentence).split()) == sentence


@pytest.mark.parametrize(
    "codes", ["", "#version: 0.2\none\n", "#version: 0.2\na b c\n", "#version: x\na b\n", "\n\n"]
)
def test_merges_that_are_none_are_refused(tmp_path: Path, codes: str) -> None:
    """subword-nmt prints two lines and ends the process."""
    GNMTSubwords.train_on_sentences(FIGURE, 3).write_subwords(tmp_path)
    (tmp_path / BPE_CODES_FILE).write_text(codes)
    with pytest.raises(RequestError, match="no readable vocabulary"):
        GNMTSubwords.read_subwords(tmp_path)
