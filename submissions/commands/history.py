"""The command `history` and its subcommands."""

from pathlib import Path
from typing import Any, Final

import click

from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE

FILE_OPTION: Final = click.option(
    "--file",
    type=PATH_TYPE,
    default=Path("history.jsonl"),
    show_default=True,
    help="The history.",
)
DIFFERENCE_OPTION: Final = click.option(
    "--difference",
    default="5%",
    show_default=True,
    metavar="PERCENT",
    help="By how much a series may become slower.",
)
BASELINE_OPTION: Final = click.option(
    "--baseline",
    metavar="COMMIT",
    help="Look at results from this commit on; earlier changes are known.",
)
ACCEPT_OPTION: Final = click.option(
    "--accept",
    type=PATH_TYPE,
    metavar="FILE",
    help=(
        "Waivers (TOML): changes that are known and accepted, each with rule, path, by whom, until"
        " which day, and why."
    ),
)


@click.group()
def history() -> None:
    """Keep the results of commits in a file in git, and find out when they changed.

    Example: podium history add resnet50.tar.zst
    """


@history.command("add", short_help="Add the results of a commit.")
@click.argument("paths", nargs=-1, required=True, type=RESULT_PATH_TYPE, metavar="BUNDLE|STUDY...")
@FILE_OPTION
@click.option(
    "--commit",
    metavar="COMMIT",
    help="Commit that was measured (default: the one that the current folder has checked out).",
)
@click.option(
    "--machine",
    metavar="NAME",
    help="Name of the machine (default: the name of the results' system).",
)
def add_history(paths: tuple[Path, ...], **options: Any) -> None:
    """Add the results in bundles, results folders and studies to a history: one line for each
    result, and for each figure of a study. All are judged before; if one does not count, nothing is
    added. What the history has already is left out.

    Example: podium history add resnet50.tar.zst --machine runner-7
    """
    from submissions.history import adding

    adding.run_add_command(paths, adding.AddOptions(**options))


@history.command("check", short_help="Find regressions; exit code 1 if there is one.")
@FILE_OPTION
@DIFFERENCE_OPTION
@BASELINE_OPTION
@ACCEPT_OPTION
@build_format_option("text", "github", "json", "junit")
def check_history(**options: Any) -> int:
    """Find the commits at which results changed, and say which changes to slower are open: those of
    --difference or more that were not undone since, and that no waiver accepts. Results are
    compared if podium compare would, on one machine and of one configuration. The noise floor is
    that of results of the same commit.

    Exit code 0: no change is open. 1: one is, or the history is not as podium wrote it. 2: the
    request is wrong, or a waiver has expired.

    Example: podium history check --difference 5% --format github
    """
    from submissions.history import command

    return command.run_history_check(command.HistoryOptions(**options))


@history.command("show", short_help="Show the results of commits; as pictures with -o.")
@FILE_OPTION
@DIFFERENCE_OPTION
@BASELINE_OPTION
@ACCEPT_OPTION
@click.option(
    "-o",
    "--output",
    type=PATH_TYPE,
    metavar="FOLDER",
    help="Write a page, index.html, and a picture of each series (SVG).",
)
@build_format_option("text", "json")
def show_history(output: Path | None, **options: Any) -> None:
    """Show the results of each series by commit, with the changes that podium history check finds.

    Example: podium history show -o history
    """
    from submissions.history import command

    command.run_history_show(command.HistoryOptions(**options), output)
