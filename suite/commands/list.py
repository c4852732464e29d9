"""The command `list`."""

import click

from suite import registry
from suite.console.options import build_format_option, build_profile_option
from suite.console.parameters import WORKLOAD_TYPE
from suite.terms import Profile


@click.command("list")
@click.argument("what", required=False, type=click.Choice(["settings", "rules"]))
@click.argument("workload", required=False, type=WORKLOAD_TYPE)
@build_profile_option("Profile whose values are shown.")
@build_format_option("text", "json")
@click.pass_context
def list_command(
    context: click.Context, what: str | None, workload: str | None, profile: str, output_format: str
) -> None:
    """List workloads, engines, input pipelines and rounds.

    "settings" lists the settings of WORKLOAD that --set accepts. "rules" lists the rules that
    podium check applies.

    Example: podium list settings resnet50
    """
    from suite.console import listing

    if what == "settings" and workload is None:
        raise click.UsageError("give a workload: podium list settings WORKLOAD", context)
    if what == "rules":
        context.invoke(
            registry.load_entry_point(registry.COMMAND_GROUP, "command", "explain"),
            rule=None,
            output_format=output_format,
        )
    elif what == "settings" and workload is not None:
        click.echo(listing.format_settings_list(workload, Profile(profile), output_format))
    else:
        click.echo(listing.format_installed_parts(output_format))
