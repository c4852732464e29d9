"""What `endpoint.tokenizer` names is a tokenizer.json, or is said to be something else."""

from pathlib import Path

import pytest

from harness.serving.network.openai.answer_tokens import read_tokenizer_file
from suite.errors import RequestError
from suite.files.tokenizer_files import parse_tokenizer_file


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "is a Git LFS pointer of 43 bytes, not the file: git lfs pull$",
        ),
        (
            b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02",
            "is a SentencePiece model; tokenizer.json is wanted",
        ),
        (b"IQ== 0\nIg== 1\nIw== 2\n", "is a vocabulary of tiktoken; tokenizer.json is wanted"),
        (b'{"config": {"num_vocab_tokens": 1}}', "of Mistral .*; tokenizer.json is wanted"),
    ],
)
def test_another_kind_of_tokenizer_is_named(content: bytes, said: str, tmp_path: Path) -> None:
    """The library's parser spoke of a value that it expected at line 2."""
    path = tmp_path / "tokenizer.model"
    path.write_bytes(content)
    with pytest.raises(RequestError, match=said):
        read_tokenizer_file(path)


def test_a_folder_stands_for_its_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    assert read_tokenizer_file(tmp_path) == b"{}"
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(RequestError, match="no tokenizer: "):
        read_tokenizer_file(tmp_path)


def test_a_byte_order_mark_before_a_tokenizer_is_named() -> None:
    """The library expected a value at line 1."""
    with pytest.raises(RequestError, match="t.json: begins with a byte order mark: save it"):
        parse_tokenizer_file(b"\xef\xbb\xbf{}", "t.json", "run")
