"""The command `help`."""

import click

from suite.cli import group


@click.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_command(context: click.Context, command: str | None) -> None:
    """Show the help of COMMAND, or of podium.

    Example: podium help train
    """
    if command is None:
        click.echo(context.find_root().get_help())
        return
    found = group.get_command(context, command)
    assert found is not None  # get_command exits if there is no such command
    click.echo(found.get_help(click.Context(found, info_name=command, parent=context.find_root())))
