"""`podium run --dry-run`: the dry runs of train and infer, and what they add up to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from submissions.campaign import requested_options
from submissions.campaign.run import format_common_arguments, format_serving_arguments
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import get_output_level, print_progress_note
from suite.dry_run import DryRunEstimate, format_stage_time, join_estimates, report_estimate
from suite.errors import PodiumError
from suite.files.scratch import collect_temporary_files

UNTRAINED_OPTION: Final = "--untrained"
"""Of `podium infer`: nothing is trained yet."""


def try_campaigns(name: str, options: RunOptions, *, seed: int | None, runs: int | None) -> None:
    """Try the campaign of one workload, or of all, and print what each will take.

    The first PodiumError is raised at the end: a campaign that cannot run does not stop the others.
    """
    if name == "all":
        names = list(registry.map_entry_points(registry.WORKLOAD_GROUP))
    else:
        names = [name]
    failures: list[PodiumError] = []
    with collect_temporary_files():
        for each in names:
            try:
                report_estimate(try_single_campaign(each, options, seed, runs), options.results)
            except PodiumError as error:
                failures.append(error)
    if failures:
        raise type(failures[0])("\n  ".join(map(str, failures)))


def try_single_campaign(
    name: str, options: RunOptions, seed: int | None, runs: int | None
) -> DryRunEstimate:
    """Try to train and to serve a workload; PodiumError of the step that failed."""
    registry.load_workload(name)
    requested_options.parse_requested_options(name, options, seed, runs)
    common = [name, *format_common_arguments(options), "--dry-run"]
    if seed is not None:
        training = ["--seed", str(seed)]
    else:
        training = []
    if runs is not None:
        training += ["--runs", str(runs)]
    steps = [try_command("train", [*common, *training])]
    for stage in steps[0].stages:
        print_progress_note(f"{name}: {stage.name} would take {format_stage_time(stage)}")
    if row := registry.load_round().benchmark(name).inference.get(options.profile):
        serving = format_serving_arguments(name, options.profile, runs, tuple(row.scenarios))
        steps.append(try_command("infer", [*common, UNTRAINED_OPTION, *serving]))
    return join_estimates(steps)


def try_command(name: str, words: Sequence[str]) -> DryRunEstimate:
    """Run a command's dry run, and return its estimate."""
    command = registry.load_click_command(name)
    estimate: DryRunEstimate = command.main(
        args=list(words),
        prog_name=f"podium {name}",
        standalone_mode=False,
        obj=replace(get_output_level(), inner=True),
    )
    return estimate
