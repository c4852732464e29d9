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

from compliance.kinds.podium.results import log_values
from compliance.results.indexed_result import IndexedResult
from submissions import compliance_check
from submissions.campaign import requested_options
from submissions.campaign.requested_options import RequestedOptions
from submissions.result_index import find_results
from suite import registry
from suite.cli import RunOptions
from suite.errors import JudgedError, RequestError
from suite.events import NONCE
from suite.files.chosen_engine import read_chosen_engines
from suite.files.json_files import write_json
from suite.files.layout import (
    STATE_FOLDER,
    convert_to_slug,
    locate_staged_campaign,
    locate_staged_results,
    locate_state_folder,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.records import ServedRun, locate_system_folder
from suite.rounds.settings import can_affect_run
from suite.terms import AUTOMATIC_ENGINE
from suite.workload import Mode

OPEN_OPTIONS: Final = ("device", "precision", "threads", "system", "seed")
"""Options that a user may leave open, given as ..."""
OPEN_OPTION_VALUES: Final = (None, "auto", 0)
"""... by these values."""


class CampaignStage(StrEnum):
    """Progress of a campaign."""

    RUNNING = "running"
    FINISHED = "finished"
    MISSED = "missed"
    """Training missed its target; the next run starts over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingState:
    """State of the most recent run set, written by the harness in
    `.podium/<workload>/campaign.json`.
    """

    nonce: str
    seed: int
    runs: int
    identity: Mapping[str, Any]
    """The options that training began with; settings are `setting <key>`."""
    endings: Mapping[str, str]
    """Run -> how it ended, for completed runs."""
    waiting: bool = False
    """The set is staged next to an earlier one until complete
    (suite.files.layout.locate_staged_results).
    """

    @property
    def is_unfinished(self) -> bool:
        """Whether runs remain to be done, or the set has not been moved into place."""
        return self.waiting or len(self.endings) < self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignState:
    """State that the next `podium run` needs."""

    asked: RequestedOptions
    stage: CampaignStage
    earlier: tuple[str, ...]
    """Nonces of earlier run sets in this place; a set with another nonce belongs to this
    campaign.
    """


CAMPAIGN_STATE_DECODER: Final = msgspec.json.Decoder(CampaignState)
TRAINING_STATE_DECODER: Final = msgspec.json.Decoder(TrainingState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """One workload from training to bundle."""

    workload: str
    options: RunOptions
    """With absolute paths; `working_folder` is the folder in which the campaign runs."""
    destination_folder: Path
    """Folder that its results belong to: `working_folder`, or the folder of an earlier campaign
    that this one will replace (suite.files.layout.locate_staged_campaign).
    """
    seed: int | None
    runs: int | None
    serving_runs: int | None = None
    """Performance runs of each scenario; None: as many as `runs`."""
    challenge: str | None = None
    """Hexadecimal digits that its run set's nonce is derived from."""
    state: CampaignState

    @property
    def performance_runs(self) -> int | None:
        """Performance runs of each scenario; None: as many as the round asks for."""
        return self.serving_runs or self.runs

    @property
    def working_folder(self) -> Path:
        """The results folder in which it runs."""
        return self.options.results

    def record_stage(self, stage: CampaignStage) -> None:
        """Record its progress; RequestError if the state cannot be written."""
        path = locate_campaign_state(self.working_folder, self.workload)
        try:
            write_json(path, asdict(replace(self.state, stage=stage)))
        except OSError as error:
            raise RequestError(f"{path}: {error.strerror}") from error

    def restore_earlier_state(self, earlier_state: CampaignState | None) -> None:
        """Restore the state that preceded this campaign, which was rejected before its
        first step.
        """
        path = locate_campaign_state(self.working_folder, self.workload)
        if self.working_folder != self.destination_folder:
            shutil.rmtree(self.working_folder)
        elif earlier_state is None:
            path.unlink(missing_ok=True)
        else:
            write_json(path, asdict(earlier_state))

    def read_training_state(self) -> TrainingState | None:
        """Return the state of this campaign's run set; None before there is one."""
        sets = list_training_states(self.working_folder, self.workload)
        return next((found for found in sets if found.nonce not in self.state.earlier), None)

    def read_training_nonce(self) -> str | None:
        """Return the nonce of this campaign's run set; None before there is one."""
        found = self.read_training_state()
        if found:
            return found.nonce
        return None

    def find_workload_results(self) -> list[IndexedResult]:
        """Return the results of this workload and organisation, from any campaign."""
        return [
            result
            for result in find_results(self.working_folder)
            if (result.workload, result.org) == (self.workload, self.options.org)
        ]

    def find_own_results(self) -> list[IndexedResult]:
        """Return the results of this campaign: with its nonce, and served as requested."""
        return [each for each in self.find_workload_results() if self.is_own_result(each)]

    def is_own_result(self, result: IndexedResult) -> bool:
        """Check whether a result is of this campaign, and was served as requested."""
        if result.scenario:
            return self.is_own_served_result(result)
        return self.is_own_training_set(result)

    def is_own_training_set(self, result: IndexedResult) -> bool:
        """Return whether a run set carries this campaign's nonce."""
        nonce = self.read_training_nonce()
        return nonce is not None and any(
            log_values.read_training_values(log).stamps.get(NONCE) == nonce
            for log in result.training_logs
        )

    def is_own_served_result(self, result: IndexedResult) -> bool:
        """Return whether all runs of a scenario that exist belong to this campaign."""
        folders = [
            folder
            for folder in (result.accuracy_folder, *result.performance_folders)
            if folder.is_dir()
        ]
        named = self.options.system is None or result.system == convert_to_slug(self.options.system)
        return named and bool(folders) and all(self.is_own_run(folder) for folder in folders)

    def is_own_run(self, folder: Path) -> bool:
        """Return whether a LoadGen run carries this campaign's nonce and was made as requested."""
        try:
            record = log_values.read_loadgen_run_record(folder)
        except JudgedError:
            return False
        return record.system.nonce == self.read_training_nonce() and self.is_run_as_requested(
            record, folder
        )

    def is_run_as_requested(self, record: ServedRun, folder: Path) -> bool:
        """Return whether a run used the requested engine, precision and settings, as far as they
        affect it.
        """
        system = record.system
        found = requested_options.convert_to_json_types(
            {"engine": system.engine, "precision": system.precision, **record.settings}
        )
        scenario = locate_system_folder(folder).name
        if folder.name == Mode.ACCURACY:
            mode = Mode.ACCURACY
        else:
            mode = Mode.PERFORMANCE
        wanted = dict(self.state.asked.serving)
        if wanted.get("engine") == AUTOMATIC_ENGINE:
            wanted["engine"] = self.find_chosen_engine(record)
        return all(
            found.get(key) == value
            for key, value in wanted.items()
            if can_affect_run(key, scenario, mode)
        )

    def find_chosen_engine(self, record: ServedRun) -> str:
        """Return the engine that was chosen for a run's checkpoint; before the choice, the run's
        own.
        """
        system = record.system
        wanted = {"checkpoint": system.checkpoint_sha256, "precision": system.precision}
        fitting = {
            chosen.engine
            for chosen in read_chosen_engines(self.working_folder, self.workload)
            if wanted.items() <= dict(chosen.basis).items()
        }
        if system.engine in fitting:
            return system.engine
        return next(iter(fitting), system.engine)

    def is_training_done(self) -> bool:
        """Return whether the run set is complete (its weights may not be in place yet) and the
        judge accepts it.
        """
        found = self.read_training_state()
        return (
            found is not None
            and not found.is_unfinished
            and any(
                compliance_check.is_valid_result(result)
                for result in self.find_own_results()
                if result.scenario is None
            )
        )


def begin_campaign(
    name: str,
    options: RunOptions,
    seed: int | None,
    runs: int | None,
    challenge: str | None = None,
    serving_runs: int | None = None,
) -> Campaign:
    """Resume the campaign of these results, or begin one; RequestError if an unfinished one began
    with other options.

    Once training is done, options that only serving depends on may change: the affected scenarios
    are then served again.
    """
    registry.load_workload(name)
    options = replace(
        options, results=options.results.absolute(), data=options.data and options.data.absolute()
    )
    wanted = requested_options.parse_requested_options(name, options, seed, runs, challenge)
    staged_folder = locate_staged_campaign(options.results, name)
    if locate_campaign_state(staged_folder, name).exists():
        working_folder = staged_folder
    else:
        working_folder = options.results
    earlier_state = read_campaign_state(working_folder, name)
    new_state = CampaignState(
        asked=wanted,
        stage=CampaignStage.RUNNING,
        earlier=earlier_state.earlier if earlier_state else (),
    )
    placed_options = replace(options, results=working_folder)
    campaign = Campaign(
        workload=name,
        options=placed_options,
        destination_folder=options.results,
        seed=seed,
        runs=runs,
        serving_runs=serving_runs,
        challenge=challenge,
        state=new_state,
    )
    if earlier_state:
        is_continued = can_resume_campaign(campaign, earlier_state)
    else:
        is_continued = can_adopt_training(campaign)
    if not is_continued:
        campaign = build_new_campaign(campaign)
    campaign.record_stage(CampaignStage.RUNNING)
    return campaign


def build_new_campaign(campaign: Campaign) -> Campaign:
    """Begin a campaign: staged next to existing results, or in place if there are none. A training
    set found there counts as an earlier campaign's.
    """
    if campaign.find_workload_results():
        options = replace(
            campaign.options,
            results=locate_staged_campaign(campaign.destination_folder, campaign.workload),
        )
        return replace(campaign, options=options, state=replace(campaign.state, earlier=()))
    earlier = tuple(
        found.nonce for found in list_training_states(campaign.working_folder, campaign.workload)
    )
    return replace(campaign, state=replace(campaign.state, earlier=earlier))


def can_resume_campaign(campaign: Campaign, earlier_state: CampaignState) -> bool:
    """Return whether to resume an earlier campaign; RequestError if it is unfinished and began with
    other options.
    """
    if earlier_state.stage is CampaignStage.MISSED:
        return False
    differing = earlier_state.asked.list_differences(campaign.state.asked)
    if not differing or (
        earlier_state.asked.training == campaign.state.asked.training
        and campaign.is_training_done()
    ):
        return True
    if earlier_state.stage is CampaignStage.FINISHED:
        return False
    changes = "; ".join(f"{key} {known}, not {new}" for key, known, new in differing)
    raise RequestError(
        f"the unfinished campaign of {campaign.workload} in {campaign.destination_folder} began "
        f"with {changes}: finish it with its original options, choose another --results, or "
        f"remove {locate_campaign_state(campaign.working_folder, campaign.workload)}"
    )


def can_adopt_training(campaign: Campaign) -> bool:
    """Return whether this campaign takes over what `podium train` began or finished here with the
    same request.
    """
    found = campaign.read_training_state()
    return (
        found is not None
        and is_training_as_requested(found, campaign)
        and (found.is_unfinished or campaign.is_training_done())
    )


def is_training_as_requested(found: TrainingState, campaign: Campaign) -> bool:
    """Return whether a run set's state matches a request; an option left open matches
    anything.
    """
    wanted = dict(campaign.state.asked.training)
    row = registry.load_round().benchmark(campaign.workload).training.get(campaign.options.profile)
    recorded = {**found.identity, "seed": found.seed, "runs": found.runs}
    wanted["runs"] = wanted["runs"] or (row.runs if row else None)
    wanted["system"] = wanted["system"] and convert_to_slug(wanted["system"])
    known = {
        key: value
        for key, value in wanted.items()
        if key != "system_file" and not (key in OPEN_OPTIONS and value in OPEN_OPTION_VALUES)
    }
    return all(
        recorded.get(key, recorded.get(f"setting {key}")) == value for key, value in known.items()
    )


def locate_campaign_state(results: Path, workload: str) -> Path:
    """Path of the state of a workload's campaign."""
    return results / STATE_FOLDER / f"run-{workload}.json"


def read_campaign_state(results: Path, workload: str) -> CampaignState | None:
    """Read the state; None if there is none, RequestError if it cannot be read."""
    try:
        return read_untrusted_file(
            locate_campaign_state(results, workload), CAMPAIGN_STATE_DECODER.decode
        )
    except UnreadableError as error:
        if error.missing:
            return None
        raise RequestError(
            f"{error.path}: cannot be read ({error.reason}); remove it to start again"
        ) from error


def list_training_states(results: Path, workload: str) -> list[TrainingState]:
    """Return the readable states of run sets: the one in place, then a staged one."""
    found = ((results, False), (locate_staged_results(results, workload), True))
    states = (
        (read_training_state_file(locate_state_folder(root, workload) / "campaign.json"), waiting)
        for root, waiting in found
    )
    return [replace(state, waiting=waiting) for state, waiting in states if state is not None]


def read_training_state_file(path: Path) -> TrainingState | None:
    """Read the state of one run set; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(path, TRAINING_STATE_DECODER.decode)
    except UnreadableError:
        return None
