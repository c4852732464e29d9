"""Runs that exist already, in the results or in the study: which of them are those that a row would
measure again.
"""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.serving.run_record import build_system_record, find_served_run, store_system_record
from harness.serving.setup import ServingSetup
from harness.serving.staging import ServingPlan, copy_ground_truth
from suite.files.layout import PARTIAL_SUFFIX, ResultsEntry, sync_to_disk
from suite.files.superseded import move_to_superseded
from suite.loadgen.detail_log import is_logged_valid
from suite.loadgen.scenario import Scenario
from suite.records import ServedRun, locate_system_folder
from suite.rounds import HyperValue, ScenarioRow
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.workload import Mode

ROW_PLAN: Final[ServingPlan] = {
    Scenario.OFFLINE: (Mode.ACCURACY, Mode.PERFORMANCE),
    Scenario.SINGLE_STREAM: (Mode.PERFORMANCE,),
}
"""The runs behind a row: the accuracy set is scored once, since both scenarios answer the same
samples.
"""


def list_missing_runs(serving_setup: ServingSetup) -> ServingPlan:
    """Return what a row still lacks in the setup's results folder."""
    missing = {
        scenario: tuple(
            mode for mode in modes if not has_reusable_run(serving_setup, scenario, mode)
        )
        for scenario, modes in ROW_PLAN.items()
    }
    return {scenario: modes for scenario, modes in missing.items() if modes}


def locate_row_run(
    entry: ResultsEntry, serving_setup: ServingSetup, scenario: Scenario, mode: Mode
) -> Path:
    """Return the folder of one of a row's runs."""
    name = serving_setup.request.row.inference_name
    return (
        entry.locate_accuracy_run(name, scenario)
        if mode is Mode.ACCURACY
        else entry.locate_performance_run(name, scenario)
    )


def has_reusable_run(
    serving_setup: ServingSetup, scenario: Scenario, mode: Mode, *, valid: bool = False
) -> bool:
    """Check whether a run exists with this checkpoint, campaign and system under test, and is as
    long as requested; `valid`: it is not INVALID either.
    """
    folder = locate_row_run(serving_setup.entry, serving_setup, scenario, mode)
    run = find_served_run(folder)
    required_limits = {
        limit: serving_setup.request.settings.get(limit, least)
        for limit, least in list_minimum_limits(
            serving_setup.require_scenario_rules(scenario)
        ).items()
    }
    return (
        run is not None
        and is_run_reusable(serving_setup, run)
        and (not valid or mode is Mode.ACCURACY or is_logged_valid(folder))
        and (mode is Mode.ACCURACY or not is_below_limits(run, required_limits))
    )


def is_run_reusable(serving_setup: ServingSetup, run: ServedRun) -> bool:
    """Check whether a run's system is the one that would be served now, of the same podium."""
    now = build_system_record(serving_setup, run.system.sample_count)
    return now.compute_digest() == run.system_sha256


def list_minimum_limits(rules: ScenarioRow) -> dict[str, HyperValue]:
    """Return the minimum length of a performance run."""
    return {
        "loadgen.min_duration_ms": rules.min_duration_ms,
        "loadgen.min_queries": rules.min_queries,
    }


def is_below_limits(run: ServedRun | None, least: Mapping[str, HyperValue]) -> bool:
    """Check whether LoadGen was given lower limits."""
    return run is None or any(
        not isinstance(found := run.settings.get(name), int | float) or found < float(str(value))
        for name, value in least.items()
    )


def select_system_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that affect the system under test, as JSON types."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in settings.items()
        if not key.startswith(PERFORMANCE_PREFIXES)
    }


def copy_earlier_runs(serving_setup: ServingSetup, results: Path) -> bool:
    """Copy VALID runs of a row that the study lacks from the results; return whether there were
    any. What a copy takes the place of is moved aside.
    """
    source = replace(serving_setup, entry=replace(serving_setup.entry, results=results.absolute()))
    taken = [
        (scenario, mode)
        for scenario, modes in list_missing_runs(serving_setup).items()
        for mode in modes
        if has_reusable_run(source, scenario, mode, valid=True)
        and (mode is Mode.PERFORMANCE or locate_setup_truth(source).is_dir())
    ]
    for scenario, mode in taken:
        if mode is Mode.ACCURACY:
            target = locate_setup_truth(serving_setup)
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_ground_truth(locate_setup_truth(source), target)
        run_folder, target = (
            locate_row_run(each.entry, serving_setup, scenario, mode)
            for each in (source, serving_setup)
        )
        move_to_superseded([target], results=serving_setup.entry.results)
        if run := find_served_run(run_folder):
            store_system_record(locate_system_folder(target), run.system)
        copy_run_folder(run_folder, target)
    return bool(taken)


def locate_setup_truth(serving_setup: ServingSetup) -> Path:
    """Return the folder of the ground truth."""
    return serving_setup.entry.locate_ground_truth(serving_setup.request.name)


def copy_run_folder(run_folder: Path, target: Path) -> None:
    """Copy a run; it gets its name when it is complete."""
    partial = target.with_name(target.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(run_folder, partial)
    for path in (*partial.iterdir(), partial):
        sync_to_disk(path)
    partial.rename(target)
    sync_to_disk(target.parent)


def read_row_threads(entries: Iterator[ResultsEntry], name: str, sha256: str) -> int:
    """Return the CPU threads of the first Offline run of a checkpoint; 0 if there is none."""
    for entry in entries:
        run = find_served_run(entry.locate_performance_run(name, Scenario.OFFLINE))
        if run is not None and run.system.checkpoint_sha256 == sha256:
            return run.system.threads
    return 0
