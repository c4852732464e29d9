"""What a reader is, and how several of them read one file."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.judge import Judge
from compliance.kinds.podium.documents import json_document
from compliance.logs.source_file import SourceFile
from compliance.reports import render
from compliance.token_counter import TokenCounter
from fuzzing.changes import changed
from suite.errors import PodiumError

FORMATS: Final = ("text", "json", "junit", "sarif", "github")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One reader, and what it is given."""

    name: str
    file: Path
    """Where the spoilt file lies when it is read."""
    seeds: Sequence[bytes]
    read: Callable[[Path], object]
    """Takes the file's path."""
    share: float = 1.0
    """How often, against the others."""
    raises: tuple[type[Exception], ...] = ()
    """What it may raise beside podium's own errors, by its contract."""
    make: Callable[[random.Random, bytes, Sequence[bytes]], bytes] = changed
    """How an input is made of a seed and the others."""


def drained(found: object) -> object:
    """Read to the end what is read on demand."""
    for _ in found if isinstance(found, Iterator) else ():
        pass
    return found


def each(*calls: Callable[[Path], object]) -> Callable[[Path], object]:
    """Read one file in several ways; an error that a user is told does not keep the others from
    it.
    """

    def read(path: Path) -> None:
        for call in calls:
            try:
                drained(call(path))
            except PodiumError:
                continue

    return read


def parsed(read: Callable[[SourceFile], object]) -> Callable[[Path], object]:
    """Let a parser of the judge read a file; what is wrong with it has a place and words."""

    def parse(path: Path) -> None:
        source = SourceFile(path)
        drained(read(source))
        assert all(
            flaw.found and flaw.required and (flaw.line is None or flaw.line >= 1)
            for flaw in source.parse_errors
        )

    return parse


def shaped(schema: str, path: Path) -> object:
    """Hold any JSON against a published schema."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    return list(json_document.check_document_schema(schema, document))


def judged(root: Path, path: Path, counter: TokenCounter | None = None) -> None:
    """Judge a whole tree, and write the report in every format."""
    result = Judge(counter=counter).judge_path(str(root))
    assert all(finding.found and finding.required and finding.file for finding in result.findings)
    for form in FORMATS:
        render.render_judge_report([result], form).decode()
