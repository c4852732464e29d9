"""BLEU from subtokens and references; no framework, since the judge runs it."""

import sys
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from suite.workload import Scores
from workloads.common.bleu import Form, bleu
from workloads.transformer import subwords

REFERENCES: Final = "references.txt"
VOCABULARY: Final = "vocabulary.txt"
ID_BYTES: Final = 4
"""One subtoken is an int32, little-endian."""


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Uncased BLEU of tensor2tensor, 0-1; a missing or misshapen answer is an empty translation."""
    words, references = subwords.read(truth / VOCABULARY), read_references(truth)
    texts = [words.decode(unpack(answers.get(sample, b""))) for sample in range(len(references))]
    return {"bleu": bleu(Form.T2T, texts, references)}


def pack(ids: Sequence[int]) -> bytes:
    """Write subtokens as the accuracy log has them, the end-of-sentence mark included: no answer is empty."""
    return _little_endian(array("i", [*ids, subwords.EOS_ID])).tobytes()


def unpack(answer: bytes) -> list[int]:
    """Read subtokens; none where the bytes are no whole number of them."""
    if len(answer) % ID_BYTES:
        return []
    found = array("i")
    found.frombytes(answer)
    return _little_endian(found).tolist()


def _little_endian(ids: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


def read_references(truth: Path) -> list[str]:
    """Read one reference a line; the line's number from 0 is the sample's. ValueError where the file is none of that."""
    path = truth / REFERENCES
    lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    if lines == [""]:
        raise ValueError(f"{path}: no references in it")
    return lines


def write_truth(truth: Path, references: Sequence[str], words: subwords.Subwords) -> None:
    """Write what `score` reads."""
    (truth / REFERENCES).write_bytes("".join(f"{line}\n" for line in references).encode())
    words.write(truth / VOCABULARY)
