"""Ledger entries of a training set: its start, how each run ended, and which weights were
stored.
"""

from pathlib import Path
from typing import Final

from harness.training.loop import Ending
from harness.training.mllog_writer import Log, LogError
from harness.training.run_context import Job
from harness.training.state.set_state import Campaign
from suite.files.layout import CHECKPOINT_RECORD, checkpoint_folder, file_sha256
from suite.ledger.book import json_sha256
from suite.ledger.steps import StepKind, What

STEPS: Final = {Ending.REACHED: StepKind.TRAINED, Ending.BROKEN: StepKind.ABORTED}
"""How a run ended -> its ledger step; the other endings missed the target."""


def begun(job: Job, campaign: Campaign) -> None:
    """Record the start of a set, once per set, before the clock of its first run and after the last
    check that may refuse it.
    """
    ledger = job.ledger
    ledger.settle()
    if any(
        step.step is StepKind.BEGIN and (step.what, step.nonce) == (What.TRAINING, campaign.nonce)
        for step in ledger.steps()
    ):
        return
    ledger.begin(
        What.TRAINING,
        campaign.logs,
        campaign.nonce,
        options={**campaign.identity, "seed": campaign.seed, "runs": campaign.runs},
        system=json_sha256(job.system),
        challenge=campaign.challenge,
        random=campaign.random,
    )


def finish(job: Job, campaign: Campaign, index: int, log: Log, ending: Ending) -> None:
    """Record how a run ended, then give its log its final name; LogError or LedgerError if the disk
    is full.
    """
    try:
        log.sync()
        files = {f"{campaign.logs}/result_{index}.txt": file_sha256(log.partial)}
    except OSError as error:
        raise LogError(f"cannot finish the log {log.partial}: {error.strerror}") from error
    kind = STEPS.get(ending, StepKind.MISSED)
    job.ledger.append(
        kind,
        files,
        what=What.TRAINING,
        of=campaign.logs,
        nonce=campaign.nonce,
        verdict=ending.value,
    )
    log.finish()


def exported(job: Job, campaign: Campaign, sha256: str, folder: Path) -> None:
    """Record which weights are about to be stored, from the record next to them in a folder."""
    name = (
        checkpoint_folder(job.place.results, job.name, sha256).relative_to(job.place.results)
        / CHECKPOINT_RECORD
    )
    job.ledger.append(
        StepKind.EXPORTED,
        {name.as_posix(): file_sha256(folder / CHECKPOINT_RECORD)},
        nonce=campaign.nonce,
    )
