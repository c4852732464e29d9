"""Replaces a campaign by a new one. The old results stay in place until the new campaign is
complete.

`<results>/.podium/<workload>/campaign` is a staging results folder, in which train, infer, check
and pack work. A complete campaign moves into place by renames, which a kill may interrupt anywhere:
`whole.json` lists the results that it replaces, and the next `podium run` continues the move. Old
and new results are never mixed: old runs are moved aside before the run set that they belong
to, and the new set is moved in before its runs.
"""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import msgspec

from compliance.kinds.podium.results import log_values
from compliance.results.indexed_result import IndexedResult
from submissions import attempts, compliance_check
from submissions.campaign.state import CampaignStage, locate_campaign_state, read_campaign_state
from submissions.result_index import BUNDLES_FOLDER, find_results
from suite.errors import JudgedError
from suite.events import NONCE
from suite.files.chosen_engine import locate_chosen_engines
from suite.files.json_files import write_json
from suite.files.layout import (
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    PARTIAL_SUFFIX,
    STATE_FOLDER,
    compute_folder_sha256,
    is_inside_folder,
    locate_staged_campaign,
    locate_state_folder,
    sync_to_disk,
)
from suite.files.superseded import move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.process.signals import raise_signals_in_block

CAMPAIGN_MOVE_FILE: Final = "whole.json"
UNFINISHED_SET_PATTERNS: Final = (
    f"result_*.txt{PARTIAL_SUFFIX}",
    f"telemetry_*.jsonl{PARTIAL_SUFFIX}",
)
"""Files of an unfinished set."""


class CampaignMove(msgspec.Struct, frozen=True, kw_only=True):
    """A complete campaign that is being moved into place."""

    def __post_init__(self) -> None:
        """Reject a path that no command writes: the file is untrusted."""
        if not all(map(is_inside_folder, self.standing)):
            raise ValueError("contains a path outside its folder")

    standing: tuple[str, ...]
    """Paths that it replaces, relative to the results folder, in the order in which they
    are moved.
    """
    displaced: bool = False
    """Whether the old results have been moved aside."""


CAMPAIGN_MOVE_DECODER: Final = msgspec.json.Decoder(CampaignMove)


def settle_campaign(results_folder: Path, workload: str) -> bool:
    """Move a complete campaign into place. Set it aside instead if it missed its target and either
    left no result or the judge accepts the earlier one.

    An unfinished campaign stays; remains of one that cannot be resumed are moved aside. Return
    whether it was moved into place. JudgedError if the disk is full: a second call continues.
    """
    staged_folder = locate_staged_campaign(results_folder, workload)
    try:
        with raise_signals_in_block() as signals, signals.postpone():
            moved = apply_campaign_state(results_folder, staged_folder, workload)
            attempts.settle_ledgers(results_folder, workload)
    except OSError as error:
        raise JudgedError(f"{error.filename or results_folder}: {error.strerror}") from error
    return moved


def apply_campaign_state(results_folder: Path, staged_folder: Path, workload: str) -> bool:
    """Act on the state of a campaign; return whether it was moved into place."""
    state, move = read_campaign_state(staged_folder, workload), read_campaign_move(staged_folder)
    if move is None and state is None:
        with suppress(OSError):  # missing, or not empty
            staged_folder.rmdir()
        move_to_superseded([staged_folder], results=results_folder)
        return False
    if move is None and state is not None:
        if state.stage is CampaignStage.RUNNING:
            return False
        displaced_results = list_displaced_results(results_folder, staged_folder, workload)
        if state.stage is CampaignStage.MISSED and (
            not find_results(staged_folder)
            or any(map(compliance_check.is_valid_result, displaced_results))
        ):
            set_campaign_aside(results_folder, staged_folder, workload)
            return False
        move = CampaignMove(
            standing=tuple(
                str(path.relative_to(results_folder))
                for path in list_displaced_paths(
                    results_folder, staged_folder, workload, displaced_results
                )
            )
        )
        write_json(staged_folder / CAMPAIGN_MOVE_FILE, msgspec.to_builtins(move))
    if move is not None:
        move_campaign_into_place(results_folder, staged_folder, workload, move)
    return move is not None


def read_campaign_move(staged_folder: Path) -> CampaignMove | None:
    """Read the state of an interrupted move; None if there is none."""
    try:
        return read_untrusted_file(staged_folder / CAMPAIGN_MOVE_FILE, CAMPAIGN_MOVE_DECODER.decode)
    except UnreadableError:
        return None


def list_displaced_results(
    results_folder: Path, staged_folder: Path, workload: str
) -> list[IndexedResult]:
    """Return the results to be replaced: those in the place of new ones, and the runs of a training
    set that is replaced.
    """
    new = {result.folder.relative_to(staged_folder) for result in find_results(staged_folder)}
    old = [result for result in find_results(results_folder) if result.workload == workload]
    same_place = [result for result in old if result.folder.relative_to(results_folder) in new]
    sets = {
        name
        for result in same_place
        if result.scenario is None
        for name in iterate_result_campaigns(result)
    }
    return [
        result
        for result in old
        if result in same_place
        or (result.scenario and sets & set(iterate_result_campaigns(result)))
    ]


def iterate_result_campaigns(result: IndexedResult) -> Iterator[tuple[Path, object]]:
    """Yield the campaigns, as organisation and nonce, recorded in the logs of a run set or the
    runs of a scenario.
    """
    if result.scenario is None:
        yield from (
            (
                result.known_organisation_folder,
                log_values.read_training_values(log).stamps.get(NONCE),
            )
            for log in result.training_logs
        )
        return
    for folder in (result.accuracy_folder, *result.performance_folders):
        try:
            record = log_values.read_loadgen_run_record(folder)
        except JudgedError:  # an unreadable record identifies no campaign
            continue
        yield result.known_organisation_folder, record.system.nonce


def list_displaced_paths(
    results_folder: Path, staged_folder: Path, workload: str, displaced_results: list[IndexedResult]
) -> list[Path]:
    """Return the paths to move aside, in order: runs before their set, state at the end."""
    runs = [result for result in displaced_results if result.scenario]
    sets = [result for result in displaced_results if not result.scenario]
    logs = [
        path
        for result in sets
        for path in (
            *result.training_logs,
            *result.telemetry_files,
            *(path for name in UNFINISHED_SET_PATTERNS for path in result.folder.glob(name)),
        )
    ]
    audits = [path for result in runs for path in result.audit_folders]
    bundles = [
        results_folder / path.relative_to(staged_folder)
        for path in (staged_folder / BUNDLES_FOLDER).glob("*")
    ]
    state = [
        path
        for path in locate_state_folder(results_folder, workload).iterdir()
        if path != staged_folder
    ]
    return [
        path
        for path in (
            *merge_complete_folders([*(r.folder for r in runs), *logs]),
            *(r.measurements_folder for r in runs),
            *audits,
            *bundles,
            *state,
        )
        if path.exists()
    ]


def merge_complete_folders(paths: list[Path]) -> list[Path]:
    """Replace the last path in a folder by the folder itself if all of its content is listed: an
    empty folder would count as a benchmark without results.
    """
    for folder in dict.fromkeys(path.parent for path in paths):
        if set(folder.iterdir()) <= set(paths):
            return merge_complete_folders(
                list(
                    dict.fromkeys(
                        folder if path.parent == folder else path for path in reversed(paths)
                    )
                )[::-1]
            )
    return paths


def set_campaign_aside(results_folder: Path, staged_folder: Path, workload: str) -> None:
    """Set aside a campaign that does not replace the earlier one."""
    ((_, retained_folder),) = move_to_superseded([staged_folder], results=results_folder).pairs
    if find_results(retained_folder):
        why = "the judge accepts the earlier result, which stays"
    else:
        why = "this campaign left no result, and the earlier one stays"
    click.echo(f"{workload}: {why} in place; the new campaign is stored in {retained_folder}")


def move_campaign_into_place(
    results_folder: Path, staged_folder: Path, workload: str, move: CampaignMove
) -> None:
    """Move the old results aside, then move the new campaign in. After an interruption a second
    call can continue.
    """
    for weights in (staged_folder / CHECKPOINTS_FOLDER / workload).glob("*"):
        target = results_folder / weights.relative_to(staged_folder)
        # the weights are the same: only the record is new
        record = ""
        if target.exists():
            record = CHECKPOINT_RECORD
        move_campaign_part(results_folder, weights / record, target / record)
    if not move.displaced:
        move_to_superseded(
            [results_folder / path for path in move.standing], results=results_folder
        )
        write_json(
            staged_folder / CAMPAIGN_MOVE_FILE,
            msgspec.to_builtins(msgspec.structs.replace(move, displaced=True)),
        )
    for folder in {(results_folder / path).parent for path in move.standing}:
        with suppress(OSError):  # not empty; an empty one would count as a result-less benchmark
            folder.rmdir()
    for part in list_campaign_parts(results_folder, staged_folder):
        move_campaign_part(results_folder, part, results_folder / part.relative_to(staged_folder))
    move_to_superseded(
        [staged_folder / STATE_FOLDER / "superseded"],
        results=results_folder,
        relative_to=staged_folder,
    )
    for state in (
        locate_state_folder(staged_folder, workload) / "campaign.json",
        locate_chosen_engines(staged_folder, workload),
        locate_campaign_state(staged_folder, workload),
    ):
        move_campaign_part(results_folder, state, results_folder / state.relative_to(staged_folder))
    for rest in staged_folder.iterdir():
        if rest.is_dir():
            shutil.rmtree(rest)
    shutil.rmtree(staged_folder)


def list_campaign_parts(results_folder: Path, staged_folder: Path) -> list[Path]:
    """Return the paths to move as units, in order: runs after their set, and both after the files
    needed to judge them.
    """
    results = find_results(staged_folder)
    truths = {result.truth_folder for result in results if result.truth_folder.is_dir()}
    runs = [result.folder for result in results if result.scenario]
    logs = [log for result in results if not result.scenario for log in result.training_logs]
    apart = {
        staged_folder / STATE_FOLDER,
        staged_folder / CHECKPOINTS_FOLDER,
        staged_folder / CAMPAIGN_MOVE_FILE,
        *truths,
        *runs,
        *logs,
    }
    files = [
        path
        for path in staged_folder.rglob("*")
        if path.is_file() and not apart & {path, *path.parents}
    ]
    return [
        *sorted(
            truth
            for truth in truths
            if is_truth_different(truth, results_folder / truth.relative_to(staged_folder))
        ),
        *sorted(files),
        *logs,
        *runs,
    ]


def is_truth_different(staged_truth: Path, truth: Path) -> bool:
    """Return whether the ground truth is missing at its destination, or different there."""
    return not truth.is_dir() or compute_folder_sha256(truth) != compute_folder_sha256(staged_truth)


def move_campaign_part(results_folder: Path, part: Path, target: Path) -> None:
    """Move a file or folder to its place, together with its parent folder if that is missing there;
    an existing folder is moved aside.
    """
    if not part.exists():  # it was already moved with another part
        return
    if target.is_dir():
        move_to_superseded([target], results=results_folder)
    while not target.parent.exists():
        part, target = part.parent, target.parent
    part.replace(target)
    sync_to_disk(target.parent)
