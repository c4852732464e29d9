"""What a campaign writes into the ledger beside its steps' own lines: that it was checked, packed, and what it took the place of."""

from collections.abc import Iterator
from pathlib import Path

from submissions.result_index import Result
from suite.files.layout import LEDGER, file_sha256
from suite.ledger.book import Ledger, LedgerError
from suite.ledger.history import begun
from suite.ledger.steps import Step, StepKind, What


def ledgers(home: Path, workload: str) -> Iterator[Ledger]:
    """Yield a workload's ledgers in a results folder, one for each division and organisation that has one."""
    for path in sorted(home.glob(f"*/*/{LEDGER}/{workload}.jsonl")):
        yield Ledger(results=home, home=path.parent.parent, workload=workload)


def settle(home: Path, workload: str) -> None:
    """Write down what was moved aside, and what was begun and is not going on; LedgerError if a ledger cannot be read."""
    for ledger in ledgers(home, workload):
        ledger.settle()


def of_results(home: Path, workload: str, results: list[Result]) -> list[Ledger]:
    """Return the ledgers of the organisations that results are of."""
    homes = {home / result.tree.relative_to(result.root) for result in results}
    return [ledger for ledger in ledgers(home, workload) if ledger.home in homes]


def checked(home: Path, workload: str, results: list[Result]) -> None:
    """Write that the judge accepted what stands; once, until something else happens."""
    for ledger in of_results(home, workload, results):
        last = last_of(ledger.steps())
        if last and last.step is not StepKind.CHECKED:
            ledger.append(StepKind.CHECKED, nonce=last.nonce)


def packed(home: Path, workload: str, results: list[Result], name: str, bundle: Path) -> None:
    """Write which bundle was sealed, under its path in the results folder; once for equal bytes."""
    files = {name: file_sha256(bundle)}
    for ledger in of_results(home, workload, results):
        steps = ledger.steps()
        if steps and not (steps[-1].step is StepKind.PACKED and steps[-1].files == files):
            ledger.append(StepKind.PACKED, files, nonce=steps[-1].nonce)


def tried(result: Result) -> int | None:
    """Count the attempts at a result that a ledger tells of: training sets, or performance runs; None if no ledger tells."""
    if result.home is None or result.alone or not (result.home / LEDGER).is_dir():
        return None
    try:
        steps = Ledger(results=result.root, home=result.home, workload=result.workload).steps()
    except LedgerError:  # the judge tells
        return None
    what = What.PERFORMANCE if result.scenario else What.TRAINING
    return begun(steps, what, result.folder.relative_to(result.root).as_posix()) or None


def last_of(steps: list[Step]) -> Step | None:
    """Return the last step that is not of packing."""
    return next((step for step in reversed(steps) if step.step is not StepKind.PACKED), None)
