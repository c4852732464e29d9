"""Say what a file is that is not what its name says: a pointer that stands for it, an archive, a
web page, or a file of another format; by its first bytes.
"""

import re
from pathlib import Path
from typing import Final

from suite.files.archives import find_magic_format
from suite.files.untrusted_files import open_regular_file

HEAD_BYTES: Final = 4096
"""First bytes that are looked at; a pointer has some hundred in all."""
POINTERS: Final = (
    (b"version https://git-lfs.github.com/spec/", "Git LFS", "git lfs pull"),
    (b"/annex/objects/", "git-annex", "git annex get"),
)
"""How a file begins that stands for a larger one in a clone, whose it is, and the command that
brings the larger one. Sources: github.com/git-lfs/git-lfs, docs/spec.md; git-annex, internals/
pointer_file.
"""
PICKLE_MEMBER: Final = b"/data.pkl"
"""First member of the archive that torch.save writes."""
FORMAT_MAGICS: Final = (
    (0, b"GGUF", "a GGUF file of llama.cpp"),
    (4, b"ORTM", "a file in ONNX Runtime's own format (.ort)"),
    (4, b"TFL3", "a TensorFlow Lite file"),
    (0, b"\x89HDF\r\n", "an HDF5 file"),
)
"""Offset, magic number and name. Sources: ggml-org/ggml, docs/gguf.md; microsoft/onnxruntime,
core/flatbuffers/schema/ort.fbs; tensorflow, lite/schema/schema.fbs; HDF5's format, version 3.0.
"""
WEB_PAGE_STARTS: Final = (b"<!doctype html", b"<html", b"<?xml")
TEKKEN_KEYS: Final = (b'"num_vocab_tokens"', b'"token_bytes"')
"""Keys of Mistral's tekken.json near its begin; mistralai/mistral-common."""
TIKTOKEN_LINES: Final = re.compile(rb"(?:[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n){3}")
"""A vocabulary of tiktoken: tokens in base 64 and their ranks; openai/tiktoken, load.py."""
SENTENCE_PIECE: Final = re.compile(rb"\n[\x08-\x7f]\n(?P<length>[\x01-\x70])", re.DOTALL)
"""Begin of the first piece of a SentencePiece model, field 1 of a message whose field 1 is its
text; google/sentencepiece, src/sentencepiece_model.proto.
"""
PIECE_SCORE_TAG: Final = b"\x15"
"""Follows the text: field 2, four bytes."""


def describe_foreign_file(path: Path, wanted: str) -> str | None:
    """Say what a file is and what to do, as the end of a sentence; None if it may be what is
    wanted, such as "an ONNX file", or cannot be read.
    """
    return describe_foreign_content(read_head(path), wanted)


def describe_pointer_file(path: Path) -> str | None:
    """Say the same of a pointer alone, where the wanted file's first bytes may be any."""
    return describe_pointer(read_head(path))


def read_head(path: Path) -> bytes:
    """Read a file's first bytes; none of what is no plain file."""
    try:
        with open_regular_file(path) as stream:
            return stream.read(HEAD_BYTES)
    except OSError:
        return b""


def describe_foreign_content(content: bytes, wanted: str) -> str | None:
    """Say the same of a file's content, or of its first bytes."""
    if pointer := describe_pointer(content):
        return pointer
    name = find_foreign_format(content[:HEAD_BYTES])
    if name:
        return f"is {name}; {wanted} is wanted"
    return None


def describe_pointer(content: bytes) -> str | None:
    """Say whose pointer a file's content is, and how the file is brought."""
    for start, owner, command in POINTERS:
        if content.startswith(start):
            return f"is a {owner} pointer of {len(content)} bytes, not the file: {command}"
    return None


def find_foreign_format(head: bytes) -> str | None:
    """Return the name of the format that a file's first bytes show, with its article; None if they
    show none of these.
    """
    if archive := find_magic_format(head):
        if PICKLE_MEMBER in head:
            return "a file of pickles (torch.save)"
        return f"an archive ({archive})"
    for offset, magic, name in FORMAT_MAGICS:
        if head.startswith(magic, offset):
            return name
    if head.lstrip().lower().startswith(WEB_PAGE_STARTS):
        return "a web page"
    if head.lstrip().startswith(b"{") and any(key in head for key in TEKKEN_KEYS):
        return "a vocabulary of Mistral (tekken.json)"
    if TIKTOKEN_LINES.match(head):
        return "a vocabulary of tiktoken"
    if is_sentence_piece(head):
        return "a SentencePiece model"
    return None


def is_sentence_piece(head: bytes) -> bool:
    """Return whether bytes begin as a SentencePiece model: a text and its score."""
    found = SENTENCE_PIECE.match(head)
    if found is None:
        return False
    return head.startswith(PIECE_SCORE_TAG, found.end() + found["length"][0])
