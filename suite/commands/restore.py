"""The command `restore`."""

from pathlib import Path

import click

from suite.console.options import RESULTS_OPTION


@click.command()
@click.argument("number", required=False, type=click.IntRange(min=1), metavar="[N]")
@RESULTS_OPTION
def restore(number: int | None, results: Path) -> None:
    """Bring superseded results back.

    N is the number of the folder that "earlier results moved to" named. The results that are in
    their place now are moved aside in turn. The ledger records it: how often a result was attempted
    stays known. Without N the command lists what there is.

    Example: podium restore 1
    """
    from suite.console.restoring import print_superseded_results, restore_result

    if number is None:
        print_superseded_results(results)
    else:
        restore_result(results, number)
