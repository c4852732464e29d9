"""The published schemas of studies are those of the documents that the harness writes and the judge
reads.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from suite.studies.records import PointRecord, StudyRecord

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "tests" / "examples" / "base"
KINDS = {
    "study": StudyRecord,
    "study-point": PointRecord,
}
FILES = {
    "study": "curve/**/study.json",
    "study-point": "curve/**/point.json",
}


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (ROOT / "compliance" / "schemas" / f"{name}.json").read_text()
    )
    return found


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_schema_says_what_the_decoder_takes(name: str) -> None:
    """A field that was added to the document and not to the schema would be a secret."""
    made = json.loads(json.dumps(msgspec.json.schema(KINDS[name])))
    made.pop("title", None)
    assert {key: value for key, value in schema(name).items() if key in made} == made


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_podium_writes_keeps_its_schema(name: str) -> None:
    """The examples are what the commands write; without any one of its fields a document is
    none.
    """
    path, *_ = sorted(EXAMPLES.glob(FILES[name]))
    document = json.loads(path.read_text())
    validator = Draft202012Validator(schema(name))
    assert not list(validator.iter_errors(document))
    needed = schema(name)["$defs"][KINDS[name].__name__]["required"]
    assert needed and all(
        list(validator.iter_errors({key: value for key, value in document.items() if key != each}))
        for each in needed
    )
