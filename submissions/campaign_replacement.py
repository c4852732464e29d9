"""A new campaign built beside an existing one, whose results stay in place until the new one is complete.

`<results>/.podium/<workload>/campaign` is a results folder of its own, in which train, infer, check and pack work. What is whole comes from there
to its place in renames that a kill may cut anywhere: `whole.json` says what makes room for it, and the next `podium run` goes on. At no moment are
old and new mixed: the old runs go before the set that they belong to, and the new set comes before its runs.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec

from submissions import compliance_check
from submissions.campaign_state import Stage, read_state, state_file
from submissions.result_index import BUNDLES, Result, find
from submissions.score import log_values
from suite.errors import JudgedError
from suite.events import NONCE
from suite.files.layout import CHECKPOINT_RECORD, CHECKPOINTS, PARTIAL, STATE, folder_sha256, staged_campaign, state_folder, stays_inside, sync
from suite.files.superseded import supersede
from suite.files.untrusted_files import UnreadableError, read
from suite.process.signals import raised
from suite.records import write_json

WHOLE: Final = "whole.json"
UNFINISHED: Final = (f"result_*.txt{PARTIAL}", f"telemetry_*.jsonl{PARTIAL}")
"""What a set that was not finished has left."""


class Whole(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign that is over and on its way to its place."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file may be anybody's."""
        if not all(map(stays_inside, self.standing)):
            raise ValueError("it names a path outside its folder")

    standing: tuple[str, ...]
    """What makes room for it, relative to the results folder, in this order."""
    displaced: bool = False
    """It has been moved aside."""


DECODER: Final = msgspec.json.Decoder(Whole)


def settle(home: Path, workload: str) -> None:
    """Bring a campaign that is over to its place, or keep it aside where it missed its target and the judge accepts what stands there.

    One that is unfinished stays; what is left of one that nobody can go on with goes. JudgedError where the disk is full: a second call goes on.
    """
    made = staged_campaign(home, workload)
    try:
        with raised() as signals, signals.postponed():
            put(home, made, workload)
    except OSError as error:
        raise JudgedError(f"{error.filename or home}: {error.strerror}") from error


def put(home: Path, made: Path, workload: str) -> None:
    """Do what the state of a campaign asks for."""
    state, whole = read_state(made, workload), on_its_way(made)
    if whole is None and state is None:
        with suppress(OSError):  # there is none, or something is in it
            made.rmdir()
        supersede(home, [made])
        return
    if whole is None and state is not None:
        if state.stage is Stage.RUNNING:
            return
        gone = displaced(home, made, workload)
        if state.stage is Stage.MISSED and any(map(compliance_check.valid, gone)):
            set_aside(home, made, workload)
            return
        whole = Whole(standing=tuple(str(path.relative_to(home)) for path in standing(home, made, workload, gone)))
        write_json(made / WHOLE, msgspec.to_builtins(whole))
    if whole is not None:
        take_place(home, made, workload, whole)


def on_its_way(made: Path) -> Whole | None:
    """Read what a command left that was stopped under way; None where nothing is under way."""
    try:
        return read(made / WHOLE, DECODER.decode)
    except UnreadableError:
        return None


def displaced(home: Path, made: Path, workload: str) -> list[Result]:
    """Give the results that make room: those at the place of new ones, and the runs of a training set that does."""
    new = {result.folder.relative_to(made) for result in find(made)}
    old = [result for result in find(home) if result.workload == workload]
    there = [result for result in old if result.folder.relative_to(home) in new]
    sets = {name for result in there if result.scenario is None for name in campaigns_of(result)}
    return [result for result in old if result in there or (result.scenario and sets & set(campaigns_of(result)))]


def campaigns_of(result: Result) -> Iterator[tuple[Path, object]]:
    """Yield the campaigns, organisation and nonce, that the logs of a training set, or the runs of a scenario, say they belong to."""
    if result.scenario is None:
        yield from ((result.tree, log_values.training(log).stamps.get(NONCE)) for log in result.logs)
        return
    for folder in (result.accuracy, *result.performance):
        try:
            yield result.tree, log_values.served(folder).nonce
        except JudgedError:  # a record that cannot be read belongs to none
            continue


def standing(home: Path, made: Path, workload: str, gone: list[Result]) -> list[Path]:
    """Name what makes room, in the order in which it goes: runs before their set, and state at the end."""
    runs = [result for result in gone if result.scenario]
    sets = [result for result in gone if not result.scenario]
    logs = [path for result in sets for path in (*result.logs, *result.telemetry, *(path for name in UNFINISHED for path in result.folder.glob(name)))]
    bundles = [home / path.relative_to(made) for path in (made / BUNDLES).glob("*")]
    state = [path for path in state_folder(home, workload).iterdir() if path != made]
    return [path for path in (*gathered([*(r.folder for r in runs), *logs]), *(r.measurements for r in runs), *bundles, *state) if path.exists()]


def gathered(paths: list[Path]) -> list[Path]:
    """Put a folder in the last place of all that lies in it: an empty one would be a benchmark without results."""
    for folder in dict.fromkeys(path.parent for path in paths):
        if set(folder.iterdir()) <= set(paths):
            return gathered(list(dict.fromkeys(folder if path.parent == folder else path for path in reversed(paths)))[::-1])
    return paths


def set_aside(home: Path, made: Path, workload: str) -> None:
    """Keep a campaign that does not take the earlier one's place."""
    ((_, kept),) = supersede(home, [made]).pairs
    click.echo(f"{workload}: the judge accepts the earlier result, which stays in place; this one is stored in {kept}")


def take_place(home: Path, made: Path, workload: str, whole: Whole) -> None:
    """Move aside what stands in the way, and bring what was made; an interruption leaves what a second call needs."""
    for weights in (made / CHECKPOINTS / workload).glob("*"):
        there = home / weights.relative_to(made)
        record = CHECKPOINT_RECORD if there.exists() else ""  # the same weights: the record alone is new
        bring(home, weights / record, there / record)
    if not whole.displaced:
        supersede(home, [home / path for path in whole.standing])
        write_json(made / WHOLE, msgspec.to_builtins(msgspec.structs.replace(whole, displaced=True)))
    for folder in {(home / path).parent for path in whole.standing}:
        with suppress(OSError):  # something is in it; an empty one would be a benchmark without results
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
    """Name what is moved as one, in the order in which it comes: runs after their set, and both after what they are judged by."""
    results = find(made)
    truths = {result.truth for result in results if result.truth.is_dir()}
    runs = [result.folder for result in results if result.scenario]
    logs = [log for result in results if not result.scenario for log in result.logs]
    apart = {made / STATE, made / CHECKPOINTS, made / WHOLE, *truths, *runs, *logs}
    files = [path for path in made.rglob("*") if path.is_file() and not apart & {path, *path.parents}]
    return [*sorted(truth for truth in truths if differs(truth, home / truth.relative_to(made))), *sorted(files), *logs, *runs]


def differs(made: Path, truth: Path) -> bool:
    """Tell whether truth is not there yet, or other."""
    return not truth.is_dir() or folder_sha256(truth) != folder_sha256(made)


def bring(home: Path, part: Path, target: Path) -> None:
    """Bring a file or a folder to its place, with the folder that it lies in where that is not there; a folder that lies there is moved aside."""
    if not part.exists():  # it came with another
        return
    if target.is_dir():
        supersede(home, [target])
    while not target.parent.exists():
        part, target = part.parent, target.parent
    part.replace(target)
    sync(target.parent)
