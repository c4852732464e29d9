"""The command `timestamp`."""

from pathlib import Path

import click

from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("bundle", type=RESULT_PATH_TYPE)
@click.option(
    "--query",
    type=PATH_TYPE,
    metavar="FILE",
    help="Write the request to FILE; send it to any RFC 3161 authority.",
)
@click.option(
    "--reply",
    type=PATH_TYPE,
    metavar="FILE",
    help="The authority's reply, to be appended after the seal.",
)
@click.option(
    "--ca",
    "authorities",
    type=PATH_TYPE,
    metavar="FILE",
    help="The authority's certificates (PEM); required with --reply.",
)
def timestamp(
    bundle: Path, query: Path | None, reply: Path | None, authorities: Path | None
) -> None:
    """Write a time-stamp request for BUNDLE (RFC 3161), or append an authority's reply, which
    proves that BUNDLE existed at the stated time.

    First write the request with --query, and send it to an authority; podium sends nothing. Then
    append the reply with --reply and --ca.

    Example: podium timestamp mine.tar.zst --query q.tsq
    """
    from extras.time_stamps.command import run_timestamp_command

    run_timestamp_command(bundle, query, reply, authorities)
