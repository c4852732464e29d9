"""The state of a training set on disk: its options, its finished runs, and the location of
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
    PARTIAL,
    STATE,
    Entry,
    staged_results,
    state_folder,
    stays_inside,
    sync,
)
from suite.files.superseded import Moved, supersede
from suite.files.untrusted_files import UnreadableError
from suite.ledger.steps import RANDOM_BYTES, nonce_of

FILE: Final = "campaign.json"
LOGS: Final = "result_*.txt"
TELEMETRY: Final = "telemetry_*.jsonl"
"""Stored next to the logs and moved with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One set of training runs."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file is untrusted input."""
        if self.runs < 1 or not stays_inside(self.logs):
            raise ValueError(f"a set of {self.runs} runs whose logs lie in {self.logs!r}")

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
    def over(self) -> bool:
        """Return whether all runs are finished."""
        return len(self.endings) >= self.runs


DECODER: Final = msgspec.json.Decoder(Campaign)


def state_of(results: Path, workload: str, run: int) -> Path:
    """Return the state folder of one unfinished run."""
    return state_folder(results, workload) / f"run_{run}"


def read(results: Path, workload: str) -> Campaign | None:
    """Read a set's state; None if there is none, RequestError if it is unreadable."""
    path = state_folder(results, workload) / FILE
    try:
        return untrusted_files.read(path, DECODER.decode)
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(
            f"{path}: cannot be read ({error.reason}); start a new set without --resume"
        ) from error


def write(results: Path, workload: str, campaign: Campaign) -> None:
    """Write a set's state."""
    write_json(state_folder(results, workload) / FILE, to_plain(campaign))


def to_plain(campaign: Campaign) -> dict[str, Any]:
    """Convert to JSON types."""
    return cast(dict[str, Any], msgspec.to_builtins(campaign))


def from_plain(document: Mapping[str, Any]) -> Campaign:
    """Convert from JSON types."""
    return msgspec.convert(document, Campaign)


def end_run(results: Path, workload: str, campaign: Campaign, run: int, ending: str) -> Campaign:
    """Record that a run is over."""
    campaign = replace(campaign, endings={**campaign.endings, str(run): ending})
    write(results, workload, campaign)
    return campaign


def begin(
    entry: Entry, training_name: str, workload: str, campaign: Campaign
) -> tuple[Entry, Moved]:
    """Begin a new set; return its place, and the unfinished set, here or elsewhere, that was moved
    aside for it.

    Finished logs in its final place stay until this set is complete.
    """
    logs = entry.benchmark(training_name)
    if any(logs.glob(LOGS)):
        place = staged(entry, workload)
        moved = supersede(entry.results, [place.results])
    else:
        place = entry
        elsewhere = unfinished(entry.results, workload)
        state = state_folder(
            entry.results, workload
        )  # first: without it, the rest cannot be mistaken for a set to resume
        moved = supersede(entry.results, [state, *records(logs), *elsewhere])
    write(place.results, workload, replace(campaign, logs=str(logs.relative_to(entry.results))))
    return place, moved


def new(
    identity: Mapping[str, Any],
    seed: int | None,
    runs: int,
    options: Mapping[str, Any],
    launch: str = "",
    challenge: str | None = None,
) -> Campaign:
    """Create a set with its own nonce, made from the challenge if there is one."""
    seed = seeds.draw() if seed is None else seed
    random = secrets.token_hex(RANDOM_BYTES) if challenge else ""
    nonce = nonce_of(challenge, random) if challenge else secrets.token_hex(16)
    return Campaign(
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


def staged(entry: Entry, workload: str) -> Entry:
    """Return the staging place, used while an earlier set stays at its own."""
    return replace(entry, results=staged_results(entry.results, workload))


def discard(entry: Entry, place: Entry, workload: str) -> None:
    """Delete a set that was refused before its first clock."""
    shutil.rmtree(
        place.results if place != entry else state_folder(entry.results, workload),
        ignore_errors=True,
    )


def take_place(entry: Entry, place: Entry, workload: str, campaign: Campaign) -> None:
    """Move a complete set to its final place, and the earlier one aside. A second call can recover
    from an interruption.
    """
    state = state_folder(entry.results, workload)
    if not campaign.displacing:
        write(place.results, workload, replace(campaign, chosen=True))
        logs = entry.results / campaign.logs
        supersede(
            entry.results,
            [path for path in state.iterdir() if path != place.results] + records(logs),
        )
        write(place.results, workload, replace(campaign, chosen=True, displacing=True))
    for path in sorted(
        path
        for path in place.results.rglob("*")
        if path.is_file() and STATE not in path.relative_to(place.results).parts
    ):
        target = entry.results / path.relative_to(place.results)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
        sync(target.parent)
    write(entry.results, workload, replace(campaign, chosen=False, displacing=False))
    shutil.rmtree(place.results)


def set_aside(entry: Entry, place: Entry) -> Path:
    """Keep a set that does not replace the earlier one; return its folder."""
    ((_, target),) = supersede(entry.results, [place.results]).pairs
    return target


def unfinished(results: Path, workload: str) -> list[Path]:
    """Return the unfinished logs of the set whose state is in this folder."""
    try:
        campaign = read(results, workload)
    except RequestError:  # its state is moved aside, whatever it holds
        return []
    if campaign is None:
        return []
    logs = results / campaign.logs
    return sorted(logs.glob(LOGS + PARTIAL)) + (
        [] if any(logs.glob(LOGS)) else records(logs, (TELEMETRY,))
    )


def records(logs: Path, patterns: tuple[str, ...] = (LOGS, TELEMETRY)) -> list[Path]:
    """Return the logs of a set and the files next to them, finished or not."""
    return sorted(
        path
        for pattern in patterns
        for suffix in ("", PARTIAL)
        for path in logs.glob(pattern + suffix)
    )


def last(entry: Entry, workload: str) -> tuple[Entry, Campaign] | None:
    """Return the newest set and its place."""
    for place in (staged(entry, workload), entry):
        if (campaign := read(place.results, workload)) is not None:
            return place, campaign
    return None


def check_same(campaign: Campaign, identity: Mapping[str, Any], seed: int | None) -> None:
    """Refuse to resume a set that began with a different request."""
    asked = {**identity, "seed": campaign.seed if seed is None else seed}
    known = {**campaign.identity, "seed": campaign.seed}
    for key in sorted(asked.keys() | known.keys()):
        if asked.get(key) != known.get(key):
            raise RequestError(
                f"--resume: the set was started with {key} {known.get(key)}, not {asked.get(key)};"
                " without --resume a new set is started"
            )
