"""A set of training runs on disk: what it was started with, which runs are over, and where the unfinished ones lie.

`<results>/.podium/<workload>/campaign.json`, with a folder `run_<i>` for each unfinished run.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from harness import seeds
from harness.supersede import Moved, supersede
from suite import reading
from suite.errors import RequestError
from suite.layout import PARTIAL, Entry, state_folder
from suite.reading import UnreadableError
from suite.records import write_json

FILE: Final = "campaign.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One set of training runs."""

    nonce: str
    """32 hex digits; binds every LoadGen run to this set."""
    seed: int
    """Of run 0; run i has seed + i."""
    runs: int
    logs: str
    """Folder of the logs, relative to the results folder."""
    identity: Mapping[str, Any]
    """What has to be the same for an unfinished run to go on."""
    endings: Mapping[str, str]
    """Run index -> how it ended, of those that are over."""


DECODER: Final = msgspec.json.Decoder(Campaign)


def state_of(results: Path, workload: str, run: int) -> Path:
    """Say where the state of one unfinished run lies."""
    return state_folder(results, workload) / f"run_{run}"


def read(results: Path, workload: str) -> Campaign | None:
    """Read a set's state, or None where there is none; RequestError where it cannot be read."""
    path = state_folder(results, workload) / FILE
    try:
        return reading.read(path, DECODER.decode)
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(f"{path}: cannot be read ({error.reason}); start anew without --resume") from error


def write(results: Path, workload: str, campaign: Campaign) -> None:
    """Write a set's state."""
    write_json(state_folder(results, workload) / FILE, to_plain(campaign))


def to_plain(campaign: Campaign) -> dict[str, Any]:
    """Turn into JSON types."""
    return cast(dict[str, Any], msgspec.to_builtins(campaign))


def from_plain(document: Mapping[str, Any]) -> Campaign:
    """Turn back from JSON types."""
    return msgspec.convert(document, Campaign)


def end_run(results: Path, workload: str, campaign: Campaign, run: int, ending: str) -> Campaign:
    """Note that a run is over."""
    campaign = replace(campaign, endings={**campaign.endings, str(run): ending})
    write(results, workload, campaign)
    return campaign


def begin(entry: Entry, training_name: str, workload: str, identity: Mapping[str, Any], seed: int | None, runs: int) -> tuple[Campaign, Moved]:
    """Begin a new set with a nonce of its own; an earlier one at the same place, and an unfinished one anywhere, are moved aside."""
    logs = entry.benchmark(training_name)
    elsewhere = unfinished(entry.results, workload)
    state = state_folder(entry.results, workload)  # first: without it, nobody takes the rest for a set that can go on
    moved = supersede(entry.results, [state, *logs.glob("result_*.txt"), *logs.glob(f"result_*.txt{PARTIAL}"), *elsewhere])
    campaign = Campaign(
        nonce=secrets.token_hex(16),
        seed=seeds.draw() if seed is None else seed,
        runs=runs,
        logs=str(logs.relative_to(entry.results)),
        identity=identity,
        endings={},
    )
    write(entry.results, workload, campaign)
    return campaign, moved


def unfinished(results: Path, workload: str) -> list[Path]:
    """Name the unfinished logs of the set whose state lies here."""
    try:
        campaign = read(results, workload)
    except RequestError:  # its state is moved aside, whatever it holds
        return []
    return [] if campaign is None else sorted((results / campaign.logs).glob(f"result_*.txt{PARTIAL}"))


def resume(entry: Entry, workload: str, identity: Mapping[str, Any], seed: int | None, runs: int | None) -> Campaign | None:
    """Give the set that was begun here, or None; RequestError where it was begun with something else."""
    campaign = read(entry.results, workload)
    if campaign is None:
        return None
    asked = {**identity, "seed": campaign.seed if seed is None else seed}
    known = {**campaign.identity, "seed": campaign.seed}
    for key in sorted(asked.keys() | known.keys()):
        if asked.get(key) != known.get(key):
            raise RequestError(f"--resume: the set was begun with {key} {known.get(key)}, not {asked.get(key)}; without --resume it is begun anew")
    return campaign if runs is None else replace(campaign, runs=runs)
