"""Ledger entries of a run set: its start, how each run ended, and which weights were
stored.
"""

from pathlib import Path
from typing import Final

from harness.training.loop import RunEnding
from harness.training.mllog_writer import LogError, MllogWriter
from harness.training.run_context import TrainingJob
from harness.training.state.set_state import TrainingSetState
from suite import events
from suite.files.layout import CHECKPOINT_RECORD, compute_file_sha256, locate_checkpoint_folder
from suite.ledger.book import compute_json_sha256, format_utc_now
from suite.ledger.steps import AttemptKind, StepKind

ENDING_STEPS: Final = {RunEnding.REACHED: StepKind.TRAINED, RunEnding.BROKEN: StepKind.ABORTED}
"""How a run ended -> its ledger step; the other endings missed the target."""


def record_set_start(job: TrainingJob, campaign: TrainingSetState) -> None:
    """Record the start of a set, once per set, before the clock of its first run and after the last
    check that may refuse it.
    """
    ledger = job.ledger
    ledger.settle()
    if any(
        step.step is StepKind.BEGIN
        and (step.what, step.nonce) == (AttemptKind.TRAINING, campaign.nonce)
        for step in ledger.read_steps()
    ):
        return
    ledger.begin(
        AttemptKind.TRAINING,
        campaign.logs,
        campaign.nonce,
        options={**campaign.identity, "seed": campaign.seed, "runs": campaign.runs},
        system=compute_json_sha256(job.training.system),
        challenge=campaign.challenge,
        random=campaign.random,
    )


def record_run_end(
    job: TrainingJob, campaign: TrainingSetState, index: int, log: MllogWriter, ending: RunEnding
) -> None:
    """Record how a run ended, with its telemetry, then give its log its final name; LogError or
    LedgerError if the disk is full. The log says if telemetry was lost; that of a broken run is
    still being written.
    """
    telemetry, named = job.get_telemetry_path(index), {}
    ended = format_utc_now()  # a busy disk takes seconds for what follows
    try:
        if telemetry.is_file():
            named = {f"{campaign.logs}/{telemetry.name}": compute_file_sha256(telemetry)}
        elif ending is not RunEnding.BROKEN:
            sentence = f"{telemetry.name} is lost; the command that trained said why"
            log.log_point(events.TELEMETRY_LOST, sentence)
        log.sync_log()
        files = {f"{campaign.logs}/result_{index}.txt": compute_file_sha256(log.partial)} | named
    except OSError as error:
        raise LogError(f"cannot finish the log {log.partial}: {error.strerror}") from error
    kind = ENDING_STEPS.get(ending, StepKind.MISSED)
    job.ledger.append(
        kind,
        files,
        utc=ended,
        what=AttemptKind.TRAINING,
        of=campaign.logs,
        nonce=campaign.nonce,
        verdict=ending.value,
    )
    log.finish()


def record_export(job: TrainingJob, campaign: TrainingSetState, sha256: str, folder: Path) -> None:
    """Record which weights are about to be stored, from the record next to them in a folder."""
    name = (
        locate_checkpoint_folder(job.working_entry.results, job.name, sha256).relative_to(
            job.working_entry.results
        )
        / CHECKPOINT_RECORD
    )
    job.ledger.append(
        StepKind.EXPORTED,
        {name.as_posix(): compute_file_sha256(folder / CHECKPOINT_RECORD)},
        nonce=campaign.nonce,
    )
