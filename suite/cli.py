"""The `podium` command: a lazy group whose subcommands are entry points, and the options of a run.

The group's help shows one-line texts without loading a command. If the import of a command fails,
podium prints one sentence and exits with code 3.
"""

import io
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from suite import __version__, registry
from suite.console.command_help import prepare_command
from suite.console.command_table import OWN_COMMANDS, HelpGroup
from suite.console.options import OptionDecorator
from suite.console.pages import list_topics
from suite.console.project_defaults import apply_project_defaults
from suite.console.screen import add_output_options
from suite.errors import MissingError, PodiumError
from suite.extra_parts import EXTRA_PARTS
from suite.files.layout import DISK_FULL_ERRORS
from suite.plugins import describe_package
from suite.process import garbage, openmp
from suite.process.closed_output import drop_unread_output
from suite.process.installation import format_install_command
from suite.process.signals import Interrupted, kill_children_and_exit, raise_signals_in_block
from suite.terms import Precision, Profile

R = TypeVar("R")

ALL_COMMANDS_KEY: Final = "suite.cli.all_commands"
"""Of click's `Context.meta`: whether the group's help lists every command."""
OTHERS_HEADING: Final = "From other packages"
MAX_SUMMARY_LENGTH: Final = 100
"""Characters of a summary of another package's command."""


class LazyGroup(click.Group):
    """Loads a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the entry points: podium's own in the order of the help, then those
        of other packages.
        """
        order = {name: position for position, name in enumerate(OWN_COMMANDS)}
        return sorted(
            registry.map_entry_points(registry.COMMAND_GROUP),
            key=lambda name: (order.get(name, len(order)), name),
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        try:
            return load_offered_command(cmd_name)
        except PodiumError as error:
            click.echo(f"podium: {error}", err=True)
            sys.exit(error.exit_code)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and refuse an option that is given twice and takes one value."""
        name, command, rest = super().resolve_command(ctx, args)
        if command and not ctx.resilient_parsing:  # completion stops in the middle of an option
            refuse_repeated_options(click.Context(command, info_name=name, parent=ctx), rest)
            apply_project_defaults(ctx, str(name), command)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the everyday commands by group, or all of them; podium's own are not loaded."""
        names, every = self.list_commands(ctx), bool(ctx.meta.get(ALL_COMMANDS_KEY))
        for heading in HelpGroup:
            rows = [
                (name, own.summary)
                for name in names
                if (own := OWN_COMMANDS.get(name))
                and own.group is heading
                and (own.everyday or every)
            ]
            write_command_list(formatter, heading, rows)
        foreign = [name for name in names if name not in OWN_COMMANDS]
        rows = [(name, describe_foreign_command(name, load=every)) for name in foreign]
        write_command_list(formatter, OTHERS_HEADING, rows)
        if every:
            write_topics(formatter)
        else:
            formatter.write_paragraph()
            formatter.write_text(
                f"All {len(names)} commands, and the topics of podium help TOPIC: podium help --all"
            )


def load_offered_command(name: str) -> click.Command:
    """Load a command, with what podium adds to each; errors as for an entry point, and MissingError
    for a command of podium's own whose extra is not installed.
    """
    if name in OWN_COMMANDS and name not in registry.map_entry_points(registry.COMMAND_GROUP):
        raise MissingError(f"the command '{name}' is not installed with this podium")
    return prepare_command(name, registry.load_click_command(name))


def describe_foreign_command(name: str, *, load: bool) -> str:
    """Describe another package's command by the first sentence of its help, for which it is loaded,
    or by its package.
    """
    if load:
        with suppress(MissingError):
            return load_offered_command(name).get_short_help_str(limit=MAX_SUMMARY_LENGTH)
    package = describe_package(registry.map_entry_points(registry.COMMAND_GROUP)[name])
    return f"Command of {package}."


def write_command_list(
    formatter: click.HelpFormatter, heading: str, rows: Sequence[tuple[str, str]]
) -> None:
    """Write a section of the help, if there is any command in it."""
    if rows:
        with formatter.section(heading):
            formatter.write_dl(rows)


def write_topics(formatter: click.HelpFormatter) -> None:
    """Write the topics of `podium help TOPIC` by shelf, each in one piece."""
    shelves: dict[str, list[str]] = {}
    for topic, page in list_topics().items():
        shelves.setdefault(page.parent.name, []).append(topic)
    for shelf, topics in shelves.items():
        with formatter.section(f"Topics, {shelf}"):
            width = formatter.width - formatter.current_indent
            for line in textwrap.wrap(", ".join(topics), width, break_on_hyphens=False):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def refuse_repeated_options(context: click.Context, arguments: list[str]) -> None:
    """Refuse an option that is given more than once and takes one value: click would drop all but
    the last one.
    """
    _, _, order = context.command.make_parser(context).parse_args(list(arguments))
    for option, count in Counter(order).items():
        if (
            count > 1
            and isinstance(option, click.Option)
            and not (option.multiple or option.is_flag or option.count)
        ):
            raise click.UsageError(
                f"{option.opts[-1]} is given {count} times and takes one value; give it once",
                context,
            )


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="podium")
@click.pass_context
def group(context: click.Context) -> None:
    """Benchmark suite for machine learning: train to target, serve under LoadGen, check, seal,
    compare.

    MLPerf-style. Results are not official MLPerf results.

    Example: podium run resnet50
    """
    if os.environ.get("NO_COLOR"):  # no-color.org; rich handles it itself
        context.color = False
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)


add_output_options(group)


def main(command: click.Command = group) -> None:
    """Run the command line; a PodiumError becomes one sentence and its exit code, Ctrl-C 130."""
    require_docstrings()
    garbage.reduce_garbage_collection()
    drop_unread_output()
    replace_unencodable_output()
    openmp.limit_openmp_spinning(
        os.environ
        # here, since no command has loaded a framework yet; ranks and LoadGen's processes inherit
        # it
    )
    try:
        with raise_signals_in_block():
            code = command.main(prog_name="podium", standalone_mode=False)
        # a command may return what another one asks it for
        sys.exit(code if isinstance(code, int) else 0)
    except click.NoSuchOption as error:
        if sentence := describe_missing_option(error):
            exit_with_error(sentence, MissingError.exit_code)
        close = ""
        if error.possibilities:
            close = f"; did you mean '{error.possibilities[0]}'?"
        exit_with_error(f"no such option '{error.option_name}'{close}", 2)
    except click.exceptions.NoArgsIsHelpError as error:
        exit_with_error(f"a command is missing; see {error.ctx.command_path} --help", 2)
    except click.UsageError as error:
        hint = ""
        if error.ctx:
            hint = f"; see {error.ctx.command_path} --help"
        exit_with_error(f"{error.format_message().rstrip('.')}{hint}", 2)
    except click.ClickException as error:
        exit_with_error(error.format_message(), 2)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        exit_with_error("interrupted; finished work is kept", 130)
    except Interrupted as error:
        kill_children_and_exit(str(error), error.exit_code)
    except PodiumError as error:
        exit_with_error(str(error), error.exit_code)
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        kill_children_and_exit(
            f"{error.filename or 'output'}: {error.strerror}", MissingError.exit_code
        )


def describe_missing_option(error: click.NoSuchOption) -> str:
    """Say what to install for an option that one of podium's extras adds to a command; "" for any
    other.
    """
    command = error.ctx.info_name if error.ctx else None
    extra = EXTRA_PARTS.get((registry.OPTION_GROUP, f"{command}.{error.option_name.lstrip('-')}"))
    if extra is None:
        return ""
    return f"option '{error.option_name}' is not installed: {format_install_command(extra)}"


def require_docstrings() -> None:
    """Exit with a sentence if Python drops docstrings: rules and help are written in them."""
    if sys.flags.optimize > 1:
        if os.environ.get("PYTHONOPTIMIZE"):
            way_out = f"unset PYTHONOPTIMIZE (it is {os.environ['PYTHONOPTIMIZE']})"
        else:
            way_out = "start Python without -OO"
        exit_with_error(f"podium needs its docstrings: {way_out}", MissingError.exit_code)


def replace_unencodable_output() -> None:
    """Let standard output show `?` for a letter that its encoding lacks: names come from anywhere,
    and a terminal may be Latin-1 or GBK.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def exit_with_error(sentence: str, code: int) -> None:
    """Print an error and exit; file names may contain characters that move a terminal's cursor."""
    from suite.files.untrusted_files import replace_unprintable

    click.echo("\n".join(map(replace_unprintable, f"podium: {sentence}".split("\n"))), err=True)
    sys.exit(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options that describe a run, resolved from the command line."""

    profile: Profile
    framework: str
    engine: str
    input: str
    data: Path | None
    results: Path
    device: str
    precision: Precision | None
    """None: the workload's own for training, fp32 for serving."""
    threads: int
    """0: the cores that other programs leave idle, at least half of all."""
    config: Path | None
    assignments: tuple[str, ...]
    org: str
    system: str | None
    """None: derived from the detected hardware."""
    system_file: Path | None = None
    """TOML file of system description fields that cannot be detected."""
    power: str = "auto"
    """Power sources to read: comma-separated names, `auto` for all, or `off`."""
    meter: str | None = None
    """External power meter: tcp://host:port, or a command."""


UNOFFERED_VALUES: Final = {
    "profile": Profile.SMOKE,
    "input": "default",
    "device": "cpu",
    "threads": 0,
    "org": "unaffiliated",
    "power": "off",
}
"""Values of options that a command does not offer; None for all others."""


def add_run_options(
    *options: OptionDecorator,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Add options that describe a run; the command gets them as `options`."""

    def add_options(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def call_command(**values: Any) -> R:
            return command(options=take_run_options(values), **values)

        decorated: Callable[..., R] = call_command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add_options


def take_run_options(values: dict[str, Any]) -> RunOptions:
    """Move the values that describe a run out of a command's values."""
    run_values = {
        name: values.pop(name, UNOFFERED_VALUES.get(name))
        for name in RunOptions.__dataclass_fields__
    }
    precision = run_values["precision"]
    return RunOptions(
        **run_values
        | {
            "profile": Profile(run_values["profile"]),
            "engine": run_values["engine"] or run_values["framework"],
            "precision": Precision(precision) if precision else None,
        }
    )


if __name__ == "__main__":
    main()
