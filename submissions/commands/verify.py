"""The command `verify`."""

from pathlib import Path

import click

from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("bundle", type=RESULT_PATH_TYPE)
@click.option(
    "--signers",
    type=PATH_TYPE,
    metavar="FILE",
    help="Trusted signers: an allowed_signers file of ssh-keygen.",
)
@click.option(
    "--revoked",
    type=PATH_TYPE,
    metavar="FILE",
    help="Keys that are no longer trusted: a key revocation list of ssh-keygen.",
)
@click.option(
    "--ca",
    "authorities",
    type=PATH_TYPE,
    metavar="FILE",
    help="Certificates of the trusted time-stamping authorities (PEM).",
)
@click.option(
    "--require",
    metavar="WORD,...",
    help="Requirements, any of signed, challenged, timestamped; exit with 1 if one is not met.",
)
@build_format_option("text", "json")
def verify(
    bundle: Path,
    signers: Path | None,
    revoked: Path | None,
    authorities: Path | None,
    require: str | None,
    output_format: str,
) -> int:
    """Verify that BUNDLE is unchanged since it was sealed and that its results pass podium check;
    show its signers.

    A valid seal and signature do not prove that the runs took place.

    Example: podium verify mine.tar.zst --signers allowed_signers --require signed
    """
    from submissions.signatures.command import run_verify_command

    return run_verify_command(bundle, signers, revoked, authorities, require, output_format)
