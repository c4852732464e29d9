"""`podium history add`: adds the results of a commit to a history."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Final

import click

from submissions.history.commits import (
    Commit,
    is_merged_by_union,
    resolve_commit,
    shorten_commit,
)
from submissions.history.reading import AddedResult, read_added_results
from suite.errors import RequestError
from suite.files.untrusted_files import replace_unprintable
from suite.history.book import (
    UNION_MERGE,
    NumberedLine,
    append_history_lines,
    iterate_machine_differences,
    lock_history,
    read_history,
)
from suite.history.records import HISTORY_FORMAT, HistoryLine, compute_measured_key

ATTRIBUTES_FILE: Final = ".gitattributes"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOptions:
    """Command-line options."""

    file: Path
    commit: str | None = None
    machine: str | None = None


def run_add_command(paths: Sequence[Path], options: AddOptions) -> None:
    """Add the results in some paths to a history, all or none; what it has already is left out.

    RequestError for a commit that does not exist, for a result that is filed under another one, and
    for another machine of the same name; JudgedError for a history or results that do not count.
    """
    check_history_target(options.file)
    commit = resolve_commit(options.commit)
    read_history(options.file)  # refuses a broken one before anything is judged
    added = [each for path in paths for each in read_added_results(path, options.machine)]
    with lock_history(options.file):
        known = read_history(options.file)
        lines = build_new_lines(added, commit, known, options.file)
        if lines:
            append_history_lines(options.file, lines)
    left_out = len(added) - len(lines)
    click.echo(describe_added(options.file, commit, len(lines), left_out))
    if is_merged_by_union(str(options.file)) is False:
        click.echo(
            f"podium: write `{options.file.name} {UNION_MERGE}` into {ATTRIBUTES_FILE}, so that git"
            " keeps the lines of both sides of a merge",
            err=True,
        )


def check_history_target(file: Path) -> None:
    """Raise RequestError for a history that cannot be a file here."""
    if file.is_dir():
        raise RequestError(f"--file {file}: is a folder; name a file in it")
    if not file.absolute().parent.is_dir():
        raise RequestError(f"--file {file}: folder {file.parent} does not exist")


def build_new_lines(
    added: Sequence[AddedResult], commit: Commit, known: Sequence[NumberedLine], file: Path
) -> list[HistoryLine]:
    """Return the lines of what a history does not have yet; RequestError for a contradiction."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    committed = commit.committed or find_known_time(commit.name, known) or now
    there = {compute_measured_key(each.line): each for each in known}
    lines: dict[str, HistoryLine] = {}
    for each in added:
        line = HistoryLine(
            added=now,
            commit=commit.name,
            committed=committed,
            machine=each.machine,
            source=each.source,
            result=each.result,
            format=HISTORY_FORMAT,
            digest="",
        )
        key = compute_measured_key(line)
        if key in there:
            check_same_commit(there[key], line, file)
        else:
            lines[key] = line
    check_same_machines(known, lines.values(), file)
    return list(lines.values())


def check_same_machines(
    known: Sequence[NumberedLine], lines: Iterable[HistoryLine], file: Path
) -> None:
    """RequestError if new lines state other hardware than those of the same machine before them."""
    new = (NumberedLine(number=0, line=each) for each in lines)
    for _, _, difference in iterate_machine_differences(chain(known, new)):
        raise RequestError(
            f"{file}: has another machine under this name, {difference}; file these results under"
            " another one with --machine NAME"
        )


def find_known_time(commit: str, known: Sequence[NumberedLine]) -> str:
    """Return the time that the lines of a commit have; empty without one."""
    return next((each.line.committed for each in known if each.line.commit == commit), "")


def check_same_commit(there: NumberedLine, line: HistoryLine, file: Path) -> None:
    """RequestError if a measurement is in a history already, of another commit or machine."""
    if there.line.commit != line.commit:
        raise RequestError(
            f"{file}:{there.number}: has the same measurement of {line.result.workload} already,"
            f" of commit {shorten_commit(there.line.commit)}; a measurement has one commit"
        )
    if there.line.machine.name != line.machine.name:
        raise RequestError(
            f"{file}:{there.number}: has the same measurement of {line.result.workload} already,"
            f" on {replace_unprintable(there.line.machine.name)}"
        )


def describe_added(file: Path, commit: Commit, added: int, left_out: int) -> str:
    """Say what was added."""
    told = f"{file}: {added} results of {shorten_commit(commit.name)} added"
    if added == 1:
        told = f"{file}: 1 result of {shorten_commit(commit.name)} added"
    if left_out:
        told += f", {left_out} there already"
    return told
