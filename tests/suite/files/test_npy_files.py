"""Arrays that another process, or somebody else, wrote: mapped, or one error that names the file."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from submissions.report.records.queries import read_recorded_queries
from suite.errors import JudgedError
from suite.files.layout import QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.files.npy_files import map_npy_array
from suite.files.untrusted_files import UnreadableError
from suite.measurement.run_energy import count_recorded_tokens
from suite.studies.run_facts import find_array

ROWS = np.array([(0, 5, 1, 1)], dtype="<i8,<i8,<u4,<u4")


def spoil(old: bytes, new: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


def write_archive(path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, ROWS)


SPOILT: dict[str, Callable[[Path], object]] = {
    "an open bracket": spoil(b"(1,)", b"(1,("),
    "a bracket lost": spoil(b"(1,)", b"(1, "),
    "a brace lost": spoil(b"}", b" "),
    "a quote flipped": spoil(b"'descr'", b"'''scr'"),
    "a name": spoil(b"False", b"Falsy"),
    "an object": lambda path: np.save(path, np.array([{}]), allow_pickle=True),
    "an archive": write_archive,
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "huge": spoil(b"(1,)", b"(9" + b"9" * 11 + b",)"),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "missing": Path.unlink,
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_damaged_array_is_one_error(tmp_path: Path, how: str) -> None:
    """NumPy lets its tokenizer's errors through, and a page of results ended in a traceback."""
    path = tmp_path / "rows.npy"
    np.save(path, ROWS)
    assert map_npy_array(path).tolist() == ROWS.tolist()
    SPOILT[how](path)
    with pytest.raises(UnreadableError, match=r"rows\.npy"):
        map_npy_array(path)


@pytest.mark.parametrize("how", ["an open bracket", "a brace lost", "an archive"])
def test_whoever_reads_a_run_s_records_outlives_a_damaged_one(tmp_path: Path, how: str) -> None:
    for name in (QUERY_RECORD_FILE, TOKEN_RECORD_FILE):
        np.save(tmp_path / name, ROWS)
        SPOILT[how](tmp_path / name)
    assert count_recorded_tokens(tmp_path) is None
    assert find_array(tmp_path / QUERY_RECORD_FILE) is None
    with pytest.raises(JudgedError, match=f"{QUERY_RECORD_FILE} cannot be read"):
        read_recorded_queries(tmp_path / QUERY_RECORD_FILE)
