"""The builders of examples, and the fakes that all packages share, are imported by name."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from compliance.documents.inference import reader
from compliance.documents.inference.top1 import Top1
from compliance.logs.loadgen import accuracy_counts, sample_lists
from compliance.logs.loadgen.accuracy_counts import Tally
from compliance.logs.source_file import SourceFile

for folder in (Path(__file__).parent, Path(__file__).parent / "builders", Path(__file__).parents[1] / "fakes"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture
def counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count an accuracy log without flaws, its right answers, and a list of loaded samples once: most mutants have them unchanged, to the last byte."""
    count, kept = accuracy_counts.read, dict[bytes, Tally]()
    right, marked = reader.count, cache(sample_lists.marked)
    found = dict[tuple[str, int], Top1 | None]()

    def read(source: SourceFile) -> Tally:
        content = sha256(source.path.read_bytes()).digest() if source.path.is_file() else b""
        if content in kept:
            source.leniency = accuracy_counts.LENIENCY
            return replace(kept[content], path=source.path)
        tally = count(source)
        if content and not source.counts:
            kept[content] = tally
        return tally

    def top1(tally: Tally, truth: Sequence[int]) -> Top1 | None:
        key = tally.sha256, id(truth)  # the judge keeps one list of labels
        if key not in found:
            found[key] = right(tally, truth)
        return found[key]

    monkeypatch.setattr(accuracy_counts, "read", read)
    monkeypatch.setattr(reader, "count", top1)
    monkeypatch.setattr(sample_lists, "marked", marked)
