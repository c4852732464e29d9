"""How much a command says: --quiet and --verbose, before or behind its name, and paths as the user spelled them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """How much a command says; carried as click's context object."""

    quiet: bool = False
    """Results and errors alone."""
    verbose: bool = False
    inner: bool = False
    """The command is a step of another one, which says itself what comes next."""


def screen() -> Screen:
    """Return what the running command was asked to say."""
    context = click.get_current_context(silent=True)
    return (context.find_object(Screen) if context else None) or Screen()


def note(text: str) -> None:
    """Say what is going on; with --quiet nobody wants to know."""
    if not screen().quiet:
        click.echo(text)


def set_screen(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Take --quiet or --verbose, before or behind the command's name."""
    if given:
        context.obj = replace(context.find_object(Screen) or Screen(), **{str(parameter.name): True})


QUIET: Final = click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=set_screen, help="Results and errors alone.")
VERBOSE: Final = click.option("-v", "--verbose", is_flag=True, expose_value=False, callback=set_screen, help="Say more, where a command has more to say.")


def as_given(path: Path, base: Path) -> Path:
    """Spell a path below a folder that the user named as the user named it."""
    return base / path.relative_to(base.absolute()) if path.is_relative_to(base.absolute()) else path
