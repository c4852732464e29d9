"""The readers of a ledger: the judge's, and the writer's, which goes on with whatever it finds."""

from pathlib import Path

from compliance.kinds.podium.documents import ledger
from compliance.logs.source_file import SourceFile
from suite.errors import PodiumError
from suite.ledger.book import Ledger
from suite.ledger.steps import (
    StepKind,
    compute_ledger_head,
    parse_ledger_line,
    split_ledger_lines,
    strip_packed_lines,
)


def judged(source: SourceFile) -> object:
    """Read the lines as the judge does."""
    return list(ledger.read_ledger_lines(source))


def gone_on_with(path: Path) -> object:
    """Settle a ledger and append to it; whatever it held, the last line is whole and linked."""
    book = Ledger(results=path.parents[3], organisation_folder=path.parents[1], workload=path.stem)
    try:
        book.settle()
        book.append(StepKind.CHECKED)
    except PodiumError:
        return None
    last = split_ledger_lines(book.read_bytes())[-1]
    assert parse_ledger_line(last) is not None and compute_ledger_head(book.read_bytes())
    return strip_packed_lines(book.read_bytes())


def place(work: Path, workload: str) -> Path:
    """Say where the ledger lies that is spoilt."""
    return work / "books" / "open" / "acme" / "ledger" / f"{workload}.jsonl"
