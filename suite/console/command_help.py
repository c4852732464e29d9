"""The help of commands: what `podium` adds to each of them, and help in two lengths."""

from collections.abc import Collection
from typing import Any, Final

import click

from suite.console.command_table import OWN_COMMANDS
from suite.console.pages import find_topic
from suite.console.screen import add_output_options

HELP_ALL_KEY: Final = "suite.console.help_all"
"""Of click's `Context.meta`: whether the help of a command shows every option."""
HELP_ALL_NAME: Final = "help_all"
"""Parameter of --help-all."""


def prepare_command(name: str, command: click.Command) -> click.Command:
    """Add --quiet and --verbose to a command and its subcommands, and to their help where to read
    more; a command that is prepared already stays as it is.
    """
    add_output_options(command)
    if own := OWN_COMMANDS.get(name):
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for each in (command, *inner):
            each.epilog = f"More: podium help {find_topic(own.topic)}"
    return command


def show_all_options(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the help with every option, and end the command."""
    if wanted and not context.resilient_parsing:
        context.meta[HELP_ALL_KEY] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


class FoldedCommand(click.Command):
    """A command with many options: `--help` shows the everyday ones, `--help-all` all of them."""

    def __init__(self, *args: Any, everyday: Collection[str], **settings: Any) -> None:
        """Make the command; `everyday` names the parameters of its everyday options."""
        super().__init__(*args, **settings)
        self.everyday: Final = frozenset((*everyday, HELP_ALL_NAME))
        self.params.append(
            click.Option(
                ["--help-all"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=show_all_options,
                help="Show every option and exit.",
            )
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the everyday options, and how many more there are; or all of them."""
        if ctx.meta.get(HELP_ALL_KEY):
            super().format_options(ctx, formatter)
            return
        records = [
            (parameter, record)
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx))
        ]
        helping = self.get_help_option(ctx)
        shown = [
            record
            for parameter, record in records
            if parameter.name in self.everyday or parameter is helping
        ]
        with formatter.section("Everyday options"):
            formatter.write_dl(shown)
        formatter.write_paragraph()
        formatter.write_text(
            f"{len(records) - len(shown)} more options: {ctx.command_path} --help-all"
        )
