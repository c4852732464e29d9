"""The command `sign`."""

from pathlib import Path

import click

from suite.console.parameters import PATH_TYPE, RESULT_PATH_TYPE


@click.command()
@click.argument("bundle", type=RESULT_PATH_TYPE)
@click.option(
    "--key",
    type=PATH_TYPE,
    required=True,
    metavar="FILE",
    help="Your private SSH key, or the public key if ssh-agent has the private key.",
)
@click.option(
    "--as",
    "claimed",
    metavar="NAME",
    help="Your name as it appears in allowed_signers files, for example bench@lab.example.",
)
@click.option(
    "--detached",
    is_flag=True,
    help="Write the statement and its signature beside BUNDLE, and leave BUNDLE unchanged.",
)
def sign(bundle: Path, key: Path, claimed: str | None, detached: bool) -> None:
    """Sign BUNDLE with an SSH key. The signed statement says that these bytes pass podium check; it
    is appended to the bundle, after the seal.

    ssh-keygen signs, and prompts for a passphrase; podium never reads the key. A bundle that podium
    check rejects is not signed.

    Example: podium sign mine.tar.zst --key ~/.ssh/id_ed25519 --as bench@lab.example
    """
    from submissions.signatures.signing import sign_bundle

    signed = sign_bundle(bundle, key, claimed, detached)
    click.echo(f"{signed}: signed; to check the signature, others run podium verify --signers FILE")
