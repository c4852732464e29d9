"""The command `list`."""

from typing import Any

import click

from suite import registry
from suite.console.options import build_format_option, build_profile_option
from suite.console.parameters import RESULT_PATH_TYPE, WORKLOAD_TYPE
from suite.terms import Profile


@click.command("list")
@click.argument("what", required=False, type=click.Choice(["settings", "rules", "runs"]))
@click.argument("name", required=False, type=WORKLOAD_TYPE, metavar="[WORKLOAD|RESULTS]")
@build_profile_option("Profile whose values are shown.")
@build_format_option("text", "json")
@click.pass_context
def list_command(
    context: click.Context, what: str | None, name: str | None, profile: str, output_format: str
) -> None:
    """List workloads, engines, input pipelines and rounds.

    "settings" lists the settings of WORKLOAD that --set accepts. "rules" lists the rules that
    podium check applies. "runs" lists the results in RESULTS (default: the folder results) with
    day, label and verdict.

    Example: podium list settings resnet50
    """
    from suite.console import listing

    if what == "settings" and name is None:
        raise click.UsageError("give a workload: podium list settings WORKLOAD", context)
    if what == "rules":
        invoke_command(context, "explain", rule=None, output_format=output_format)
    elif what == "runs":
        given = {"results": RESULT_PATH_TYPE.convert(name, None, context)} if name else {}
        invoke_command(context, "runs", **given, output_format=output_format)
    elif what == "settings" and name is not None:
        click.echo(listing.format_settings_list(name, Profile(profile), output_format))
    else:
        click.echo(listing.format_installed_parts(output_format))


def invoke_command(context: click.Context, name: str, **values: Any) -> None:
    """Run another command, which lists a part of what this one is about."""
    context.invoke(registry.load_click_command(name), **values)
