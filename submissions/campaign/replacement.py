"""A new campaign built next to an existing one, whose results stay in place until the new one is
complete.

`<results>/.podium/<workload>/campaign` is a staging results folder, in which train, infer, check
and pack work. A complete campaign moves
into place by renames, which a kill may interrupt anywhere: `whole.json` lists what it replaces, and
the next `podium run` continues. Old
and new are never mixed: old runs are moved aside before the training set that they belong to, and
the new set arrives before its runs.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec

from submissions import attempts, compliance_check
from submissions.campaign.state import Stage, read_state, state_file
from submissions.result_index import BUNDLES, Result, find
from submissions.score import log_values
from suite.errors import JudgedError
from suite.events import NONCE
from suite.files.json_files import write_json
from suite.files.layout import (
    CHECKPOINT_RECORD,
    CHECKPOINTS,
    PARTIAL,
    STATE,
    folder_sha256,
    staged_campaign,
    state_folder,
    stays_inside,
    sync,
)
from suite.files.superseded import supersede
from suite.files.untrusted_files import UnreadableError, read
from suite.process.signals import raised

WHOLE: Final = "whole.json"
UNFINISHED: Final = (f"result_*.txt{PARTIAL}", f"telemetry_*.jsonl{PARTIAL}")
"""Files of an unfinished set."""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A complete campaign that is being moved into place."""

    def __post_init__(self) -> None:
        """Reject what no command writes: the file is untrusted."""
        if not all(map(stays_inside, self.standing)):
            raise ValueError("it names a path outside its folder")

    standing: tuple[str, ...]
    """What it replaces, relative to the results folder, in this order."""
    displaced: bool = False
    """The old results have been moved aside."""


DECODER: Final = msgspec.json.Decoder(Whole)


def settle(home: Path, workload: str) -> None:
    """Move a complete campaign into place, or set it aside if it missed its target and either left
    no result or the judge accepts the earlier one.

    An unfinished campaign stays; remains of one that cannot be resumed are moved aside. JudgedError
    if the disk is full: a second call continues.
    """
    made = staged_campaign(home, workload)
    try:
        with raised() as signals, signals.postponed():
            put(home, made, workload)
            attempts.settle(home, workload)
    except OSError as error:
        raise JudgedError(f"{error.filename or home}: {error.strerror}") from error


def put(home: Path, made: Path, workload: str) -> None:
    """Act on the state of a campaign."""
    state, whole = read_state(made, workload), on_its_way(made)
    if whole is None and state is None:
        with suppress(OSError):  # missing, or not empty
            made.rmdir()
        supersede(home, [made])
        return
    if whole is None and state is not None:
        if state.stage is Stage.RUNNING:
            return
        gone = displaced(home, made, workload)
        if state.stage is Stage.MISSED and (
            not find(made) or any(map(compliance_check.valid, gone))
        ):
            set_aside(home, made, workload)
            return
        whole = Whole(
            standing=tuple(
                str(path.relative_to(home)) for path in standing(home, made, workload, gone)
            )
        )
        write_json(made / WHOLE, msgspec.to_builtins(whole))
    if whole is not None:
        take_place(home, made, workload, whole)


def on_its_way(made: Path) -> Whole | None:
    """Read the state of an interrupted move; None if there is none."""
    try:
        return read(made / WHOLE, DECODER.decode)
    except UnreadableError:
        return None


def displaced(home: Path, made: Path, workload: str) -> list[Result]:
    """Return the results to be replaced: those in the place of new ones, and the runs of a training
    set that is replaced.
    """
    new = {result.folder.relative_to(made) for result in find(made)}
    old = [result for result in find(home) if result.workload == workload]
    there = [result for result in old if result.folder.relative_to(home) in new]
    sets = {name for result in there if result.scenario is None for name in campaigns_of(result)}
    return [
        result
        for result in old
        if result in there or (result.scenario and sets & set(campaigns_of(result)))
    ]


def campaigns_of(result: Result) -> Iterator[tuple[Path, object]]:
    """Yield the campaigns, as organisation and nonce, recorded in the logs of a training set or the
    runs of a scenario.
    """
    if result.scenario is None:
        yield from (
            (result.tree, log_values.training(log).stamps.get(NONCE)) for log in result.logs
        )
        return
    for folder in (result.accuracy, *result.performance):
        try:
            yield result.tree, log_values.served(folder).nonce
        except JudgedError:  # an unreadable record belongs to no campaign
            continue


def standing(home: Path, made: Path, workload: str, gone: list[Result]) -> list[Path]:
    """Return the paths to move aside, in order: runs before their set, state at the end."""
    runs = [result for result in gone if result.scenario]
    sets = [result for result in gone if not result.scenario]
    logs = [
        path
        for result in sets
        for path in (
            *result.logs,
            *result.telemetry,
            *(path for name in UNFINISHED for path in result.folder.glob(name)),
        )
    ]
    audits = [path for result in runs for path in result.audits]
    bundles = [home / path.relative_to(made) for path in (made / BUNDLES).glob("*")]
    state = [path for path in state_folder(home, workload).iterdir() if path != made]
    return [
        path
        for path in (
            *gathered([*(r.folder for r in runs), *logs]),
            *(r.measurements for r in runs),
            *audits,
            *bundles,
            *state,
        )
        if path.exists()
    ]


def gathered(paths: list[Path]) -> list[Path]:
    """Replace the last path in a folder by the folder if all of its content is listed: an empty one
    would be a benchmark without results.
    """
    for folder in dict.fromkeys(path.parent for path in paths):
        if set(folder.iterdir()) <= set(paths):
            return gathered(
                list(
                    dict.fromkeys(
                        folder if path.parent == folder else path for path in reversed(paths)
                    )
                )[::-1]
            )
    return paths


def set_aside(home: Path, made: Path, workload: str) -> None:
    """Set aside a campaign that does not replace the earlier one."""
    ((_, kept),) = supersede(home, [made]).pairs
    why = (
        "the judge accepts the earlier result, which stays"
        if find(kept)
        else "this campaign left no result, and the earlier one stays"
    )
    click.echo(f"{workload}: {why} in place; this one is stored in {kept}")


def take_place(home: Path, made: Path, workload: str, whole: Whole) -> None:
    """Move aside what is in the way, then move the new campaign in; an interruption leaves what a
    second call needs.
    """
    for weights in (made / CHECKPOINTS / workload).glob("*"):
        there = home / weights.relative_to(made)
        record = (
            CHECKPOINT_RECORD if there.exists() else ""
        )  # the same weights: only the record is new
        bring(home, weights / record, there / record)
    if not whole.displaced:
        supersede(home, [home / path for path in whole.standing])
        write_json(
            made / WHOLE, msgspec.to_builtins(msgspec.structs.replace(whole, displaced=True))
        )
    for folder in {(home / path).parent for path in whole.standing}:
        with suppress(OSError):  # not empty; an empty one would be a benchmark without results
            folder.rmdir()
    for part in parts(home, made):
        bring(home, part, home / part.relative_to(made))
    supersede(home, [made / STATE / "superseded"], made)
    for state in (state_folder(made, workload) / "campaign.json", state_file(made, workload)):
        bring(home, state, home / state.relative_to(made))
    for rest in made.iterdir():
        if rest.is_dir():
            shutil.rmtree(rest)
    shutil.rmtree(made)


def parts(home: Path, made: Path) -> list[Path]:
    """Return the paths to move as units, in order: runs after their set, and both after the files
    that they are judged by.
    """
    results = find(made)
    truths = {result.truth for result in results if result.truth.is_dir()}
    runs = [result.folder for result in results if result.scenario]
    logs = [log for result in results if not result.scenario for log in result.logs]
    apart = {made / STATE, made / CHECKPOINTS, made / WHOLE, *truths, *runs, *logs}
    files = [
        path for path in made.rglob("*") if path.is_file() and not apart & {path, *path.parents}
    ]
    return [
        *sorted(truth for truth in truths if differs(truth, home / truth.relative_to(made))),
        *sorted(files),
        *logs,
        *runs,
    ]


def differs(made: Path, truth: Path) -> bool:
    """Return whether truth is missing at its place, or different."""
    return not truth.is_dir() or folder_sha256(truth) != folder_sha256(made)


def bring(home: Path, part: Path, target: Path) -> None:
    """Move a file or folder to its place, together with its parent folder if that is missing there;
    an existing folder is moved aside.
    """
    if not part.exists():  # it was moved with another part
        return
    if target.is_dir():
        supersede(home, [target])
    while not target.parent.exists():
        part, target = part.parent, target.parent
    part.replace(target)
    sync(target.parent)
