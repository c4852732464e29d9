"""Staging for new LoadGen runs: existing results stay in place until all runs of the scenario are complete.

`<results>/.podium/<workload>/serving` is a results folder of its own. What is whole is noted there before the earlier
runs are moved aside, so that a kill in between leaves what the next command needs.
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
from suite.files.layout import PARTIAL, RUN_RECORD, Entry, folder_sha256, staged_runs, stays_inside, sync
from suite.files.superseded import supersede
from suite.files.untrusted_files import UnreadableError, read
from suite.loadgen.scenario import Scenario
from suite.process.signals import raised
from suite.records import RunRecord, write_json
from suite.workload import Mode

WHOLE: Final = "whole.json"
TRUTH: Final = "truth"
VALID: Final = "VALID"
"""LoadGen's word for a performance run that counts."""
NO_VERDICT: Final = "ACCURACY"
"""Stands in the verdict field of an accuracy run: LoadGen gives none."""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """Runs that are whole and on their way to their place."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file may be anybody's."""
        if not all(map(stays_inside, (self.home, *self.standing))):
            raise ValueError("it names a path outside its folder")

    home: str
    """`<division>/<org>` that they belong to."""
    standing: tuple[str, ...]
    """What gives way to them, relative to the results folder."""
    displaced: bool = False
    """It has been moved aside."""


DECODER: Final = msgspec.json.Decoder(Whole)


def beside(bench: Bench) -> Entry:
    """Give the place where runs are made while earlier ones stand at their own."""
    return replace(bench.entry, results=staged_runs(bench.entry.results, bench.request.name))


def in_the_way(bench: Bench, scenario: Scenario, modes: Sequence[Mode]) -> list[Path]:
    """Name what gives way to a scenario's new runs: those of the same modes, and what another checkpoint has left at the same place."""
    places = [(each, mode, folder_of(bench, each, mode)) for each in Scenario for mode in Mode]
    return [path for each, mode, path in places if path.exists() and ((each is scenario and mode in modes) or foreign(bench, path))]


def folder_of(bench: Bench, scenario: Scenario, mode: Mode) -> Path:
    """Say where the runs of a mode lie."""
    name = bench.request.row.inference_name
    return bench.entry.accuracy(name, scenario) if mode is Mode.ACCURACY else bench.entry.performance(name, scenario).parent


def foreign(bench: Bench, folder: Path) -> bool:
    """Tell whether a folder holds a run of another checkpoint, of another training set that came to the same weights, or with a damaged record."""
    record = bench.checkpoint.record
    return any(run is None or (run.checkpoint_sha256, run.nonce) != (record.sha256, record.nonce) for run in records(folder))


def threads_kept(bench: Bench, scenarios: Sequence[Scenario], modes: Sequence[Mode]) -> int:
    """Give the CPU threads of the runs that new ones come beside, in the other mode of a scenario; 0 where there are none, or they differ."""
    folders = [folder_of(bench, scenario, mode) for scenario in scenarios for mode in Mode if mode not in modes]
    found = {run.threads for folder in folders if not foreign(bench, folder) for run in records(folder) if run is not None}
    return found.pop() if len(found) == 1 else 0


def counts(folder: Path) -> bool:
    """Tell whether LoadGen called the runs of a folder VALID; accuracy runs have no verdict."""
    verdicts = {run and run.verdict for run in records(folder)}
    return bool(verdicts) and verdicts <= {VALID, NO_VERDICT}


def records(folder: Path) -> Iterator[RunRecord | None]:
    """Yield the run records below a folder; None for one that cannot be read."""
    return (record_in(path.parent) for path in folder.glob(f"**/{RUN_RECORD}"))


def set_aside(bench: Bench, staging: Entry) -> Path:
    """Keep runs that do not take the earlier ones' place; give where they lie."""
    moved = supersede(bench.entry.results, [staging.home / "results", staging.home / "measurements"])
    return moved.pairs[0][1]


def take_place(bench: Bench, staging: Entry, standing: Sequence[Path]) -> None:
    """Bring a scenario's runs to their place; what stands there is moved aside. A signal waits for it."""
    results = bench.entry.results
    whole = Whole(home=str(bench.entry.home.relative_to(results)), standing=tuple(str(path.relative_to(results)) for path in standing))
    with raised() as signals, signals.postponed():
        write_json(staging.results / WHOLE, msgspec.to_builtins(whole))
        go_on(results, staging.results, whole)


def recover(bench: Bench, staging: Entry) -> None:
    """Finish what a command that was stopped had begun to bring to its place; what else it left was not whole."""
    with raised() as signals, signals.postponed():
        with suppress(UnreadableError):
            go_on(bench.entry.results, staging.results, read(staging.results / WHOLE, DECODER.decode))
        shutil.rmtree(staging.results, ignore_errors=True)


def clear(staging: Entry) -> None:
    """Forget the runs that are not whole; those on their way to their place stay for the next command."""
    if not (staging.results / WHOLE).exists():
        shutil.rmtree(staging.results, ignore_errors=True)


def go_on(results: Path, made: Path, whole: Whole) -> None:
    """Move aside what stands in the way, then bring what is whole from where it was made."""
    source, target = made / whole.home, results / whole.home
    if not whole.displaced:
        supersede(results, [results / path for path in whole.standing])
        write_json(made / WHOLE, msgspec.to_builtins(msgspec.structs.replace(whole, displaced=True)))
    for truth in (source / TRUTH).glob("*"):
        place_truth(truth, target / TRUTH / truth.name)
    for part in parts(source):
        place = target / part.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        part.replace(place)
        sync(place.parent)
    (made / WHOLE).unlink()


def parts(home: Path) -> list[Path]:
    """Name what is moved as one: the folder of a run, any other file; truth stays for the scenarios that follow."""
    runs = [path.parent for path in home.rglob(RUN_RECORD)]
    files = [path for path in home.rglob("*") if path.is_file() and path.parent not in runs and path.relative_to(home).parts[0] != TRUTH]
    return [*files, *runs]


def place_truth(made: Path, truth: Path) -> None:
    """Copy truth to its place; what lies there already and is the same stays untouched."""
    if truth.is_dir():
        if folder_sha256(truth) == folder_sha256(made):
            return
        shutil.rmtree(truth)
    partial = truth.with_name(truth.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(made, partial)
    for path in partial.iterdir():
        sync(path)
    partial.rename(truth)
    sync(truth.parent)
