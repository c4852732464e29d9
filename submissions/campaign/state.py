"""The state of a campaign: `<results>/.podium/run-<workload>.json`; the harness keeps its own in
`.podium/<workload>/`.
"""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from submissions import compliance_check
from submissions.campaign import requested_options
from submissions.campaign.requested_options import Asked
from submissions.result_index import Result, find
from submissions.score import log_values
from suite import registry
from suite.cli import Options
from suite.errors import JudgedError, RequestError
from suite.events import NONCE
from suite.files.json_files import write_json
from suite.files.layout import STATE, slug, staged_campaign, staged_results, state_folder
from suite.files.untrusted_files import UnreadableError, read
from suite.records import RunRecord
from suite.rounds.settings import matters

LEFT_OPEN: Final = ("device", "precision", "threads", "system", "seed")
"""Options that a user may leave open, ..."""
OPEN_VALUES: Final = (None, "auto", 0)
"""... by these values."""


class Stage(StrEnum):
    """Progress of a campaign."""

    RUNNING = "running"
    FINISHED = "finished"
    MISSED = "missed"
    """Training missed its target: the next run starts over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """State of the most recent training set, written by the harness in
    `.podium/<workload>/campaign.json`.
    """

    nonce: str
    seed: int
    runs: int
    identity: Mapping[str, Any]
    """The options that it began with, settings as `setting <key>`."""
    endings: Mapping[str, str]
    """Run -> how it ended, for completed runs."""
    waiting: bool = False
    """It is staged next to an earlier set until complete (suite.files.layout.staged_results)."""

    @property
    def unfinished(self) -> bool:
        """Runs are left to do, or the set has not been moved into place."""
        return self.waiting or len(self.endings) < self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """State that the next `podium run` needs."""

    asked: Asked
    stage: Stage
    earlier: tuple[str, ...]
    """Nonces of earlier training sets in this place; a set with another nonce belongs to this
    campaign.
    """


STATE_OF_CAMPAIGN: Final = msgspec.json.Decoder(State)
STATE_OF_TRAINING: Final = msgspec.json.Decoder(TrainingState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One workload from training to bundle."""

    workload: str
    options: Options
    """With absolute paths; `results` is the folder in which the campaign runs."""
    home: Path
    """Folder that its results belong to: `results`, or a folder whose earlier campaign it will
    replace (suite.files.layout.staged_campaign).
    """
    seed: int | None
    runs: int | None
    challenge: str | None = None
    """Hexadecimal digits that its training set's nonce is derived from."""
    state: State

    @property
    def results(self) -> Path:
        """The results folder in which it runs."""
        return self.options.results

    def reached(self, stage: Stage) -> None:
        """Record its progress; RequestError if that cannot be written."""
        path = state_file(self.results, self.workload)
        try:
            write_json(path, asdict(replace(self.state, stage=stage)))
        except OSError as error:
            raise RequestError(f"{path}: {error.strerror}") from error

    def forget(self, before: State | None) -> None:
        """Restore the state from before this campaign, which was rejected before its first step."""
        path = state_file(self.results, self.workload)
        if self.results != self.home:
            shutil.rmtree(self.results)
        elif before is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, asdict(before))

    def training(self) -> TrainingState | None:
        """Return the state of this campaign's training set; None before there is one."""
        sets = training_states(self.results, self.workload)
        return next((found for found in sets if found.nonce not in self.state.earlier), None)

    def nonce(self) -> str | None:
        """Return the nonce of this campaign's training set; None before there is one."""
        found = self.training()
        return found.nonce if found else None

    def found(self) -> list[Result]:
        """Return the results of this workload and organisation, from any campaign."""
        return [
            result
            for result in find(self.results)
            if (result.workload, result.org) == (self.workload, self.options.org)
        ]

    def own(self) -> list[Result]:
        """Return the results of this campaign: with its nonce, and served as requested."""
        return [
            result
            for result in self.found()
            if (self.served(result) if result.scenario else self.trained(result))
        ]

    def trained(self, result: Result) -> bool:
        """Return whether a training set carries this campaign's nonce."""
        nonce = self.nonce()
        return nonce is not None and any(
            log_values.training(log).stamps.get(NONCE) == nonce for log in result.logs
        )

    def served(self, result: Result) -> bool:
        """Return whether all existing runs of a scenario belong to this campaign."""
        folders = [folder for folder in (result.accuracy, *result.performance) if folder.is_dir()]
        named = self.options.system is None or result.system == slug(self.options.system)
        return named and bool(folders) and all(self.keeps(folder) for folder in folders)

    def keeps(self, folder: Path) -> bool:
        """Return whether a LoadGen run carries this campaign's nonce and was made as requested."""
        try:
            record = log_values.served(folder)
        except JudgedError:
            return False
        return record.nonce == self.nonce() and self.as_asked(record)

    def as_asked(self, record: RunRecord) -> bool:
        """Return whether a run used the requested engine, precision and settings, as far as they
        affect it.
        """
        found = requested_options.to_json(
            {"engine": record.engine, "precision": record.precision, **record.settings}
        )
        wanted = self.state.asked.serving.items()
        return all(
            found.get(key) == value
            for key, value in wanted
            if matters(key, record.scenario, record.mode)
        )

    def training_is_done(self) -> bool:
        """Return whether the training set exists, nothing of it is left to do (its weights may not
        be in place yet), and the judge accepts it.
        """
        found = self.training()
        return (
            found is not None
            and not found.unfinished
            and any(
                compliance_check.valid(result) for result in self.own() if result.scenario is None
            )
        )


def begin(
    name: str, options: Options, seed: int | None, runs: int | None, challenge: str | None = None
) -> Campaign:
    """Resume the campaign of these results, or begin one; RequestError if an unfinished one began
    with other options.

    Once training is done, options that only serving depends on may change: the affected scenarios
    are then served again.
    """
    registry.workload(name)
    options = replace(
        options, results=options.results.absolute(), data=options.data and options.data.absolute()
    )
    wanted = requested_options.read(name, options, seed, runs, challenge)
    beside = staged_campaign(options.results, name)
    place = beside if state_file(beside, name).exists() else options.results
    old = read_state(place, name)
    taken = State(asked=wanted, stage=Stage.RUNNING, earlier=old.earlier if old else ())
    made = replace(options, results=place)
    campaign = Campaign(
        workload=name,
        options=made,
        home=options.results,
        seed=seed,
        runs=runs,
        challenge=challenge,
        state=taken,
    )
    if not (goes_on(campaign, old) if old else adopts(campaign)):
        campaign = anew(campaign)
    campaign.reached(Stage.RUNNING)
    return campaign


def anew(campaign: Campaign) -> Campaign:
    """Begin a campaign: staged next to existing results, or in place if there are none; a training
    set found there counts as an earlier campaign's.
    """
    if campaign.found():
        options = replace(
            campaign.options, results=staged_campaign(campaign.home, campaign.workload)
        )
        return replace(campaign, options=options, state=replace(campaign.state, earlier=()))
    earlier = tuple(found.nonce for found in training_states(campaign.results, campaign.workload))
    return replace(campaign, state=replace(campaign.state, earlier=earlier))


def goes_on(campaign: Campaign, old: State) -> bool:
    """Return whether to resume an earlier campaign; RequestError if it is unfinished and began with
    other options.
    """
    if old.stage is Stage.MISSED:
        return False
    differing = old.asked.differences(campaign.state.asked)
    if not differing or (
        old.asked.training == campaign.state.asked.training and campaign.training_is_done()
    ):
        return True
    if old.stage is Stage.FINISHED:
        return False
    changes = "; ".join(f"{key} {known}, not {new}" for key, known, new in differing)
    raise RequestError(
        f"the unfinished campaign of {campaign.workload} in {campaign.home} was begun with"
        f" {changes}: finish it as it was begun, take another --results, or remove"
        f" {state_file(campaign.results, campaign.workload)}"
    )


def adopts(campaign: Campaign) -> bool:
    """Return whether this campaign takes over what `podium train` began or finished here with the
    same request.
    """
    found = campaign.training()
    return (
        found is not None
        and as_asked(found, campaign)
        and (found.unfinished or campaign.training_is_done())
    )


def as_asked(found: TrainingState, campaign: Campaign) -> bool:
    """Compare a training set's state with a request; an option left open matches anything."""
    wanted = dict(campaign.state.asked.training)
    row = registry.round().benchmark(campaign.workload).training.get(campaign.options.profile)
    had = {**found.identity, "seed": found.seed, "runs": found.runs}
    wanted["runs"] = wanted["runs"] or (row.runs if row else None)
    wanted["system"] = wanted["system"] and slug(wanted["system"])
    known = {
        key: value
        for key, value in wanted.items()
        if key != "system_file" and not (key in LEFT_OPEN and value in OPEN_VALUES)
    }
    return all(had.get(key, had.get(f"setting {key}")) == value for key, value in known.items())


def state_file(results: Path, workload: str) -> Path:
    """Path of the state of a workload's campaign."""
    return results / STATE / f"run-{workload}.json"


def read_state(results: Path, workload: str) -> State | None:
    """Read the state; None if there is none, RequestError if it cannot be read."""
    try:
        return read(state_file(results, workload), STATE_OF_CAMPAIGN.decode)
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(
            f"{error.path}: cannot be read ({error.reason}); remove it to start again"
        ) from error


def training_states(results: Path, workload: str) -> list[TrainingState]:
    """Return the readable states of training sets: the one in place, then a staged one."""
    found = ((results, False), (staged_results(results, workload), True))
    states = (
        (read_training(state_folder(root, workload) / "campaign.json"), waiting)
        for root, waiting in found
    )
    return [replace(state, waiting=waiting) for state, waiting in states if state is not None]


def read_training(path: Path) -> TrainingState | None:
    """Read the state of one training set; None if it is missing or unreadable."""
    try:
        return read(path, STATE_OF_TRAINING.decode)
    except UnreadableError:
        return None
