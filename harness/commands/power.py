"""The command `power` and its subcommands."""

from pathlib import Path

import click

from harness.missing_modules import report_missing_modules
from suite.console.options import build_format_option
from suite.console.parameters import PATH_TYPE


@click.group(invoke_without_command=True)
@click.option(
    "--root",
    type=PATH_TYPE,
    help=(
        "Root of the sysfs tree. Readings below any other than / are marked as a rehearsal: not"
        " measured on this machine."
    ),
)
@build_format_option("text", "json")
@click.pass_context
def power(context: click.Context, root: Path | None, output_format: str) -> None:
    """List the power sources of this machine: a reading, grade and scope for each, or why it cannot
    be read.

    Example: podium power --format json
    """
    if context.invoked_subcommand is None:
        with report_missing_modules():
            from harness.machine.power.report import print_power_sources
            from harness.machine.power.selection import resolve_power_root

            print_power_sources(root or resolve_power_root(), output_format)


@power.command("import", short_help="Copy a session of MLPerf Power beside its run.")
@click.argument("session", type=PATH_TYPE)
@click.argument("run", type=PATH_TYPE, metavar="RUN_FOLDER")
def import_session(session: Path, run: Path) -> None:
    """Copy a session of the MLPerf Power workflow beside the performance run that it measured.

    SESSION is the folder with power/, ranging/ and run_1/. Only a session that passes its checks is
    copied.

    Example: podium power import 2026-11-22_10-00-00_resnet50
    results/open/acme/results/box/resnet50/Offline/performance/run_1
    """
    with report_missing_modules():
        from harness.machine.power.session_import import import_power_session

        import_power_session(session, run)


@power.command("export", short_help="Write readings in the MLPerf Training format.")
@click.argument("logs", type=PATH_TYPE, nargs=-1, required=True, metavar="LOG...")
@click.option(
    "-o",
    "target",
    type=PATH_TYPE,
    required=True,
    help="Folder to write power/result_<i>/node_<n>.txt to.",
)
def export_power(logs: tuple[Path, ...], target: Path) -> None:
    """Write the power readings of training runs in the MLPerf Training format: one file per node,
    with readings of the whole node only.

    Example: podium power export results/open/acme/results/box/resnet/result_0.txt -o power-logs
    """
    with report_missing_modules():
        from harness.training.power_export import export_node_power

        export_node_power(logs, target)
