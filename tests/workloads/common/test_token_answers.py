"""What translation workloads write and read: token numbers of answers, references by their line."""

from pathlib import Path

import pytest

from workloads.common.text import references
from workloads.common.text.token_answers import pack_token_ids, unpack_token_ids


def test_answers_are_little_endian_int32() -> None:
    """The accuracy log of another machine must mean the same."""
    assert pack_token_ids([258, 1]) == b"\x02\x01\x00\x00\x01\x00\x00\x00"
    assert unpack_token_ids(pack_token_ids([7, -1, 70000])) == (7, -1, 70000)


@pytest.mark.parametrize("odd", [b"", b"\1", b"\1\0\0\0\0"])
def test_what_is_no_row_of_int32_is_no_answer(odd: bytes) -> None:
    """Never an error: the judge scores what is there."""
    assert unpack_token_ids(odd) == ()


def test_references_come_back(tmp_path: Path) -> None:
    """One a line, whatever line separators of Unicode stand in it; the last line may lack its
    end.
    """
    lines = ["a\u2028b", "c\u0085d", "", "e"]
    references.write_references(tmp_path, lines)
    assert references.read_references(tmp_path) == lines
    path = tmp_path / references.REFERENCES_FILE
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert references.read_references(tmp_path) == lines


def test_no_references_are_an_error(tmp_path: Path) -> None:
    """The judge says that it could not recompute, instead of a score over nothing."""
    (tmp_path / references.REFERENCES_FILE).write_bytes(b"")
    with pytest.raises(ValueError, match="no references"):
        references.read_references(tmp_path)
