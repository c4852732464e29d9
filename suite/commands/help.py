"""The command `help`."""

import click

from suite.cli import ALL_COMMANDS_KEY, group
from suite.console.pages import build_unknown_topic_error, find_topic, list_topics, print_page
from suite.console.parameters import NameType


@click.command("help")
@click.argument(
    "topic",
    required=False,
    type=NameType(lambda: [*group.list_commands(click.Context(group)), *list_topics()]),
    metavar="[COMMAND|TOPIC]",
)
@click.option("--all", "every", is_flag=True, help="List all commands and all topics.")
@click.pass_context
def help_command(context: click.Context, topic: str | None, every: bool) -> None:
    """Show the help of COMMAND or of podium, or print the page of the documentation about TOPIC.

    A topic is the name of a page, such as your-data. If a command has the same name, put the
    page's shelf before it: guides/your-data. `podium help --all` lists all topics.

    Example: podium help train
    """
    root = context.find_root()
    if topic is None:
        root.meta[ALL_COMMANDS_KEY] = every
        click.echo(root.get_help())
        return
    commands = group.list_commands(context)
    if topic in commands:
        found = group.get_command(context, topic)
        assert found is not None  # get_command exits if there is no such command
        click.echo(found.get_help(click.Context(found, info_name=topic, parent=root)))
    elif (page := find_topic(topic)) is not None:
        print_page(page)
    else:
        raise build_unknown_topic_error(topic, commands)
