"""Parallel files: what is read, what is refused, what is left out on request."""

import gzip
from pathlib import Path

import pytest

from suite.errors import RequestError
from workloads.common.text import parallel_text
from workloads.common.text.parallel_text import ParallelCorpus


def lay(root: Path, source: bytes, target: bytes) -> Path:
    (root / "train.en").write_bytes(source)
    (root / "train.de").write_bytes(target)
    return root


def test_lines_are_pairs(tmp_path: Path) -> None:
    """A byte order mark, carriage returns and a missing last line end change nothing."""
    lay(tmp_path, b"\xef\xbb\xbfone\r\ntwo\n", "eins\nzwei ü".encode())
    found = parallel_text.read_parallel_text(tmp_path, "train", skip=False)
    assert (found.sources, found.targets, len(found)) == (("one", "two"), ("eins", "zwei ü"), 2)


def test_other_line_ends_stand_inside_a_sentence(tmp_path: Path) -> None:
    """str.splitlines would cut at U+2028 or U+0085, which WMT's sentences hold, and shift all later
    pairs.
    """
    lay(tmp_path, "a\u2028b\x85c\nd\n".encode(), b"x\ny\n")
    assert parallel_text.read_parallel_text(tmp_path, "train", skip=False).sources == (
        "a\u2028b\x85c",
        "d",
    )


def test_files_of_different_length_are_refused(tmp_path: Path) -> None:
    """Also where broken lines may be left out: nobody knows which line belongs to which."""
    lay(tmp_path, b"one\ntwo\n", b"eins\n")
    for skip in (False, True):
        with pytest.raises(RequestError, match=r"train\.en has 2 lines, but train\.de has 1"):
            parallel_text.read_parallel_text(tmp_path, "train", skip=skip)


def test_empty_lines_and_broken_ones_are_named_or_left_out(tmp_path: Path) -> None:
    lay(tmp_path, b"one\n\nthree\nf\xffour\nfive\n", b"eins\nzwei\n \nvier\nf\xc3\xbcnf\n")
    with pytest.raises(
        RequestError,
        match=(
            r"train\.en:2 is empty, train\.en:4 is not UTF-8, train\.de:3 is empty; restore them:"
            r" they are too many"
        ),
    ):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)
    found = parallel_text.read_parallel_text(tmp_path, "train", skip=True)
    assert (found.sources, found.targets) == (("one", "five"), ("eins", "fünf"))


def test_empty_lines_may_be_sentences(tmp_path: Path) -> None:
    """Of a training text that its reference takes as it is; what is no UTF-8 is none anywhere."""
    lay(tmp_path, b"one\n\n", b"\nzwei\n")
    assert parallel_text.read_parallel_text(tmp_path, "train", skip=False, empty=True).sources == (
        "one",
        "",
    )
    lay(tmp_path, b"one\n\n\xff\n", b"eins\n\nzwei\n")
    with pytest.raises(RequestError, match=r"train\.en:3 is not UTF-8; restore them"):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False, empty=True)
    assert len(parallel_text.read_parallel_text(tmp_path, "train", skip=True, empty=True)) == 2


def test_many_broken_lines_are_counted(tmp_path: Path) -> None:
    """A message of a million names helps nobody."""
    lay(tmp_path, b"\n" * 9 + b"x\n", b"y\n" * 10)
    with pytest.raises(RequestError, match="and 4 more"):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)


@pytest.mark.parametrize(
    ("split", "lines", "advice"),
    [
        ("train", 100, "--set data.skip_broken=true leaves such pairs out"),
        ("train", 99, "restore them: they are too many to leave out"),
        ("test", 1000, "restore them: a run is scored on all of test"),
    ],
)
def test_leaving_out_is_advised_where_the_text_stays_the_same(
    tmp_path: Path, split: str, lines: int, advice: str
) -> None:
    """Not where a hundredth of the training text would go, and not in the text that is scored."""
    (tmp_path / f"{split}.en").write_bytes(b"\xff\n" + b"x\n" * (lines - 1))
    (tmp_path / f"{split}.de").write_bytes(b"x\n" * lines)
    with pytest.raises(RequestError, match=f"{split}.en:1 is not UTF-8; {advice}$"):
        parallel_text.read_parallel_text(tmp_path, split, skip=False)


@pytest.mark.parametrize(
    ("code", "end", "told"),
    [
        ("latin1", "Äpfel", "train.de looks like Latin-1: "),
        ("cp1252", "„Äpfel“ – süß", "train.de looks like Windows-1252: "),
        ("utf-16", "„Äpfel“ – süß", "train.de: is UTF-16; convert it: "),
        ("utf-16le", "„Äpfel“ – süß", "train.de: is UTF-16; convert it: "),
        ("utf-16be", "„Äpfel“ – süß", "train.de: is UTF-16; convert it: "),
    ],
)
def test_another_encoding_is_named_with_its_command(
    tmp_path: Path, code: str, end: str, told: str
) -> None:
    """German text of the nineties: leaving out each line with an umlaut would be half the text."""
    lay(tmp_path, b"one\n" * 4, f"schön\nja\ngrößer\n{end}\n".encode(code))
    with pytest.raises(RequestError) as caught:
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)
    assert str(caught.value).endswith(f"{told}iconv -f {code} -t utf-8 train.de > train.de.utf8")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("gbk", "中文句子 {}\n"),
        ("big5", "中文句子 {}\n"),
        ("euc_kr", "한국어 문장 {}\n"),
        ("shift_jis", "日本語の文です {}\n"),
        ("cp1251", "Это предложение {}\n"),
        ("iso8859_7", "αυτή είναι πρόταση {}\n"),
    ],
)
def test_another_script_is_not_called_western(tmp_path: Path, code: str, text: str) -> None:
    """Converted from Latin-1, each Chinese word would be a row of accented letters, and no error."""
    target = "".join(text.format(number) for number in range(9))
    lay(tmp_path, b"one\n" * 9, target.encode(code))
    told = (
        r"; train\.de looks like text in another encoding, such as GBK or Windows-1251:"
        r" iconv -f ENCODING -t utf-8 train\.de > train\.de\.utf8$"
    )
    with pytest.raises(RequestError, match=told):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)


def test_a_compressed_file_is_named(tmp_path: Path) -> None:
    """A download that was renamed and not unpacked has some bytes that end lines."""
    lay(tmp_path, b"one\ntwo\n", gzip.compress(b"eins\nzwei\n"))
    with pytest.raises(RequestError, match=r"train\.de is an archive \(gzip\): unpack it first$"):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)


def test_zero_bytes_within_lines_are_no_utf16(tmp_path: Path) -> None:
    lay(tmp_path, b"one\ntwo\n", b"ein\0s\nz\0wei\n")
    assert len(parallel_text.read_parallel_text(tmp_path, "train", skip=False)) == 2


def test_a_broken_line_of_utf8_is_no_other_encoding(tmp_path: Path) -> None:
    """One letter cut in two among lines that are UTF-8."""
    german = "schön\n".encode() * 300
    lay(tmp_path, b"one\n" * 301, german + b"gr\xc3\n")
    with pytest.raises(RequestError, match="train.de:301 is not UTF-8; --set data.skip_broken"):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_files_without_a_pair_are_refused(tmp_path: Path, content: bytes) -> None:
    lay(tmp_path, content, content)
    with pytest.raises(RequestError, match="no sentence pairs"):
        parallel_text.read_parallel_text(tmp_path, "train", skip=True)


def test_a_missing_file_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(
        RequestError, match=r"train\.en: no such file; expected <split>\.en and <split>\.de"
    ):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)
    (tmp_path / "train.en").mkdir()
    with pytest.raises(RequestError, match="cannot be read"):
        parallel_text.read_parallel_text(tmp_path, "train", skip=False)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """The embedded data goes through the loader of the real one."""
    corpus = ParallelCorpus(split="test", sources=("Größe", "b"), targets=("c", "d e"))
    parallel_text.write_parallel_text(corpus, tmp_path)
    assert parallel_text.read_parallel_text(tmp_path, "test", skip=False) == corpus
