"""What `podium verify` reports about a bundle's ledgers and nonces."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.bundle.manifest import Manifest, read
from submissions.result_index import Result, opened
from suite.errors import JudgedError
from suite.files.untrusted_files import printable
from suite.ledger.book import Ledger
from suite.ledger.history import begun
from suite.ledger.steps import Step, StepKind, What

TIMES: Final = {1: "once", 2: "twice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Summary of a bundle's ledgers and nonces."""

    ledger: str
    """Empty if there is none."""
    nonce: str
    challenged: bool
    """Its nonces are derived from a challenge chosen by someone else."""


def account(bundle: Path) -> Account | None:
    """Read the ledgers of an undamaged bundle; None if it has no results."""
    try:
        with opened(bundle) as results:
            books = [book for book in books_of(results) if book.text()]
            held = challenges(read(results[0].root), books)
            ledger = printable("; ".join(told_of(book, results) for book in books))
    except JudgedError:
        return None
    return Account(
        ledger=ledger,
        nonce=printable(
            f"fresh: holds the challenge {', '.join(held)}" if held else "no challenge was set"
        ),
        challenged=bool(held),
    )


def books_of(results: Sequence[Result]) -> list[Ledger]:
    """Return the ledger of each workload and organisation in these results."""
    found = {(result.tree, result.workload): result.root for result in results}
    return [
        Ledger(results=root, home=home, workload=workload)
        for (home, workload), root in found.items()
    ]


def told_of(book: Ledger, results: Sequence[Result]) -> str:
    """Summarise a ledger: number of attempts, and how many of them are in the bundle."""
    steps = book.steps()
    own = [
        result for result in results if (result.tree, result.workload) == (book.home, book.workload)
    ]
    parts = [
        (
            f"{book.workload} {len(steps)} links"
            if len(books_of(results)) > 1
            else f"unbroken: {len(steps)} links"
        )
    ]
    parts += [
        *sets(steps, own),
        *(part for result in own if result.scenario for part in runs(steps, result)),
    ]
    if first := len(steps[0].files) if steps else 0:
        parts.append(f"{first} files were there before it")
    return "; ".join(parts)


def sets(steps: Sequence[Step], own: Sequence[Result]) -> Iterator[str]:
    """Yield how many training sets began, and how many are in the bundle."""
    tried = sum(step.step is StepKind.BEGIN and step.what == What.TRAINING for step in steps)
    kept = sum(result.scenario is None for result in own)
    if tried == 1:
        yield f"1 training set begun{' and kept' * bool(kept)}"
    elif tried:
        yield f"{tried} training sets begun, {'the last' if kept == 1 else kept} kept"


def runs(steps: Sequence[Step], result: Result) -> Iterator[str]:
    """Yield how often a scenario's performance runs began and were served, if more often than the
    bundle shows.
    """
    folder = result.folder.relative_to(result.root).as_posix()
    tried, kept = begun(steps, What.PERFORMANCE, folder), len(result.performance)
    served = sum(
        step.step is StepKind.SERVED
        and step.what == What.PERFORMANCE
        and step.of.startswith(f"{folder}/")
        for step in steps
    )
    label = result.scenario.label if result.scenario else ""
    if tried == served == kept:
        return
    if tried == served and kept == 1:
        yield f"{label} served {TIMES.get(served, f'{served} times')}, the last kept"
    elif tried:
        yield f"{label}: {tried} performance runs begun, {served} served, {kept} kept"


def challenges(told: Manifest, books: Sequence[Ledger]) -> list[str]:
    """Return the challenges that a bundle's nonces were derived from."""
    begins = [
        step
        for book in books
        for step in book.steps()
        if step.step is StepKind.BEGIN and step.nonce in told.nonce.values()
    ]
    return list(dict.fromkeys(step.challenge for step in begins if step.challenge))
