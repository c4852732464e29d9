"""Output level of a command: --quiet and --verbose, before or after its name; paths are shown as
the user typed them.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLevel:
    """Output level of a command; carried as click's context object."""

    quiet: bool = False
    """Print results and errors only."""
    verbose: bool = False
    inner: bool = False
    """The command runs as a step of another one, which prints what to do next itself."""
    moving: tuple[Path, Path] | None = None
    """Folder of the results that the command works on, and the folder that the other command moves
    them to once they are complete; None if they stay.
    """


def get_output_level() -> OutputLevel:
    """Return the output level of the running command."""
    context = click.get_current_context(silent=True)
    return (context.find_object(OutputLevel) if context else None) or OutputLevel()


@dataclass(slots=True, kw_only=True)
class Activity:
    """What the running command does, for the line that shows that it has not hung."""

    phase: str = ""
    began_s: float = 0.0
    """When the phase began, on the monotonic clock."""
    shown_s: float = 0.0
    """When a line was last printed or a bar drawn."""

    def mark_shown(self, phase: str) -> None:
        """Record that the user was just shown something of a phase."""
        self.shown_s = time.monotonic()
        if phase != self.phase:
            self.phase, self.began_s = phase, self.shown_s


ACTIVITY: Final = Activity()
"""Of this process: one command runs in it at a time."""


def print_progress_note(text: str, phase: str | None = None) -> None:
    """Print a progress message, unless --quiet is set; the phase that it belongs to is the message
    itself if none is given.
    """
    ACTIVITY.mark_shown(phase or text)
    if not get_output_level().quiet:
        click.echo(text)


def set_output_level(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Handle --quiet or --verbose, before or after the command's name."""
    if given:
        changes: dict[str, Any] = {str(parameter.name): True}
        context.obj = replace(context.find_object(OutputLevel) or OutputLevel(), **changes)


def add_output_options(command: click.Command) -> None:
    """Add --quiet and --verbose to a command and its subcommands, unless it has options of these
    names.
    """
    taken = {name for parameter in command.params for name in parameter.opts}
    for names, text in OUTPUT_OPTIONS.items():
        if taken.isdisjoint(names):
            option = click.Option(
                names, is_flag=True, expose_value=False, callback=set_output_level, help=text
            )
            command.params.append(option)
    if isinstance(command, click.Group):
        for each in command.commands.values():
            add_output_options(each)


OUTPUT_OPTIONS: Final = {
    ("-q", "--quiet"): "Print only results and errors.",
    ("-v", "--verbose"): "Show more detail.",
}
"""Names of options that every command has, in front of its name and behind it -> their help."""


def convert_to_final_path(name: str) -> str:
    """Return where a file or folder will be once the results are complete."""
    moving = get_output_level().moving
    if moving is None or not Path(name).is_relative_to(moving[0]):
        return name
    return str(moving[1] / Path(name).relative_to(moving[0]))


def convert_to_user_path(path: Path, base: Path) -> Path:
    """Spell a path below a folder that the user named the way the user spelled that folder."""
    if path.is_relative_to(base.absolute()):
        return base / path.relative_to(base.absolute())
    return path
