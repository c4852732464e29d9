"""What a file is that is not what its name says, by its first bytes."""

import gzip
import zipfile
from pathlib import Path

import pytest

from suite.files.foreign_content import describe_foreign_content, describe_foreign_file

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 912389120\n"
)
SENTENCE_PIECES = (
    b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02\n\x0c\n\x03<s>\x15\x00\x00\x00\x00"
)
TIKTOKEN = b"IQ== 0\nIg== 1\nIw== 2\nJA== 3\n"
TEKKEN = b'{"config": {"pattern": "x", "num_vocab_tokens": 150000}, "vocab": []}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (POINTER, "is a Git LFS pointer of 134 bytes, not the file: git lfs pull"),
        (b"/annex/objects/MD5E-s1--ab.onnx\n", "is a git-annex pointer of 32 bytes, not the file:"),
        (b"<!DOCTYPE html><title>404</title>", "is a web page; an ONNX file is wanted"),
        (b"\n <html lang=en>", "is a web page; an ONNX file is wanted"),
        (b'<?xml version="1.0"?><Error>', "is a web page; an ONNX file is wanted"),
        (gzip.compress(b"x", mtime=0), "is an archive (gzip); an ONNX file is wanted"),
        (b"\x18\0\0\0ORTM" + bytes(9), "is a file in ONNX Runtime's own format (.ort); an ONNX"),
        (b"GGUF\x03\0\0\0", "is a GGUF file of llama.cpp; an ONNX file is wanted"),
        (SENTENCE_PIECES, "is a SentencePiece model; an ONNX file is wanted"),
        (TIKTOKEN, "is a vocabulary of tiktoken; an ONNX file is wanted"),
        (TEKKEN, "is a vocabulary of Mistral (tekken.json); an ONNX file is wanted"),
    ],
)
def test_a_file_of_another_format_is_named(content: bytes, said: str) -> None:
    assert str(describe_foreign_content(content, "an ONNX file")).startswith(said)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\x05\n",
        b"\x08\x0a:\x1d\n\x10\n\x01x\n\x01w\x12\x01y",  # the begin of an ONNX file
        b"MMIDIDX\0\0\1",
        b'{"version": "1.0", "model": {"vocab": {}}}',
        b"version 1\n",
        b"a line of text 7\nanother 8\nthird 9\n",
    ],
)
def test_what_may_be_right_is_left_alone(content: bytes) -> None:
    assert describe_foreign_content(content, "an ONNX file") is None


def test_a_file_is_looked_at_without_being_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.onnx", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}")
    said = describe_foreign_file(tmp_path / "model.onnx", "an ONNX file")
    assert said == "is a file of pickles (torch.save); an ONNX file is wanted"
    assert describe_foreign_file(tmp_path, "an ONNX file") is None
    assert describe_foreign_file(tmp_path / "absent", "an ONNX file") is None
