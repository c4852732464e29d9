"""The command `restore`."""

from pathlib import Path

import click

from suite.console.options import RESULTS_OPTION


@click.command()
@click.argument("number", required=False, type=click.IntRange(min=1), metavar="[N]")
@RESULTS_OPTION
def restore(number: int | None, results: Path) -> None:
    """Bring back results that a newer run replaced.

    N is a number from the list that podium restore prints without N. The present results take the
    place of the restored ones in that list. Restoring does not change the number of attempts.

    Example: podium restore 1
    """
    from suite.console.restoring import print_superseded_results, restore_result

    if number is None:
        print_superseded_results(results)
    else:
        restore_result(results, number)
