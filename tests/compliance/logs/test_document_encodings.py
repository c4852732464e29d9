"""How an editor saved a document is one finding that names it, and the document is read."""

import shutil
from pathlib import Path

import pytest
from examples import EXAMPLES
from kinds.training import lately_set

from compliance.judge import Judge
from compliance.verdict import Severity

BASES = ("trained-tree", "since-v5.1", "filed-closed", "tree")
ENCODINGS = {
    "utf-8-sig": "a byte order mark at the beginning",
    "utf-16": "UTF-16 text (little-endian)",
    "utf-16-le": "UTF-16 text (little-endian)",
    "utf-16-be": "UTF-16 text (big-endian)",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("base", BASES)
def test_a_system_description_in_another_encoding_is_one_finding(
    tmp_path: Path, base: str, encoding: str
) -> None:
    tree = Path(shutil.copytree(EXAMPLES / "base" / base, tmp_path / "tree"))
    before = set(Judge().judge_path(str(tree)).findings)
    path = sorted(tree.glob("**/systems/*.json"))[0]
    path.write_bytes(path.read_text().encode(encoding))
    (told,) = set(Judge().judge_path(str(tree)).findings) - before
    assert (told.rule, told.file, told.found) == ("file.encoding", str(path), ENCODINGS[encoding])
    assert told.severity is not Severity.INFO
    assert told.advice.startswith("save it as UTF-8")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_log_in_utf_16_is_one_finding(tmp_path: Path, encoding: str) -> None:
    """Its last byte was an incomplete line, and no record of it was found."""
    lately_set(15)(tmp_path)
    path = tmp_path / "result_3.txt"
    path.write_bytes(path.read_text().encode(encoding))
    (told,) = Judge().judge_path(str(tmp_path)).findings
    assert (told.rule, told.file, told.found) == ("file.encoding", str(path), "UTF-16 text")
    assert told.severity is Severity.ERROR
