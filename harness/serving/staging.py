"""Staging for new LoadGen runs: existing results stay in place until all runs of the scenario are
complete.

`<results>/.podium/<workload>/serving` is a results folder of its own. Complete runs are noted there
before the earlier
runs are moved aside, so that the next command can recover from a kill in between.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from harness.serving.run_record import record_in
from harness.serving.setup import Bench
from suite.files.json_files import write_json
from suite.files.layout import (
    AUDITS_FOLDER,
    PARTIAL_SUFFIX,
    RUN_RECORD,
    ResultsEntry,
    compute_folder_sha256,
    is_inside_folder,
    locate_staged_runs,
    sync_to_disk,
)
from suite.files.superseded import supersede
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.scenario import Scenario
from suite.process.signals import raised_signals
from suite.records import RunRecord
from suite.workload import Mode

WHOLE: Final = "whole.json"
TRUTH: Final = "truth"
VALID: Final = "VALID"
"""LoadGen's verdict for a performance run that counts."""
NO_VERDICT: Final = "ACCURACY"
"""Verdict field of an accuracy run: LoadGen gives no verdict."""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
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


DECODER: Final = msgspec.json.Decoder(Whole)


def beside(bench: Bench) -> ResultsEntry:
    """Return the staging place, used while earlier runs stay at theirs."""
    return replace(bench.entry, results=locate_staged_runs(bench.entry.results, bench.request.name))


def in_the_way(bench: Bench, scenario: Scenario, modes: Sequence[Mode]) -> list[Path]:
    """Return what a scenario's new runs replace: runs of the same modes, and what another
    checkpoint left in the same place.
    """
    places = [(each, mode, folder_of(bench, each, mode)) for each in Scenario for mode in Mode]
    return [
        path
        for each, mode, path in places
        if path.exists() and ((each is scenario and mode in modes) or foreign(bench, path))
    ]


def stale(bench: Bench, standing: Sequence[Path]) -> list[Path]:
    """Return the compliance tests of results that are replaced: they say nothing of the new
    ones.
    """
    folders = (
        bench.entry.organisation_folder
        / AUDITS_FOLDER
        / path.relative_to(bench.entry.organisation_folder / "results").parent
        for path in standing
    )
    return [folder for folder in dict.fromkeys(folders) if folder.exists()]


def folder_of(bench: Bench, scenario: Scenario, mode: Mode) -> Path:
    """Return the folder of a mode's runs."""
    name = bench.request.row.inference_name
    return (
        bench.entry.locate_accuracy_run(name, scenario)
        if mode is Mode.ACCURACY
        else bench.entry.locate_performance_run(name, scenario).parent
    )


def foreign(bench: Bench, folder: Path) -> bool:
    """Check whether a folder holds a run of another checkpoint, of another training set with the
    same weights, or with a damaged record.
    """
    record = bench.checkpoint.record
    return any(
        run is None or (run.checkpoint_sha256, run.nonce) != (record.sha256, record.nonce)
        for run in records(folder)
    )


def threads_kept(bench: Bench, scenarios: Sequence[Scenario], modes: Sequence[Mode]) -> int:
    """Return the CPU threads of the existing runs in the other mode of a scenario; 0 if there are
    none, or they differ.
    """
    folders = [
        folder_of(bench, scenario, mode)
        for scenario in scenarios
        for mode in Mode
        if mode not in modes
    ]
    found = {
        run.threads
        for folder in folders
        if not foreign(bench, folder)
        for run in records(folder)
        if run is not None
    }
    return found.pop() if len(found) == 1 else 0


def counts(folder: Path) -> bool:
    """Check whether LoadGen called the runs of a folder VALID; accuracy runs have no verdict."""
    verdicts = {run and run.verdict for run in records(folder)}
    return bool(verdicts) and verdicts <= {VALID, NO_VERDICT}


def records(folder: Path) -> Iterator[RunRecord | None]:
    """Yield the run records below a folder; None for an unreadable one."""
    return (record_in(path.parent) for path in folder.glob(f"**/{RUN_RECORD}"))


def set_aside(bench: Bench, staging: ResultsEntry) -> Path:
    """Keep runs that do not replace the earlier ones; return their folder."""
    moved = supersede(
        bench.entry.results,
        [staging.organisation_folder / "results", staging.organisation_folder / "measurements"],
    )
    return moved.pairs[0][1]


def take_place(bench: Bench, staging: ResultsEntry, standing: Sequence[Path]) -> None:
    """Move a scenario's runs to their final place, and the results there aside. Signals are
    deferred until it is done.
    """
    results = bench.entry.results
    whole = Whole(
        home=str(bench.entry.organisation_folder.relative_to(results)),
        standing=tuple(str(path.relative_to(results)) for path in standing),
    )
    with raised_signals() as signals, signals.postponed():
        write_json(staging.results / WHOLE, msgspec.to_builtins(whole))
        go_on(results, staging.results, whole)


def recover(bench: Bench, staging: ResultsEntry) -> None:
    """Finish the move that an interrupted command began; discard its incomplete runs."""
    with raised_signals() as signals, signals.postponed():
        with suppress(UnreadableError):
            go_on(
                bench.entry.results,
                staging.results,
                read_untrusted_file(staging.results / WHOLE, DECODER.decode),
            )
        shutil.rmtree(staging.results, ignore_errors=True)


def clear(staging: ResultsEntry) -> None:
    """Delete incomplete runs; those already being moved stay for the next command."""
    if not (staging.results / WHOLE).exists():
        shutil.rmtree(staging.results, ignore_errors=True)


def go_on(results: Path, made: Path, whole: Whole) -> None:
    """Move aside what is in the way, then move the complete runs from staging."""
    source, target = made / whole.home, results / whole.home
    if not whole.displaced:
        supersede(results, [results / path for path in whole.standing])
        write_json(
            made / WHOLE, msgspec.to_builtins(msgspec.structs.replace(whole, displaced=True))
        )
    for truth in (source / TRUTH).glob("*"):
        place_truth(truth, target / TRUTH / truth.name)
    for part in parts(source):
        place = target / part.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        part.replace(place)
        sync_to_disk(place.parent)
    (made / WHOLE).unlink()


def parts(home: Path) -> list[Path]:
    """Return the units that are moved: the folder of a run, any other file; truth stays for later
    scenarios.
    """
    runs = [path.parent for path in home.rglob(RUN_RECORD)]
    files = [
        path
        for path in home.rglob("*")
        if path.is_file() and path.parent not in runs and path.relative_to(home).parts[0] != TRUTH
    ]
    return [*files, *runs]


def place_truth(made: Path, truth: Path) -> None:
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
