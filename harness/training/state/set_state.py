"""The state of a run set on disk: its options, its finished runs, and the location of
unfinished ones.

`<results>/.podium/<workload>/campaign.json`, with a folder `run_<i>` for each unfinished run. If
the logs of an
earlier set are in its place, a set is staged in a results folder of its own,
`<results>/.podium/<workload>/next`, and
replaces them when it is complete.
"""

import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from harness.training import seeds
from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.json_files import write_json
from suite.files.layout import (
    PARTIAL_SUFFIX,
    STATE_FOLDER,
    ResultsEntry,
    is_inside_folder,
    locate_staged_results,
    locate_state_folder,
    sync_to_disk,
)
from suite.files.superseded import SupersededFiles, move_to_superseded
from suite.files.untrusted_files import UnreadableError
from suite.ledger.steps import NONCE_RANDOM_BYTES, compute_campaign_nonce
from suite.rounds.settings import DATA_WORKERS_SETTING

SET_STATE_FILE: Final = "campaign.json"
LOG_PATTERN: Final = "result_*.txt"
TELEMETRY_PATTERN: Final = "telemetry_*.jsonl"
"""Stored next to the logs and moved with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSetState:
    """One set of training runs."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file is untrusted input."""
        if self.runs < 1 or not is_inside_folder(self.logs):
            raise ValueError(f"a set of {self.runs} runs with logs in {self.logs!r}")

    nonce: str
    """32 hex digits; binds every LoadGen run to this set."""
    seed: int
    """Seed of run 0; run i has seed + i."""
    runs: int
    logs: str
    """Folder of the logs, relative to the results folder."""
    identity: Mapping[str, Any]
    """What must match to resume an unfinished run."""
    endings: Mapping[str, str]
    """Run index -> how it ended, for finished runs."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The command's options as given (JSON types), for `--resume`."""
    launch: str = ""
    """The launcher that began it, if any: the set continues after a restart of its ranks."""
    chosen: bool = False
    """The set is complete and replaces the one in its place."""
    displacing: bool = False
    """The replaced set has been moved aside: only the move of this one is left."""
    challenge: str = ""
    """Hexadecimal digits that somebody else chose: the nonce was made from them."""
    random: str = ""
    """Hexadecimal digits that were added to the challenge."""

    @property
    def is_over(self) -> bool:
        """Return whether all runs are finished."""
        return len(self.endings) >= self.runs


SET_STATE_DECODER: Final = msgspec.json.Decoder(TrainingSetState)


def get_run_state_folder(results: Path, workload: str, run: int) -> Path:
    """Return the state folder of one unfinished run."""
    return locate_state_folder(results, workload) / f"run_{run}"


def read_set_state(results: Path, workload: str) -> TrainingSetState | None:
    """Read a set's state; None if there is none, RequestError if it is unreadable."""
    path = locate_state_folder(results, workload) / SET_STATE_FILE
    try:
        return untrusted_files.read_untrusted_file(path, SET_STATE_DECODER.decode)
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(
            f"{path}: cannot be read ({error.reason}); start a new set without --resume"
        ) from error


def write_set_state(results: Path, workload: str, campaign: TrainingSetState) -> None:
    """Write a set's state."""
    write_json(
        locate_state_folder(results, workload) / SET_STATE_FILE, convert_set_state_to_json(campaign)
    )


def convert_set_state_to_json(campaign: TrainingSetState) -> dict[str, Any]:
    """Convert to JSON types."""
    return cast(dict[str, Any], msgspec.to_builtins(campaign))


def parse_set_state(document: Mapping[str, Any]) -> TrainingSetState:
    """Convert from JSON types."""
    return msgspec.convert(document, TrainingSetState)


def record_run_ending(
    results: Path, workload: str, campaign: TrainingSetState, run: int, ending: str
) -> TrainingSetState:
    """Record that a run is over."""
    campaign = replace(campaign, endings={**campaign.endings, str(run): ending})
    write_set_state(results, workload, campaign)
    return campaign


def begin_training_set(
    entry: ResultsEntry, training_name: str, workload: str, campaign: TrainingSetState
) -> tuple[ResultsEntry, SupersededFiles]:
    """Begin a new set; return its place, and the unfinished set, here or elsewhere, that was moved
    aside for it.

    Finished logs in its final place stay until this set is complete.
    """
    logs = entry.locate_benchmark(training_name)
    if any(logs.glob(LOG_PATTERN)):
        place = get_staging_entry(entry, workload)
        moved = move_to_superseded([place.results], results=entry.results)
    else:
        place = entry
        elsewhere = list_unfinished_logs(entry.results, workload)
        # first: without it, the rest cannot be mistaken for a set to resume
        state = locate_state_folder(entry.results, workload)
        moved = move_to_superseded(
            [state, *list_set_files(logs), *elsewhere], results=entry.results
        )
    write_set_state(
        place.results, workload, replace(campaign, logs=str(logs.relative_to(entry.results)))
    )
    return place, moved


def create_set_state(
    identity: Mapping[str, Any],
    seed: int | None,
    runs: int,
    options: Mapping[str, Any],
    launch: str = "",
    challenge: str | None = None,
) -> TrainingSetState:
    """Create a set with its own nonce, made from the challenge if there is one."""
    seed = seeds.generate_random_seed() if seed is None else seed
    random = secrets.token_hex(NONCE_RANDOM_BYTES) if challenge else ""
    if challenge:
        nonce = compute_campaign_nonce(challenge, random)
    else:
        nonce = secrets.token_hex(16)
    return TrainingSetState(
        nonce=nonce,
        seed=seed,
        runs=runs,
        logs="",
        identity=identity,
        endings={},
        options=options,
        launch=launch,
        challenge=challenge or "",
        random=random,
    )


def get_staging_entry(entry: ResultsEntry, workload: str) -> ResultsEntry:
    """Return the staging place, used while an earlier set stays at its own."""
    return replace(entry, results=locate_staged_results(entry.results, workload))


def remove_refused_set(entry: ResultsEntry, place: ResultsEntry, workload: str) -> None:
    """Delete a set that was refused before its first clock."""
    shutil.rmtree(
        place.results if place != entry else locate_state_folder(entry.results, workload),
        ignore_errors=True,
    )


def move_set_into_results(
    entry: ResultsEntry, place: ResultsEntry, workload: str, campaign: TrainingSetState
) -> None:
    """Move a complete set to its final place, and the earlier one aside. A second call can recover
    from an interruption.
    """
    state = locate_state_folder(entry.results, workload)
    if not campaign.displacing:
        write_set_state(place.results, workload, replace(campaign, chosen=True))
        logs = entry.results / campaign.logs
        move_to_superseded(
            [path for path in state.iterdir() if path != place.results] + list_set_files(logs),
            results=entry.results,
        )
        write_set_state(place.results, workload, replace(campaign, chosen=True, displacing=True))
    for path in sorted(
        path
        for path in place.results.rglob("*")
        if path.is_file() and STATE_FOLDER not in path.relative_to(place.results).parts
    ):
        target = entry.results / path.relative_to(place.results)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        sync_to_disk(target.parent)
    write_set_state(entry.results, workload, replace(campaign, chosen=False, displacing=False))
    shutil.rmtree(place.results)


def set_training_aside(entry: ResultsEntry, place: ResultsEntry) -> Path:
    """Keep a set that does not replace the earlier one; return its folder."""
    ((_, target),) = move_to_superseded([place.results], results=entry.results).pairs
    return target


def list_unfinished_logs(results: Path, workload: str) -> list[Path]:
    """Return the unfinished logs of the set whose state is in this folder."""
    try:
        campaign = read_set_state(results, workload)
    except RequestError:  # its state is moved aside, whatever it holds
        return []
    if campaign is None:
        return []
    logs = results / campaign.logs
    return sorted(logs.glob(LOG_PATTERN + PARTIAL_SUFFIX)) + (
        [] if any(logs.glob(LOG_PATTERN)) else list_set_files(logs, (TELEMETRY_PATTERN,))
    )


def list_set_files(
    logs: Path, patterns: tuple[str, ...] = (LOG_PATTERN, TELEMETRY_PATTERN)
) -> list[Path]:
    """Return the logs of a set and the files next to them, finished or not."""
    return sorted(
        path
        for pattern in patterns
        for suffix in ("", PARTIAL_SUFFIX)
        for path in logs.glob(pattern + suffix)
    )


def find_staged_or_placed_set(
    entry: ResultsEntry, workload: str
) -> tuple[ResultsEntry, TrainingSetState] | None:
    """Return the newest set and its place."""
    for place in (get_staging_entry(entry, workload), entry):
        if (campaign := read_set_state(place.results, workload)) is not None:
            return place, campaign
    return None


def check_same_request(
    campaign: TrainingSetState, identity: Mapping[str, Any], seed: int | None
) -> None:
    """Refuse to resume a set that began with a different request."""
    requested = {**identity, "seed": campaign.seed if seed is None else seed}
    known = {**campaign.identity, "seed": campaign.seed}
    for key in sorted(requested.keys() | known.keys()):
        if key == f"setting {DATA_WORKERS_SETTING}":
            continue  # weights do not depend on it; a run that lost its workers may do without
        if requested.get(key) != known.get(key):
            raise RequestError(
                f"--resume: the set was started with {key} {known.get(key)}, not"
                f" {requested.get(key)}; without --resume a new set is started"
            )
