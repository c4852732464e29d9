"""The ledger lines that a campaign adds to those written by its steps: checked, packed,
superseded.
"""

from collections.abc import Iterator
from pathlib import Path

from compliance.results.indexed_result import IndexedResult
from suite.files.layout import LEDGER_FOLDER, compute_file_sha256
from suite.ledger.book import Ledger, LedgerError
from suite.ledger.history import count_attempts
from suite.ledger.steps import AttemptKind, LedgerStep, StepKind


def iterate_workload_ledgers(results_folder: Path, workload: str) -> Iterator[Ledger]:
    """Yield the ledgers of a workload in a results folder, at most one per division and
    organisation.
    """
    for path in sorted(results_folder.glob(f"*/*/{LEDGER_FOLDER}/{workload}.jsonl")):
        yield Ledger(
            results=results_folder, organisation_folder=path.parent.parent, workload=workload
        )


def settle_ledgers(results_folder: Path, workload: str) -> None:
    """Record superseded files, and attempts that began but no longer run; LedgerError if a ledger
    cannot be read.
    """
    for ledger in iterate_workload_ledgers(results_folder, workload):
        ledger.settle()


def list_result_ledgers(
    results_folder: Path, workload: str, results: list[IndexedResult]
) -> list[Ledger]:
    """Return the ledgers of the organisations that these results belong to."""
    organisation_folders = {
        results_folder / result.known_organisation_folder.relative_to(result.results_root)
        for result in results
    }
    return [
        ledger
        for ledger in iterate_workload_ledgers(results_folder, workload)
        if ledger.organisation_folder in organisation_folders
    ]


def record_check_step(results_folder: Path, workload: str, results: list[IndexedResult]) -> None:
    """Record that the judge accepted the results, unless that is already the last step."""
    for ledger in list_result_ledgers(results_folder, workload, results):
        last = find_last_step_before_packing(ledger.read_steps())
        if last and last.step is not StepKind.CHECKED:
            ledger.append(StepKind.CHECKED, nonce=last.nonce)


def record_pack_step(
    results_folder: Path, workload: str, results: list[IndexedResult], name: str, bundle: Path
) -> None:
    """Record which bundle was sealed, by its path in the results folder; once for equal bytes."""
    files = {name: compute_file_sha256(bundle)}
    for ledger in list_result_ledgers(results_folder, workload, results):
        steps = ledger.read_steps()
        if steps and not (steps[-1].step is StepKind.PACKED and steps[-1].files == files):
            ledger.append(StepKind.PACKED, files, nonce=steps[-1].nonce)


def count_result_attempts(result: IndexedResult) -> int | None:
    """Count the attempts at a result in its ledger: run sets, or performance runs; None if
    there is no ledger.
    """
    if (
        result.organisation_folder is None
        or result.single_log
        or not (result.organisation_folder / LEDGER_FOLDER).is_dir()
    ):
        return None
    try:
        steps = Ledger(
            results=result.results_root,
            organisation_folder=result.organisation_folder,
            workload=result.workload,
        ).read_steps()
    except LedgerError:  # the judge reports this error
        return None
    if result.scenario:
        what = AttemptKind.PERFORMANCE
    else:
        what = AttemptKind.TRAINING
    return (
        count_attempts(steps, what, result.folder.relative_to(result.results_root).as_posix())
        or None
    )


def find_last_step_before_packing(steps: list[LedgerStep]) -> LedgerStep | None:
    """Return the last step other than packing."""
    return next((step for step in reversed(steps) if step.step is not StepKind.PACKED), None)
