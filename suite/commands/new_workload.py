"""The command `new-workload`."""

import shlex
from pathlib import Path

import click

from suite.console.new_workload import DEFAULT_TEMPLATE, TEMPLATES, write_workload_package
from suite.console.parameters import PATH_TYPE


@click.command("new-workload")
@click.argument("name")
@click.option(
    "--like",
    "template",
    type=click.Choice(tuple(TEMPLATES)),
    default=DEFAULT_TEMPLATE,
    show_default=True,
    help="Data and network that it starts with: points, pictures (resnet50) or text (gnmt).",
)
@click.option(
    "-o",
    "--output",
    type=PATH_TYPE,
    help="Folder to write (default: podium-NAME in the current folder).",
)
def new_workload(name: str, template: str, output: Path | None) -> None:
    """Create a package for a workload of your own.

    It starts as a small workload that trains, serves and passes its tests. Change it step by step.

    Example: podium new-workload moons --like resnet50
    """
    folder = output or Path(f"podium-{name}")
    click.echo("\n".join(map(str, write_workload_package(name, folder, template))))
    click.echo(
        f"next: pip install --no-deps -e {shlex.quote(str(folder))}, podium run {name}; then change"
        " it: podium help your-workload"
    )
