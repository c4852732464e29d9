"""`podium history check` and `podium history show`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from compliance.commands import write_step_summary
from compliance.waivers import Waiver, build_acceptance, read_waivers
from submissions.compare.command import parse_difference_share
from submissions.history.reports import (
    HISTORY_REPORTS,
    iterate_commit_lines,
    render_history_summary,
)
from submissions.history.series import build_series
from submissions.history.verdicts import (
    REGRESSION_RULE,
    CheckedSeries,
    CheckSettings,
    check_series,
)
from submissions.tables import print_wrapped_line
from suite.errors import JudgedError, RequestError
from suite.history.book import read_history


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """Command-line options."""

    file: Path
    difference: str
    baseline: str | None
    accept: Path | None
    output_format: str


def run_history_check(options: HistoryOptions) -> int:
    """Print what the history says; return 1 if a change to slower is open, else 0. JudgedError for
    a history that cannot be used, RequestError for an invalid request.
    """
    settings, found = check_history_file(options)
    click.echo(HISTORY_REPORTS[options.output_format](found, settings), nl=False)
    if options.output_format == "github":
        write_step_summary(render_history_summary(found, settings))
    return int(any(each.open_changes for each in found))


def check_history_file(options: HistoryOptions) -> tuple[CheckSettings, list[CheckedSeries]]:
    """Read and check a history; errors as of `run_history_check`."""
    difference = parse_difference_share(options.difference, "--difference")
    waivers: Sequence[Waiver] = ()
    if options.accept is not None:
        waivers = read_waivers(options.accept, datetime.now(UTC).date(), (REGRESSION_RULE,))
    lines = read_history(options.file)
    if not lines:
        raise JudgedError(f"{options.file}: has no results; podium history add adds them")
    settings = CheckSettings(
        path=options.file,
        difference=difference,
        baseline=options.baseline,
        waivers=tuple(waivers),
    )
    found = check_series(build_series(lines), settings)
    if options.accept is not None:
        warn_about_idle_waivers(options.accept, waivers, found)
    return settings, found


def warn_about_idle_waivers(
    file: Path, waivers: Sequence[Waiver], found: Sequence[CheckedSeries]
) -> None:
    """Name the waivers of changes that accept none."""
    used = {str(change.accepted) for each in found for change in each.changes if change.accepted}
    for each in waivers:
        if each.rule == REGRESSION_RULE and str(build_acceptance(each)) not in used:
            click.echo(f"podium: {file}: {each.name} accepts nothing; remove it", err=True)


def run_history_show(options: HistoryOptions, output: Path | None) -> None:
    """Print the results of each series by commit, or write the page and the pictures."""
    if output is not None:
        check_picture_folder(output, options)
    settings, found = check_history_file(options)
    if output is not None:
        from submissions.history.page import PAGE_FILE, write_history_pictures

        count = write_history_pictures(output, found, settings)
        click.echo(f"history: {output / PAGE_FILE} and {count} picture{'s' * (count != 1)}")
    elif options.output_format == "json":
        click.echo(HISTORY_REPORTS["json"](found, settings), nl=False)
    else:
        for each in found:
            for line in iterate_commit_lines(each):
                print_wrapped_line(line)


def check_picture_folder(output: Path, options: HistoryOptions) -> None:
    """RequestError for a folder that cannot be written, and for a format beside it."""
    if options.output_format != "text":
        raise RequestError(f"-o writes pages, not --format {options.output_format}")
    if output.exists() and not output.is_dir():
        raise RequestError(f"-o {output}: is a file; specify a folder")
    if not output.absolute().parent.is_dir():
        raise RequestError(f"-o {output}: folder {output.parent} does not exist")
