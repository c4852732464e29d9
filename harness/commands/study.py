"""The command `study`: studies of other packages, each as a command of its own; and what the
commands of podium's own studies share.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from harness.missing_modules import report_missing_modules
from harness.serving.network.endpoint_options import SERVER_OPTIONS, choose_serving_site
from suite import registry
from suite.cli import RunOptions, add_run_options
from suite.console.options import (
    CHECKPOINT_OPTION,
    DATA_OPTIONS,
    MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    SERVED_PRECISION_OPTION,
    SERVING_MACHINE_OPTIONS,
    SYSTEM_OPTIONS,
    build_format_option,
)
from suite.console.parameters import WORKLOAD_TYPE
from suite.console.project_defaults import is_given
from suite.console.screen import add_output_options
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario

if TYPE_CHECKING:
    from suite.studies.kind import StudyKind
    from suite.studies.measured import MeasuredStudy

STUDY_RUN_OPTIONS: Final = (
    *MODEL_OPTIONS,
    OWN_ENGINE_OPTION,
    SERVED_PRECISION_OPTION,
    *DATA_OPTIONS,
    *SERVING_MACHINE_OPTIONS,
    *SYSTEM_OPTIONS,
)
REPEATS_OPTION: Final = click.option(
    "--repeats",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs of each point; several give 95 % intervals.",
)


def run_study(
    name: str,
    workload: str,
    options: RunOptions,
    values: dict[str, Any],
    *,
    checkpoint: Any,
    repeats: int,
    output_format: str,
) -> "MeasuredStudy":
    """Measure a study of a kind by the values of its command."""
    with report_missing_modules():
        from harness.progress import Heartbeat
        from harness.serving.studies.driver import measure_study
        from harness.serving.studies.system import StudyOptions

        study_options = StudyOptions(
            values=values,
            checkpoint=checkpoint,
            site=choose_serving_site(values, (Scenario.OFFLINE,)),
            repeats=repeats,
            output_format=output_format,
        )
        with Heartbeat():
            return measure_study(name, workload, options, study_options)[0]


def check_server_options(values: dict[str, Any]) -> None:
    """RequestError for options that contradict --endpoint, or require it."""
    if not values["endpoints"]:
        if values["ca"] or values["token_file"]:
            raise RequestError(f"{'--ca' if values['ca'] else '--token-file'} requires --endpoint")
        return
    for name in SERVER_OPTIONS:
        if is_given(name):
            raise RequestError(f"--{name}: the servers decide it; omit it")


INFER_KINDS: Final = ("speed",)
"""Kinds that `podium infer` measures (--weights, --onnx)."""


class StudyGroup(click.Group):
    """Makes a command of each kind of study that has none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the kinds of studies without a command of their own."""
        own = {*registry.map_entry_points(registry.COMMAND_GROUP), *INFER_KINDS}
        return [each for each in registry.map_entry_points(registry.STUDY_GROUP) if each not in own]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make the command of a kind of study."""
        if cmd_name not in self.list_commands(ctx):
            return None
        return build_study_command(registry.load_study_kind(cmd_name))


def build_study_command(kind: "StudyKind[Any, Any, Any]") -> click.Command:
    """Make the command of a kind of study: the options of a served run, and its own."""

    def measure_named_study(
        workload: str,
        options: RunOptions,
        checkpoint: Any,
        repeats: int,
        output_format: str,
        **values: Any,
    ) -> None:
        run_study(
            kind.name,
            workload,
            options,
            values,
            checkpoint=checkpoint,
            repeats=repeats,
            output_format=output_format,
        )

    shared: Iterable[Callable[..., Any]] = (
        click.argument("workload", type=WORKLOAD_TYPE, metavar="WORKLOAD"),
        add_run_options(*STUDY_RUN_OPTIONS),
        CHECKPOINT_OPTION,
        REPEATS_OPTION,
        build_format_option("text", "json", "csv"),
    )
    made: Any = measure_named_study
    for decorate in reversed(tuple(shared)):
        made = decorate(made)
    command = click.command(kind.name, help=kind.help or kind.note)(made)
    command.params.extend(kind.options)
    add_output_options(command)
    return command


@click.group(cls=StudyGroup, subcommand_metavar="KIND WORKLOAD [OPTIONS]")
def study() -> None:
    """Measure a study from another package.

    Example: podium study saturation resnet50
    """
