"""Maps of samples: those of long runs are larger than other documents, and a wrong one is told."""

import json
from pathlib import Path

import pytest

from compliance.kinds.endpoints.documents.sample_map import SampleMap, read_sample_map
from compliance.logs.source_file import SourceFile
from suite.files.untrusted_files import MAX_DOCUMENT_BYTES

MANY = 110_000


def test_a_long_run_has_a_large_map(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"performance": {f"{at:032x}": at % 7 for at in range(MANY)}}))
    assert path.stat().st_size > MAX_DOCUMENT_BYTES
    source = SourceFile(path)
    assert list(read_sample_map(source).order) == [at % 7 for at in range(MANY)]
    assert not source.parse_errors


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"performance": {"a": -1}}',
        '{"performance": {"a": 9999999999999999999999999}}',
        '{"performance": {"a": 1.5}}',
        '{"performance": ["a"]}',
        '{"performance": {"\xff": 1',
    ],
)
def test_a_wrong_map_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "map.json"
    path.write_text(text, encoding="latin-1")
    source = SourceFile(path)
    assert read_sample_map(source) == SampleMap()
    assert len(source.parse_errors) == 1


def test_other_phases_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text('{"accuracy": {"b": "x"}, "performance": {"a": 3}}')
    source = SourceFile(path)
    assert list(read_sample_map(source).order) == [3] and not source.parse_errors
