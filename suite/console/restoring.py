"""Lists superseded results, and brings one back."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import click

from suite.console.screen import print_progress_note
from suite.errors import JudgedError, RequestError
from suite.files import restoring
from suite.files.layout import LEDGER_FOLDER
from suite.ledger.book import Ledger
from suite.process.lock import lock_results_folder
from suite.process.signals import raise_signals_in_block
from suite.terms import Division


def print_superseded_results(results: Path) -> None:
    """List what `podium restore N` can bring back; RequestError for a folder that is missing or
    cannot be read.
    """
    require_results_folder(results)
    try:
        found = restoring.list_superseded_results(results.absolute())
    except OSError as error:
        raise RequestError(
            f"{error.filename}: {error.strerror}; make it readable to see what can be restored"
        ) from error
    for each in found:
        place, *more = each.places
        click.echo(f"{each.number:>3}  {each.moment}  {place}")
        for further in more:
            click.echo(f"{'':23}{further}")
    if found:
        print_progress_note(f"next: podium restore N --results {shlex.quote(str(results))}")
    else:
        print_progress_note(f"no superseded results in {results}")


def restore_result(results: Path, number: int) -> None:
    """Bring a result back, and record it in the ledgers; RequestError if there is none, JudgedError
    if the disk refuses.
    """
    require_results_folder(results)
    folder = results.absolute()
    try:
        with lock_results_folder(folder), raise_signals_in_block() as signals, signals.postpone():
            if restoring.complete_restoring(folder):
                record_restored_files(folder)
            places = restoring.restore_superseded_result(folder, number)
            record_restored_files(folder)
    except OSError as error:
        raise JudgedError(
            f"{error.filename or results}: {error.strerror}; the same command continues"
        ) from error
    for place in places:
        click.echo(f"restored: {place}")
    print_progress_note(f"next: podium check {shlex.quote(str(results))}")


def require_results_folder(results: Path) -> None:
    """Raise RequestError for a results folder that does not exist."""
    if not results.is_dir():
        raise RequestError(f"--results {results}: no such folder; name the one with the results")


def record_restored_files(folder: Path) -> None:
    """Record in all ledgers which files are no longer in place, and which are again."""
    for ledger in iterate_result_ledgers(folder):
        ledger.settle()
        ledger.record_restored()


def iterate_result_ledgers(folder: Path) -> Iterator[Ledger]:
    """Yield the ledgers of a results folder."""
    for division in Division:
        for path in sorted((folder / division).glob(f"*/{LEDGER_FOLDER}/*.jsonl")):
            yield Ledger(results=folder, organisation_folder=path.parents[1], workload=path.stem)
