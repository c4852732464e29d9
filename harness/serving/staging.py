"""Staging for new LoadGen runs: existing results stay in place until all runs of the scenario are
complete.

`<results>/.podium/<workload>/serving` is a results folder of its own. Complete runs are noted there
before the earlier
runs are moved aside, so that the next command can recover from a kill in between.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from harness.serving.run_record import build_system_record, find_served_run
from harness.serving.setup import ServingSetup
from suite.files.json_files import write_json
from suite.files.layout import (
    AUDITS_FOLDER,
    PARTIAL_SUFFIX,
    RUN_RECORD,
    SYSTEM_RECORD,
    ResultsEntry,
    compute_folder_sha256,
    is_inside_folder,
    locate_staged_runs,
    sync_to_disk,
)
from suite.files.superseded import move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.detail_log import is_logged_valid
from suite.loadgen.scenario import Scenario
from suite.process.signals import raise_signals_in_block
from suite.records import ServedRun
from suite.workload import Mode

ServingPlan: TypeAlias = Mapping[Scenario, Sequence[Mode]]
"""What a command serves: the modes of each scenario."""
COMPLETE_RUNS_FILE: Final = "whole.json"
TRUTH_FOLDER: Final = "truth"
NO_LOADGEN_VERDICT: Final = "ACCURACY"
"""Verdict field of an accuracy run: LoadGen gives no verdict."""


class CompleteRuns(msgspec.Struct, frozen=True, kw_only=True):
    """Complete runs that are being moved to their final place."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file is untrusted input."""
        if not all(map(is_inside_folder, (self.home, *self.standing))):
            raise ValueError("it names a path outside its folder")

    home: str
    """`<division>/<org>` that the runs belong to."""
    standing: tuple[str, ...]
    """What they replace, relative to the results folder."""
    displaced: bool = False
    """The replaced results have been moved aside."""


COMPLETE_RUNS_DECODER: Final = msgspec.json.Decoder(CompleteRuns)


def build_staging_entry(serving_setup: ServingSetup) -> ResultsEntry:
    """Return the staging place, used while earlier runs stay at theirs."""
    return replace(
        serving_setup.entry,
        results=locate_staged_runs(serving_setup.entry.results, serving_setup.request.name),
    )


def find_replaced_runs(
    serving_setup: ServingSetup, scenario: Scenario, modes: Sequence[Mode], sample_count: int
) -> list[Path]:
    """Return what a scenario's new runs replace: runs of the same modes, what another checkpoint
    left in the same place, and the scenario's runs of another system.
    """
    digest = build_system_record(serving_setup, sample_count).compute_digest()
    places = [
        (each, mode, locate_mode_folder(serving_setup, each, mode))
        for each in Scenario
        for mode in Mode
    ]
    return [
        path
        for each, mode, path in places
        if path.exists()
        and (
            (each is scenario and (mode in modes or has_other_system(path, digest)))
            or has_other_checkpoint(serving_setup, path)
        )
    ]


def find_stale_records(serving_setup: ServingSetup, replaced_runs: Sequence[Path]) -> list[Path]:
    """Return the measurements and systems of results that are replaced: without them nobody could
    bring the results back. A system stays whose other runs stay.
    """
    places = {scenario.folder: scenario for scenario in Scenario}
    name = serving_setup.request.row.inference_name
    entries = dict.fromkeys(path.parent for path in replaced_runs)
    measurements = [
        serving_setup.entry.locate_measurements_file(name, places[entry.name]) for entry in entries
    ]
    systems = [
        entry / SYSTEM_RECORD
        for entry in entries
        if {entry / mode for mode in Mode if (entry / mode).exists()} <= set(replaced_runs)
    ]
    return [*measurements, *systems]


def find_stale_audits(serving_setup: ServingSetup, replaced_runs: Sequence[Path]) -> list[Path]:
    """Return the compliance tests of results that are replaced: they say nothing of the new
    ones.
    """
    folders = (
        serving_setup.entry.organisation_folder
        / AUDITS_FOLDER
        / path.relative_to(serving_setup.entry.organisation_folder / "results").parent
        for path in replaced_runs
    )
    return [folder for folder in dict.fromkeys(folders) if folder.exists()]


def locate_mode_folder(serving_setup: ServingSetup, scenario: Scenario, mode: Mode) -> Path:
    """Return the folder of a mode's runs."""
    name = serving_setup.request.row.inference_name
    if mode is Mode.ACCURACY:
        return serving_setup.entry.locate_accuracy_run(name, scenario)
    return serving_setup.entry.locate_performance_run(name, scenario).parent


def has_other_system(folder: Path, digest: str) -> bool:
    """Check whether a folder holds a run of another system under test, or with a damaged record."""
    return any(run is None or run.system_sha256 != digest for run in iterate_served_runs(folder))


def has_other_checkpoint(serving_setup: ServingSetup, folder: Path) -> bool:
    """Check whether a folder holds a run of another checkpoint, of another run set with the
    same weights, or with a damaged record.
    """
    record = serving_setup.checkpoint.record
    return any(
        run is None
        or (run.system.checkpoint_sha256, run.system.nonce) != (record.sha256, record.nonce)
        for run in iterate_served_runs(folder)
    )


def read_other_modes_thread_count(serving_setup: ServingSetup, plan: ServingPlan) -> int:
    """Return the CPU threads of the existing runs in the other mode of a scenario; 0 if there are
    none, or they differ.
    """
    folders = [
        locate_mode_folder(serving_setup, scenario, mode)
        for scenario, modes in plan.items()
        for mode in Mode
        if mode not in modes
    ]
    found = {
        run.system.threads
        for folder in folders
        if not has_other_checkpoint(serving_setup, folder)
        for run in iterate_served_runs(folder)
        if run is not None
    }
    return found.pop() if len(found) == 1 else 0


def is_every_run_valid(folder: Path) -> bool:
    """Check whether LoadGen called the runs of a folder VALID; accuracy runs have no verdict."""
    runs = [path.parent for path in folder.glob(f"**/{RUN_RECORD}")]
    return bool(runs) and all(
        find_served_run(run) is not None and (run.name == Mode.ACCURACY or is_logged_valid(run))
        for run in runs
    )


def iterate_served_runs(folder: Path) -> Iterator[ServedRun | None]:
    """Yield the runs below a folder with their records; None for one whose are unreadable."""
    return (find_served_run(path.parent) for path in folder.glob(f"**/{RUN_RECORD}"))


def move_staged_runs_aside(serving_setup: ServingSetup, staging: ResultsEntry) -> Path:
    """Keep runs that do not replace the earlier ones; return their folder."""
    moved = move_to_superseded(
        [staging.organisation_folder / "results", staging.organisation_folder / "measurements"],
        results=serving_setup.entry.results,
    )
    return moved.pairs[0][1]


def replace_earlier_runs(
    serving_setup: ServingSetup, staging: ResultsEntry, replaced_runs: Sequence[Path]
) -> None:
    """Move a scenario's runs to their final place, and the results there aside. Signals are
    deferred until it is done.
    """
    results = serving_setup.entry.results
    complete_runs = CompleteRuns(
        home=str(serving_setup.entry.organisation_folder.relative_to(results)),
        standing=tuple(str(path.relative_to(results)) for path in replaced_runs),
    )
    with raise_signals_in_block() as signals, signals.postpone():
        write_json(staging.results / COMPLETE_RUNS_FILE, msgspec.to_builtins(complete_runs))
        move_complete_runs(results, staging.results, complete_runs)


def finish_interrupted_move(serving_setup: ServingSetup, staging: ResultsEntry) -> None:
    """Finish the move that an interrupted command began; discard its incomplete runs."""
    with raise_signals_in_block() as signals, signals.postpone():
        with suppress(UnreadableError):
            move_complete_runs(
                serving_setup.entry.results,
                staging.results,
                read_untrusted_file(
                    staging.results / COMPLETE_RUNS_FILE, COMPLETE_RUNS_DECODER.decode
                ),
            )
        shutil.rmtree(staging.results, ignore_errors=True)


def clear_staging_folder(staging: ResultsEntry) -> None:
    """Delete incomplete runs; those already being moved stay for the next command."""
    if not (staging.results / COMPLETE_RUNS_FILE).exists():
        shutil.rmtree(staging.results, ignore_errors=True)


def move_complete_runs(results: Path, staging_folder: Path, complete_runs: CompleteRuns) -> None:
    """Move aside what is in the way, then move the complete runs from staging."""
    source, target = staging_folder / complete_runs.home, results / complete_runs.home
    if not complete_runs.displaced:
        move_to_superseded([results / path for path in complete_runs.standing], results=results)
        write_json(
            staging_folder / COMPLETE_RUNS_FILE,
            msgspec.to_builtins(msgspec.structs.replace(complete_runs, displaced=True)),
        )
    for truth in (source / TRUTH_FOLDER).glob("*"):
        copy_ground_truth(truth, target / TRUTH_FOLDER / truth.name)
    for part in list_movable_parts(source):
        destination = target / part.relative_to(source)
        destination.parent.mkdir(parents=True, exist_ok=True)
        part.replace(destination)
        sync_to_disk(destination.parent)
    (staging_folder / COMPLETE_RUNS_FILE).unlink()


def list_movable_parts(home: Path) -> list[Path]:
    """Return the units that are moved: the folder of a run, any other file; truth stays for later
    scenarios.
    """
    runs = [path.parent for path in home.rglob(RUN_RECORD)]
    files = [
        path
        for path in home.rglob("*")
        if path.is_file()
        and path.parent not in runs
        and path.relative_to(home).parts[0] != TRUTH_FOLDER
    ]
    return [*files, *runs]


def copy_ground_truth(made: Path, truth: Path) -> None:
    """Copy truth to its place; an identical copy there stays untouched."""
    if truth.is_dir():
        if compute_folder_sha256(truth) == compute_folder_sha256(made):
            return
        shutil.rmtree(truth)
    partial = truth.with_name(truth.name + PARTIAL_SUFFIX)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(made, partial)
    for path in partial.iterdir():
        sync_to_disk(path)
    partial.rename(truth)
    sync_to_disk(truth.parent)
