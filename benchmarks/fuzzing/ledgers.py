"""The readers of a ledger: the judge's, and the writer's, which goes on with whatever it finds."""

from pathlib import Path

from compliance.documents.podium import ledger
from compliance.logs.source_file import SourceFile
from suite.errors import PodiumError
from suite.ledger.book import Ledger
from suite.ledger.steps import StepKind, head, parse, sealed_part, whole_lines


def judged(source: SourceFile) -> object:
    """Read the lines as the judge does."""
    return list(ledger.links(source))


def gone_on_with(path: Path) -> object:
    """Settle a ledger and append to it; whatever it held, the last line is whole and linked."""
    book = Ledger(results=path.parents[3], home=path.parents[1], workload=path.stem)
    try:
        book.settle()
        book.append(StepKind.CHECKED)
    except PodiumError:
        return None
    last = whole_lines(book.text())[-1]
    assert parse(last) is not None and head(book.text())
    return sealed_part(book.text())


def place(work: Path, workload: str) -> Path:
    """Say where the ledger lies that is spoilt."""
    return work / "books" / "open" / "acme" / "ledger" / f"{workload}.jsonl"
