"""The ledger lines that a campaign adds to those of its steps: checked, packed, superseded."""

from collections.abc import Iterator
from pathlib import Path

from submissions.result_index import Result
from suite.files.layout import LEDGER, file_sha256
from suite.ledger.book import Ledger, LedgerError
from suite.ledger.history import begun
from suite.ledger.steps import Step, StepKind, What


def ledgers(home: Path, workload: str) -> Iterator[Ledger]:
    """Yield a workload's ledgers in a results folder, one per division and organisation that has
    one.
    """
    for path in sorted(home.glob(f"*/*/{LEDGER}/{workload}.jsonl")):
        yield Ledger(results=home, home=path.parent.parent, workload=workload)


def settle(home: Path, workload: str) -> None:
    """Record superseded files, and attempts that began and are no longer running; LedgerError if a
    ledger cannot be read.
    """
    for ledger in ledgers(home, workload):
        ledger.settle()


def of_results(home: Path, workload: str, results: list[Result]) -> list[Ledger]:
    """Return the ledgers of the organisations that these results belong to."""
    homes = {home / result.tree.relative_to(result.root) for result in results}
    return [ledger for ledger in ledgers(home, workload) if ledger.home in homes]


def checked(home: Path, workload: str, results: list[Result]) -> None:
    """Record that the judge accepted the results; once, until something else happens."""
    for ledger in of_results(home, workload, results):
        last = last_of(ledger.steps())
        if last and last.step is not StepKind.CHECKED:
            ledger.append(StepKind.CHECKED, nonce=last.nonce)


def packed(home: Path, workload: str, results: list[Result], name: str, bundle: Path) -> None:
    """Record which bundle was sealed, by its path in the results folder; once for equal bytes."""
    files = {name: file_sha256(bundle)}
    for ledger in of_results(home, workload, results):
        steps = ledger.steps()
        if steps and not (steps[-1].step is StepKind.PACKED and steps[-1].files == files):
            ledger.append(StepKind.PACKED, files, nonce=steps[-1].nonce)


def tried(result: Result) -> int | None:
    """Count the attempts at a result in its ledger: training sets, or performance runs; None if
    there is no ledger.
    """
    if result.home is None or result.alone or not (result.home / LEDGER).is_dir():
        return None
    try:
        steps = Ledger(results=result.root, home=result.home, workload=result.workload).steps()
    except LedgerError:  # the judge reports it
        return None
    what = What.PERFORMANCE if result.scenario else What.TRAINING
    return begun(steps, what, result.folder.relative_to(result.root).as_posix()) or None


def last_of(steps: list[Step]) -> Step | None:
    """Return the last step other than packing."""
    return next((step for step in reversed(steps) if step.step is not StepKind.PACKED), None)
