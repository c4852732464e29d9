"""The `podium` command: a lazy group whose subcommands are entry points, and the options that
several share.

The group's help reads one-line texts without loading a command; a command whose import fails is one
sentence and exit 3.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

import click

from suite import __version__, registry
from suite.console.parameters import ENGINE_TYPE, FRAMEWORK_TYPE, INPUT_TYPE, WORKLOAD_TYPE
from suite.console.screen import QUIET_OPTION, VERBOSE_OPTION
from suite.errors import MissingError, PodiumError
from suite.files.layout import DISK_FULL_ERRORS
from suite.process import garbage, openmp
from suite.process.signals import Interrupted, exit_without_waiting, raised_signals
from suite.terms import Precision, Profile

P = ParamSpec("P")
R = TypeVar("R")

ORGANISATION_NAME: Final = re.compile(r"(?!-|\.\.?$)[A-Za-z0-9._-]+", re.ASCII)
"""An organisation's name is a folder of the results tree, and an argument of commands: it must
neither leave the one nor read as an option of the other.
"""

COMMAND_SUMMARIES: Final = {
    "help": "Help on a command.",
    "list": "Workloads, engines, inputs, rounds; settings; rules.",
    "doctor": "What this machine can run, and what is missing.",
    "data": "Look over a data set once, before any clock.",
    "train": "Train a workload until it reaches its target quality.",
    "launch": "Job files for Slurm, Kubernetes and Apptainer.",
    "infer": "Serve a trained workload under LoadGen.",
    "serve": "Serve a trained workload to other machines.",
    "import": "Turn weights from elsewhere into a checkpoint.",
    "audit": "Compliance tests of served results.",
    "power": "Which watts can be read here, and why others cannot.",
    "meter": "Be a power meter, for --meter.",
    "precision": "Engine x number format: accuracy beside speed.",
    "sweep": "Batch size against throughput and latency.",
    "peak": "The highest rate that a latency bound allows.",
    "run": "The whole campaign: train, infer, check, pack.",
    "check": "Judge logs, sets, trees and bundles.",
    "explain": "What a rule of the judge asks, and what to do.",
    "score": "Scores of a results tree or bundle.",
    "pack": "Seal a results folder into a bundle.",
    "verify": "Verify that a bundle is whole, and who signed it.",
    "sign": "Sign a bundle with an SSH key.",
    "timestamp": "Have an authority say since when a bundle is there.",
    "compare": "Compare results, and say why some may not be.",
    "scaling": "Step times on many devices, on paper.",
    "cost": "Cost of samples and trainings at your prices.",
    "published": "Published results, each with its source.",
    "report": "One page of a result: figures, examples, findings.",
    "publish": "A site of many results, as plain files.",
    "new-workload": "Write the package of a workload of your own.",
}


class PathType(click.Path):
    """A path as the user typed it; an empty one, which would mean the current folder, is
    refused.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse what a shell makes of a variable that is not set."""
        if value == "":
            self.fail("the path is empty; write . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


PATH_TYPE: Final = PathType()


def require_valid_organisation(_: click.Context, __: click.Parameter, name: str) -> str:
    """Refuse a name that is no plain folder name."""
    if not ORGANISATION_NAME.fullmatch(name):
        raise click.BadParameter(
            f"{name!r} is not a name made of A-Z, a-z, 0-9, '.', '_' and '-' that does not begin"
            " with '-' and is not '.' or '..'"
        )
    return name


def require_available_threads(_: click.Context, __: click.Parameter, threads: int) -> int:
    """Refuse more threads than there are cores: they would only wait for one another."""
    if threads > (cores := len(os.sched_getaffinity(0))):
        raise click.BadParameter(
            f"{threads} is more than the {cores} CPU cores that podium may use here; 0 takes those"
            " that others leave"
        )
    return threads


class LazyGroup(click.Group):
    """Loads a subcommand when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the entry points, in the order of work."""
        order = {name: position for position, name in enumerate(COMMAND_SUMMARIES)}
        return sorted(
            registry.list_entry_points(registry.COMMAND_GROUP),
            key=lambda name: (order.get(name, len(order)), name),
        )

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command."""
        try:
            return cast(
                click.Command,
                registry.load_entry_point(registry.COMMAND_GROUP, "command", cmd_name),
            )
        except PodiumError as error:
            click.echo(f"podium: {error}", err=True)
            sys.exit(error.exit_code)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, COMMAND_SUMMARIES.get(name, "From another package."))
                    for name in self.list_commands(ctx)
                ]
            )


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="podium")
@QUIET_OPTION
@VERBOSE_OPTION
@click.pass_context
def group(context: click.Context) -> None:
    """Benchmark suite for machine learning: train to target, serve under LoadGen, judge, seal,
    compare.

    MLPerf-style; results are not official MLPerf results.

    Example: podium run resnet50
    """
    if os.environ.get("NO_COLOR"):  # no-color.org; rich knows it itself
        context.color = False
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit(2)


def main(command: click.Command = group) -> None:
    """Run the command line; a PodiumError is one sentence and its exit code, Ctrl-C is 130."""
    garbage.collect_garbage_seldom()
    openmp.limit_openmp_spinning(
        os.environ
        # here, since no command has loaded a framework yet; ranks and LoadGen's processes take it
        # over
    )
    try:
        with raised_signals():
            code = command.main(prog_name="podium", standalone_mode=False) or 0
        sys.exit(code)
    except click.NoSuchOption as error:
        close = f"; did you mean '{error.possibilities[0]}'?" if error.possibilities else ""
        exit_with_error(f"no such option '{error.option_name}'{close}", 2)
    except click.UsageError as error:
        hint = f"; see {error.ctx.command_path} --help" if error.ctx else ""
        exit_with_error(f"{error.format_message().rstrip('.')}{hint}", 2)
    except click.ClickException as error:
        exit_with_error(error.format_message(), 2)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        exit_with_error("interrupted; what was finished is kept", 130)
    except Interrupted as error:
        exit_without_waiting(str(error), error.exit_code)
    except PodiumError as error:
        exit_with_error(str(error), error.exit_code)
    except OSError as error:
        if error.errno not in DISK_FULL_ERRORS:
            raise
        exit_without_waiting(
            f"{error.filename or 'output'}: {error.strerror}", MissingError.exit_code
        )


def exit_with_error(sentence: str, code: int) -> None:
    """Say why, and leave; names of files may hold what moves a terminal's cursor."""
    from suite.files.untrusted_files import replace_unprintable

    click.echo("\n".join(map(replace_unprintable, f"podium: {sentence}".split("\n"))), err=True)
    sys.exit(code)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What train, infer and run have in common."""

    profile: Profile
    framework: str
    engine: str
    input: str
    data: Path | None
    results: Path
    device: str
    precision: Precision | None
    """None: the workload's own in training, fp32 in inference."""
    threads: int
    """0: as many as there are cores, or, where others are at work, as they leave."""
    config: Path | None
    assignments: tuple[str, ...]
    org: str
    system: str | None
    """None: a name made from the detected hardware."""
    system_file: Path | None = None
    """TOML: fields of the system description that cannot be detected."""
    power: str = "auto"
    """Power sources to read: names with commas between, auto for all that there are, off."""
    meter: str | None = None
    """An external power meter: tcp://host:port, or a command."""


def add_common_options(command: Callable[..., R]) -> Callable[..., R]:
    """Add the options that train, infer and run have in common; the command gets them as
    `options`.
    """

    @wraps(command)
    def wrapper(**values: Any) -> R:
        common_values = {name: values.pop(name) for name in RunOptions.__dataclass_fields__}
        common_values["profile"] = Profile(common_values["profile"])
        common_values["engine"] = common_values["engine"] or common_values["framework"]
        common_values["precision"] = (
            Precision(common_values["precision"]) if common_values["precision"] else None
        )
        return command(options=RunOptions(**common_values), **values)

    for option in reversed(list_common_options()):
        wrapper = option(wrapper)
    return wrapper


def list_common_options() -> tuple[Callable[[Callable[..., R]], Callable[..., R]], ...]:
    """Name the options, in the order of the help."""
    return (
        click.option(
            "--profile",
            type=click.Choice(list(map(str, Profile))),
            default="smoke",
            show_default=True,
            help="How much of the round is run.",
        ),
        click.option(
            "--framework",
            type=FRAMEWORK_TYPE,
            default="torch",
            show_default=True,
            help="Framework of the model.",
        ),
        click.option(
            "--engine", type=ENGINE_TYPE, help="Inference engine; without it, the framework's own."
        ),
        click.option(
            "--input", type=INPUT_TYPE, default="default", show_default=True, help="Input pipeline."
        ),
        click.option(
            "--data",
            type=PATH_TYPE,
            help="Folder with the real data set; without it, the embedded data.",
        ),
        click.option(
            "--results",
            type=PATH_TYPE,
            default=Path("results"),
            show_default=True,
            help="Results folder.",
        ),
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help=(
                "cpu, cuda, cuda:1; auto: a GPU if there is one; infer: also cuda:0-7,9, cuda:all."
            ),
        ),
        click.option(
            "--precision",
            type=click.Choice(list(map(str, Precision))),
            help="Number format; without it, the workload's to train, fp32 to serve.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(min=0),
            default=0,
            callback=require_available_threads,
            help="CPU threads; 0: as many as others leave cores.",
        ),
        click.option("--config", type=PATH_TYPE, help="TOML file of settings."),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            metavar="KEY=VALUE",
            help="Change one setting; may be repeated.",
        ),
        click.option(
            "--org",
            default="unaffiliated",
            show_default=True,
            callback=require_valid_organisation,
            help="Organisation in the results tree.",
        ),
        click.option(
            "--system", help="Name of the system; without it, made from the detected hardware."
        ),
        click.option(
            "--system-file",
            type=PATH_TYPE,
            help="TOML file: what cannot be detected for the system description.",
        ),
        click.option(
            "--power",
            default="auto",
            show_default=True,
            metavar="auto|off|NAME,...",
            help="Power sources to read; podium power lists them.",
        ),
        click.option(
            "--meter",
            metavar="tcp://HOST:PORT|COMMAND",
            help="An external power meter; see docs/POWER.md.",
        ),
        QUIET_OPTION,
    )


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
    assert found is not None  # get_command leaves where there is none
    click.echo(found.get_help(click.Context(found, info_name=command, parent=context.find_root())))


@click.command("list")
@click.argument("what", required=False, type=click.Choice(["settings", "rules"]))
@click.argument("workload", required=False, type=WORKLOAD_TYPE)
@click.option(
    "--profile",
    type=click.Choice([profile.value for profile in Profile]),
    default="smoke",
    show_default=True,
    help="Whose values to show.",
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
@click.pass_context
def list_command(
    context: click.Context, what: str | None, workload: str | None, profile: str, form: str
) -> None:
    """List workloads, engines, input pipelines and rounds; or the settings of WORKLOAD for --set;
    or the judge's rules.

    Example: podium list settings resnet50
    """
    from suite.console import listing

    if what == "settings" and workload is None:
        raise click.UsageError("which workload's? podium list settings WORKLOAD", context)
    if what == "rules":
        context.invoke(
            registry.load_entry_point(registry.COMMAND_GROUP, "command", "explain"),
            rule=None,
            form=form,
        )
    elif what == "settings" and workload is not None:
        click.echo(listing.format_settings_list(workload, Profile(profile), form))
    else:
        click.echo(listing.format_installed_parts(form))


@click.command("new-workload")
@click.argument("name")
@click.option(
    "-o", "--output", type=PATH_TYPE, help="Folder to write; without it, podium-NAME here."
)
def new_workload(name: str, output: Path | None) -> None:
    """Write the package of a workload of your own: a small one that trains, serves and passes its
    tests, to be changed step by step.

    Example: podium new-workload moons
    """
    from suite.console.new_workload import write_workload_package

    folder = output or Path(f"podium-{name}")
    click.echo("\n".join(map(str, write_workload_package(name, folder))))
    click.echo(
        f"next: pip install --no-deps -e {shlex.quote(str(folder))}, podium run {name}; then change"
        " it: docs/guides/your-workload.md"
    )


if __name__ == "__main__":
    main()
